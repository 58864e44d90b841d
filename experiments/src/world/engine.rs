//! An engine whose runs take the time that their arguments say, on the world's clock.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use fleet::{Engine, Event, EventSender, GraphError, Outcome, RunRequest, Status, Usage};
use futures::FutureExt;
use futures::future::BoxFuture;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use tokio::time::{Instant, sleep, sleep_until};
use tokio_util::sync::CancellationToken;
use uuid::Uuid;

use super::moment::run_length;

/// From a cancel to the end of the run: the reference's means take 2.0 s with a look every 3 s, of which 1.5 s are
/// the wait for the look.
const STOPPING: Duration = Duration::from_millis(500);

/// A run's arguments: what it is to do.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Asked {
    run_ms: u64,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    text: Option<Text>,
}

/// A result: one character, so many times.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Text {
    pub(crate) of: char,
    pub(crate) times: usize,
}

impl Asked {
    /// A run of about that length, to the hundredth of a second.
    pub(crate) fn lasting(length: Duration) -> Self {
        Self { run_ms: run_length(length), text: None }
    }

    /// The same, with a result.
    pub(crate) fn answering(length: Duration, text: Text) -> Self {
        Self { text: Some(text), ..Self::lasting(length) }
    }
}

/// A run that was started.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Run {
    pub(crate) started: Instant,
    /// None while it runs, and for ever when the desktop was stopped meanwhile.
    pub(crate) ended: Option<Instant>,
}

/// Clones share everything.
#[derive(Clone, Default)]
pub(crate) struct TimedEngine(Arc<Mutex<State>>);

#[derive(Default)]
struct State {
    runs: Vec<Run>,
    on: HashMap<Uuid, CancellationToken>,
}

impl TimedEngine {
    /// Every run so far, in the order of their starts.
    pub(crate) fn runs(&self) -> Vec<Run> {
        self.state().runs.clone()
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    async fn run(self, request: RunRequest, events: EventSender) -> Outcome {
        let id = request.execution_id;
        let cancelled = CancellationToken::new();
        let at = {
            let mut state = self.state();
            state.on.insert(id, cancelled.clone());
            state.runs.push(Run { started: Instant::now(), ended: None });
            state.runs.len() - 1
        };
        // Nobody reads the events of a run whose desktop has stopped.
        drop(events.send(Event::FleetStarted { execution_id: id, graph: request.graph, depth: 0 }));
        let outcome = match serde_json::from_value::<Asked>(request.arguments) {
            Ok(asked) => act(asked, cancelled).await,
            Err(error) => ended(Status::Failed, Err(GraphError::new("StartError", "bad_args", error.to_string()))),
        };
        {
            let mut state = self.state();
            state.on.remove(&id);
            state.runs[at].ended = Some(Instant::now());
        }
        let (status, error, usage) = (outcome.status, outcome.error.clone(), outcome.usage);
        drop(events.send(Event::FleetFinished { status, error, usage }));
        outcome
    }
}

async fn act(asked: Asked, cancelled: CancellationToken) -> Outcome {
    let end = Instant::now() + Duration::from_millis(asked.run_ms);
    let stopped = async {
        cancelled.cancelled().await;
        sleep(STOPPING).await;
    };
    tokio::select! {
        // A script that is over before it could be stopped has its result.
        biased;
        () = sleep_until(end) => {
            let result = asked.text.map_or(Value::Null, |text| text.of.to_string().repeat(text.times).into());
            ended(Status::Completed, Ok(result))
        }
        () = stopped => {
            ended(Status::Cancelled, Err(GraphError::new("CancelledError", "cancelled", "the run was cancelled")))
        }
    }
}

fn ended(status: Status, result: Result<Value, GraphError>) -> Outcome {
    let (result, error) = match result {
        Ok(result) => (Some(result), None),
        Err(error) => (None, Some(error)),
    };
    Outcome { status, result, error, usage: Usage::default() }
}

impl Engine for TimedEngine {
    fn run(&self, request: RunRequest, events: EventSender) -> BoxFuture<'static, Outcome> {
        self.clone().run(request, events).boxed()
    }

    fn cancel(&self, execution_id: Uuid) -> bool {
        let state = self.state();
        let run = state.on.get(&execution_id);
        run.inspect(|run| run.cancel()).is_some()
    }
}
