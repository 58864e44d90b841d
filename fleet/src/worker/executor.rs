//! The queue of microtasks. The engine's stock executor polls timers in a busy loop; a worker has no timers, and
//! between microtasks it sleeps until the parent speaks.

use std::cell::RefCell;
use std::collections::VecDeque;
use std::rc::Rc;

use boa_engine::context::Context;
use boa_engine::job::{Job, JobExecutor};
use boa_engine::{JsResult, JsValue};

/// Promise jobs in the order they came. Anything that would need a timer or a thread is dropped: no API that makes
/// such a job is left in the realm.
#[derive(Default)]
pub(super) struct Microtasks(RefCell<VecDeque<Job>>);

impl Microtasks {
    /// Runs the oldest job. `None` when there is none.
    pub(super) fn run_one(&self, context: &mut Context) -> Option<JsResult<JsValue>> {
        let job = self.0.borrow_mut().pop_front()?;
        Some(match job {
            Job::PromiseJob(job) => job.call(context),
            Job::GenericJob(job) => job.call(context),
            _ => Ok(JsValue::undefined()),
        })
    }
}

impl JobExecutor for Microtasks {
    fn enqueue_job(self: Rc<Self>, job: Job, _context: &mut Context) {
        self.0.borrow_mut().push_back(job);
    }

    fn run_jobs(self: Rc<Self>, context: &mut Context) -> JsResult<()> {
        while let Some(result) = self.run_one(context) {
            result?;
        }
        Ok(())
    }
}
