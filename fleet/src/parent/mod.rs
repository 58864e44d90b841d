//! The parent's half of a run: everything that a script can cause, and every limit on it.
//!
//! State is in memory only, one [`run::Run`] for each execution. After a crash of this process the workers notice that
//! their pipes closed and end; nothing is resumed here.
//!
//! - `run`: one execution from its first event to its last.
//! - `script`: one worker and the script in it, child Graphs included.
//! - `prepare`: what must be right before the first line.
//! - `calls`: what a script asks for; `tells`: what it only says.
//! - `budget`: tokens, agents and places at work.
//! - `hold`: values against the schemas that scripts bring.
//! - `process`: the worker process itself.

mod agents;
mod budget;
mod calls;
mod conversation;
mod hold;
mod prepare;
mod process;
mod run;
mod script;
mod tells;

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};

use futures::future::BoxFuture;
use tokio_util::sync::CancellationToken;
use uuid::Uuid;

use crate::models::Backends;
use crate::{CheckError, Engine, EventSender, Meta, Outcome, RunRequest, Settings};

/// The real engine: each script in a worker process of its own.
#[derive(Clone)]
pub struct Fleet {
    shared: Arc<Shared>,
}

/// What all runs of one engine have in common.
struct Shared {
    settings: Settings,
    backends: Backends,
    /// The runs that are on, by their execution id.
    running: Mutex<HashMap<Uuid, CancellationToken>>,
}

impl Fleet {
    /// An engine with these settings. Starts nothing.
    pub fn new(settings: Settings) -> Self {
        let backends = Backends::new(&settings.models, settings.default_model.clone());
        Self { shared: Arc::new(Shared { settings, backends, running: Mutex::default() }) }
    }

    /// Parses the script in a worker: its meta, or everything that is wrong with it.
    ///
    /// Finds syntax errors, a `meta` that is no pure literal, names that nothing declares, declarations that clash,
    /// `import` and the like. Runs nothing.
    ///
    /// # Errors
    /// [`CheckError::Problems`] with the place of each, [`CheckError::Engine`] when the script exhausts the worker.
    pub async fn check(&self, file: &str, source: &str) -> Result<Meta, CheckError> {
        let settings = &self.shared.settings;
        script::check(&settings.worker, &settings.ceiling.as_ceiling(), file, source).await
    }
}

impl Engine for Fleet {
    fn run(&self, request: RunRequest, events: EventSender) -> BoxFuture<'static, Outcome> {
        Box::pin(run::run(Arc::clone(&self.shared), request, events))
    }

    fn cancel(&self, execution_id: Uuid) -> bool {
        match self.shared.running().get(&execution_id) {
            Some(run) => {
                run.cancel();
                true
            }
            None => false,
        }
    }
}

impl Shared {
    fn running(&self) -> std::sync::MutexGuard<'_, HashMap<Uuid, CancellationToken>> {
        // Only single map operations run under the lock, so a panic leaves nothing half done.
        self.running.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
