//! The parent's half of a run.

use futures::future::BoxFuture;
use uuid::Uuid;

use crate::{CheckError, Engine, EventSender, Meta, Outcome, RunRequest, Settings};

/// The real engine: each run in a worker process of its own.
#[derive(Clone)]
pub struct Fleet {
    settings: std::sync::Arc<Settings>,
}

impl Fleet {
    /// An engine with these settings. Starts nothing.
    pub fn new(settings: Settings) -> Self {
        Self { settings: std::sync::Arc::new(settings) }
    }

    /// Parses the script in a worker: its meta, or everything that is wrong with it.
    pub async fn check(&self, _file: &str, _source: &str) -> Result<Meta, CheckError> {
        let _ = &self.settings;
        Ok(Meta::default())
    }
}

impl Engine for Fleet {
    fn run(&self, _request: RunRequest, _events: EventSender) -> BoxFuture<'static, Outcome> {
        Box::pin(async {
            Outcome {
                status: crate::Status::Failed,
                result: None,
                error: Some(crate::GraphError::new("EngineError", "unfinished", "the engine is not built yet")),
                usage: crate::Usage::default(),
            }
        })
    }

    fn cancel(&self, _execution_id: Uuid) -> bool {
        false
    }
}
