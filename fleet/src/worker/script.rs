//! The life of one script: from its text to its result.
//!
//! | state | message or event | then |
//! |---|---|---|
//! | waiting | `start` | parsed and checked: `ready` or `refused` |
//! | waiting | `hold` | a value is held to a schema: `held`, and the process ends |
//! | ready | `hold` | the same, and it stays ready |
//! | ready | `begin` | running |
//! | running | `reply`, `cancel` | a pending call settles, or all do |
//! | running | microtasks empty, a call is pending | sleep until a message comes |
//! | running | microtasks empty, nothing pending, main promise pending | `failed`: it can never settle |
//! | running | main promise settled | `done` or `failed`, and the process ends |

use std::rc::Rc;
use std::sync::mpsc;

use boa_engine::builtins::promise::PromiseState;
use boa_engine::object::builtins::JsPromise;
use boa_engine::{Context, JsResult, JsValue, Script, Source};
use serde_json::Value;

use super::executor::Microtasks;
use super::failure::{self, Site};
use super::host::{self, Host, ResultError};
use super::{memory, realm};
use crate::check::{self, SOURCE_PATH};
use crate::wire::{Begin, FromWorker, LINE_BYTES, ToWorker};
use crate::{GraphError, exit_code, schema};

/// Microtasks between two looks at the inbox: a chain of promises without end still hears a cancel.
const JOBS_BETWEEN_POLLS: u32 = 64;

/// The body of the script's thread. Ends the process.
pub(super) fn live(inbox: mpsc::Receiver<ToWorker>) {
    let host = Host::new(inbox);
    let (source, memory_mb) = match host.wait() {
        ToWorker::Start { source, memory_mb } => (source, memory_mb),
        ToWorker::Hold { schema, value, memory_mb } => {
            memory::set_cap(memory_mb);
            finish(&host, &held(&schema, value.as_ref()))
        }
        _ => memory::exit_now(exit_code::PROTOCOL),
    };
    memory::set_cap(memory_mb);
    let jobs = Rc::new(Microtasks::default());
    let Ok(mut context) = realm::build(&host, &jobs) else { memory::exit_now(exit_code::PANIC) };

    let checked = match check::inspect(&source, &realm::global_names(&mut context)) {
        Ok(checked) => checked,
        Err(problems) => finish(&host, &FromWorker::Refused { problems }),
    };
    drop(source);
    say(&host, &FromWorker::Ready { meta: Box::new(checked.meta) });

    let begin = loop {
        match host.wait() {
            ToWorker::Begin(begin) => break begin,
            ToWorker::Hold { schema, value, .. } => say(&host, &held(&schema, value.as_ref())),
            ToWorker::Cancel => finish(&host, &FromWorker::Cancelled),
            _ => memory::exit_now(exit_code::PROTOCOL),
        }
    };
    memory::set_cap(begin.memory_mb);
    match run(&checked.code, *begin, &host, &jobs, &mut context) {
        Ok(value) => finish_with_result(&host, &value, &mut context),
        Err(error) => finish(&host, &FromWorker::Failed { error }),
    }
}

fn held(schema: &Value, value: Option<&Value>) -> FromWorker {
    FromWorker::Held { verdict: schema::check(schema, value) }
}

/// Runs the script until its main promise settles.
fn run(
    code: &str,
    begin: Begin,
    host: &Rc<Host>,
    jobs: &Rc<Microtasks>,
    context: &mut Context,
) -> Result<JsValue, GraphError> {
    host.set_spent(begin.spent);
    let main = realm::install_run(begin, context)
        .and_then(|()| start(code, context))
        .map_err(|error| failure::describe(error, host, context))?;
    loop {
        run_jobs(host, jobs, context).map_err(|error| failure::describe(error, host, context))?;
        match main.state() {
            PromiseState::Fulfilled(value) => return Ok(value),
            PromiseState::Rejected(reason) => {
                return Err(failure::describe_value(&reason, Site::default(), host, context));
            }
            PromiseState::Pending if host.open_calls() == 0 => return Err(never_settles()),
            PromiseState::Pending => {}
        }
        let message = host.wait();
        host.take(message, context).map_err(|error| failure::describe(error, host, context))?;
    }
}

/// Evaluates the wrapped script, which is an async function, and calls it.
fn start(code: &str, context: &mut Context) -> JsResult<JsPromise> {
    let source = Source::from_bytes(code.as_bytes()).with_path(std::path::Path::new(SOURCE_PATH));
    let main = Script::parse(source, None, context)?.evaluate(context)?;
    let main = main.as_callable().expect("the checker proved that the script is one function");
    let promise = main.call(&JsValue::undefined(), &[], context)?;
    JsPromise::from_object(promise.as_object().expect("an async function returns a promise"))
}

fn run_jobs(host: &Host, jobs: &Microtasks, context: &mut Context) -> JsResult<()> {
    let mut since_poll = 0;
    while let Some(result) = jobs.run_one(context) {
        result?;
        since_poll += 1;
        if since_poll == JOBS_BETWEEN_POLLS {
            since_poll = 0;
            context.clear_kept_objects();
            while let Some(message) = host.poll() {
                host.take(message, context)?;
            }
        }
    }
    context.clear_kept_objects();
    Ok(())
}

/// A limit of the engine that is hit after an `await` is lost inside it, and looks the same from outside.
fn never_settles() -> GraphError {
    let message = "the script waits for a promise that nothing will ever settle: no call is under way and no work is \
                   left (functions that call each other without end, after an await, end like this too)";
    GraphError::new("GraphError", "never_settles", message)
}

fn finish_with_result(host: &Host, value: &JsValue, context: &mut Context) -> ! {
    let error = match host::result_text(host, value, context) {
        Ok(result) if result.len() + 256 > LINE_BYTES => GraphError::new(
            "GraphError",
            "too_large",
            format!("the result has {} bytes as JSON; at most {LINE_BYTES}", result.len()),
        ),
        Ok(result) => {
            let open_calls = host.open_calls();
            host.say(&format!("{{\"say\":\"done\",\"open_calls\":{open_calls},\"result\":{result}}}"));
            memory::exit_now(exit_code::DONE)
        }
        Err(ResultError::Unfit(unfit)) => unfit.error("the result"),
        Err(ResultError::Threw(error)) => failure::describe(error, host, context),
    };
    finish(host, &FromWorker::Failed { error })
}

fn say(host: &Host, message: &FromWorker) {
    host.say(&serde_json::to_string(message).expect("a message has string keys only"));
}

fn finish(host: &Host, message: &FromWorker) -> ! {
    say(host, message);
    memory::exit_now(exit_code::DONE)
}
