//! An engine whose runs take the time that the test gives them.

use std::collections::{HashMap, VecDeque};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use fleet::{Engine, Event, EventSender, GraphError, Outcome, RunRequest, Status, Usage};
use futures::future::BoxFuture;
use serde_json::{Value, json};
use tokio::time::sleep;
use tokio_util::sync::CancellationToken;
use uuid::Uuid;

use super::harness::VirtualClock;

/// How one run goes.
#[derive(Debug, Clone)]
pub(super) struct Plan {
    /// How long it takes.
    pub(super) takes: Duration,
    /// How it ends then.
    pub(super) outcome: Outcome,
    /// How long it takes to stop; none for one that ends as if nobody had asked.
    pub(super) stops_in: Option<Duration>,
    /// What it tells right after its start.
    pub(super) events: Vec<Event>,
}

impl Plan {
    /// A run of so many seconds that ends well.
    pub(super) fn takes(seconds: u64) -> Self {
        Self {
            takes: Duration::from_secs(seconds),
            outcome: completed(json!({"ok": true})),
            stops_in: Some(Duration::ZERO),
            events: Vec::new(),
        }
    }

    pub(super) fn returns(self, result: Value) -> Self {
        Self { outcome: completed(result), ..self }
    }
}

pub(super) fn completed(result: Value) -> Outcome {
    Outcome { status: Status::Completed, result: Some(result), error: None, usage: Usage::default() }
}

pub(super) fn ended_by(status: Status, error: GraphError) -> Outcome {
    Outcome { status, result: None, error: Some(error), usage: Usage::default() }
}

/// A run, as the engine saw it.
#[derive(Debug, Clone)]
pub(super) struct Run {
    pub(super) execution: Uuid,
    pub(super) source: String,
    pub(super) arguments: Value,
    pub(super) began: Duration,
    /// None while it is on, and for one that was killed.
    pub(super) ended: Option<Duration>,
}

#[derive(Default)]
struct State {
    plans: VecDeque<Plan>,
    runs: Vec<Run>,
    on: HashMap<Uuid, CancellationToken>,
    most_at_once: usize,
    cancels: Vec<Uuid>,
}

/// The engine.
pub(super) struct FakeEngine {
    clock: Arc<VirtualClock>,
    state: Arc<Mutex<State>>,
}

impl FakeEngine {
    pub(super) fn new(clock: Arc<VirtualClock>) -> Arc<Self> {
        Arc::new(Self { clock, state: Arc::default() })
    }

    /// The next run goes so. Without a plan a run takes 5 s and ends well.
    pub(super) fn plan(&self, plan: Plan) {
        lock(&self.state).plans.push_back(plan);
    }

    pub(super) fn runs(&self) -> Vec<Run> {
        lock(&self.state).runs.clone()
    }

    /// When each run began, in whole seconds.
    pub(super) fn began(&self) -> Vec<u64> {
        self.runs().iter().map(|run| run.began.as_secs()).collect()
    }

    pub(super) fn most_at_once(&self) -> usize {
        lock(&self.state).most_at_once
    }

    /// How often it was asked to cancel.
    pub(super) fn cancels(&self) -> usize {
        lock(&self.state).cancels.len()
    }
}

impl Engine for FakeEngine {
    fn run(&self, request: RunRequest, events: EventSender) -> BoxFuture<'static, Outcome> {
        let (clock, state) = (Arc::clone(&self.clock), Arc::clone(&self.state));
        Box::pin(async move {
            let id = request.execution_id;
            let (plan, stop) = begin(&mut lock(&state), &request, clock.elapsed());
            let _on = On { state: Arc::clone(&state), id };
            let tell = |event| drop(events.send(event));
            tell(Event::FleetStarted { execution_id: id, graph: request.graph, depth: 0 });
            plan.events.into_iter().for_each(tell);
            let cancelled = async {
                stop.cancelled().await;
                match plan.stops_in {
                    Some(time) => sleep(time).await,
                    None => std::future::pending().await,
                }
            };
            let outcome = tokio::select! {
                () = sleep(plan.takes) => plan.outcome,
                () = cancelled => {
                    ended_by(Status::Cancelled, GraphError::new("CancelledError", "cancelled", "the run was cancelled"))
                }
            };
            lock(&state)
                .runs
                .iter_mut()
                .filter(|run| run.execution == id)
                .for_each(|run| run.ended = Some(clock.elapsed()));
            outcome
        })
    }

    fn cancel(&self, execution_id: Uuid) -> bool {
        let mut state = lock(&self.state);
        state.cancels.push(execution_id);
        state.on.get(&execution_id).map(CancellationToken::cancel).is_some()
    }
}

fn begin(state: &mut State, request: &RunRequest, now: Duration) -> (Plan, CancellationToken) {
    let stop = CancellationToken::new();
    state.on.insert(request.execution_id, stop.clone());
    state.most_at_once = state.most_at_once.max(state.on.len());
    state.runs.push(Run {
        execution: request.execution_id,
        source: request.source.to_string(),
        arguments: request.arguments.clone(),
        began: now,
        ended: None,
    });
    (state.plans.pop_front().unwrap_or_else(|| Plan::takes(5)), stop)
}

/// A run that is on; gone when its future is dropped, as the real engine kills its process.
struct On {
    state: Arc<Mutex<State>>,
    id: Uuid,
}

impl Drop for On {
    fn drop(&mut self) {
        lock(&self.state).on.remove(&self.id);
    }
}

fn lock(state: &Mutex<State>) -> MutexGuard<'_, State> {
    state.lock().unwrap_or_else(PoisonError::into_inner)
}
