//! One execution, from its first event to its last.

use std::sync::atomic::{AtomicU32, AtomicU64, AtomicUsize, Ordering::SeqCst};
use std::sync::{Arc, Mutex, PoisonError};

use tokio::sync::Semaphore;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;
use uuid::Uuid;

use super::Shared;
use super::budget::Budget;
use super::script::{self, Graph};
use crate::limits::{DEPTH, DETAIL_BYTES};
use crate::models::Breaker;
use crate::{EffectiveLimits, Event, EventSender, GraphError, Outcome, RunRequest, Status, TokenUsage, Usage};

/// What the scripts of one execution share: the outermost Graph and its children.
pub(super) struct Run {
    pub(super) shared: Arc<Shared>,
    pub(super) request: RunRequest,
    pub(super) limits: EffectiveLimits,
    pub(super) deadline: Instant,
    pub(super) breaker: Breaker,
    /// For each depth, the child Graphs that may be on at once. One for each depth: a child that waits for its own
    /// children must not keep their place.
    pub(super) children: Vec<Semaphore>,
    /// File access that may be on at once.
    pub(super) tools: Semaphore,
    events: EventSender,
    next_agent: AtomicU32,
    next_call: AtomicU32,
    /// Host calls of all scripts.
    pub(super) host_calls: AtomicU32,
    /// What they said, and the failures that they told.
    pub(super) told: AtomicU32,
    pub(super) failures_told: AtomicU32,
    /// Of the tools' inputs and errors that were told.
    detail_bytes: AtomicUsize,
    agent_failures: AtomicU64,
    usage: Mutex<Spent>,
}

/// Tokens and money so far.
#[derive(Default)]
struct Spent {
    tokens: TokenUsage,
    cost: f64,
    /// Whether some agent's model has no price.
    unpriced: bool,
}

impl Run {
    fn new(shared: Arc<Shared>, request: RunRequest, events: EventSender) -> Self {
        let limits = shared.settings.ceiling.as_ceiling().narrowed_by(&request.limits);
        let places = limits.max_concurrency as usize;
        Self {
            shared,
            request,
            limits,
            deadline: Instant::now() + limits.timeout,
            breaker: Breaker::default(),
            children: (0..DEPTH).map(|_| Semaphore::new(places)).collect(),
            tools: Semaphore::new(8),
            events,
            next_agent: AtomicU32::new(1),
            next_call: AtomicU32::new(1),
            host_calls: AtomicU32::new(0),
            told: AtomicU32::new(0),
            failures_told: AtomicU32::new(0),
            detail_bytes: AtomicUsize::new(0),
            agent_failures: AtomicU64::new(0),
            usage: Mutex::default(),
        }
    }

    /// Tells an event. Nobody has to listen.
    pub(super) fn tell(&self, event: Event) {
        let _ = self.events.send(event);
    }

    pub(super) fn next_agent(&self) -> u32 {
        self.next_agent.fetch_add(1, SeqCst)
    }

    pub(super) fn next_call(&self) -> u32 {
        self.next_call.fetch_add(1, SeqCst)
    }

    /// Whether the history takes so many more bytes of detail.
    pub(super) fn has_room(&self, bytes: usize) -> bool {
        self.detail_bytes.fetch_add(bytes, SeqCst).saturating_add(bytes) <= DETAIL_BYTES
    }

    pub(super) fn agent_failed(&self) {
        self.agent_failures.fetch_add(1, SeqCst);
    }

    /// Counts what one request of an agent used.
    pub(super) fn record(&self, budget: &Budget, tokens: TokenUsage, cost: Option<f64>) {
        budget.record(tokens.total());
        let mut usage = self.usage.lock().unwrap_or_else(PoisonError::into_inner);
        usage.tokens = usage.tokens.plus(tokens);
        usage.cost += cost.unwrap_or_default();
        usage.unpriced |= cost.is_none();
    }

    fn usage(&self, agents: u32) -> Usage {
        let usage = self.usage.lock().unwrap_or_else(PoisonError::into_inner);
        let priced = usage.tokens.total() > 0 && !usage.unpriced;
        Usage {
            input_tokens: usage.tokens.input_tokens,
            output_tokens: usage.tokens.output_tokens,
            estimated: usage.tokens.estimated,
            cost: priced.then_some(usage.cost),
            agents,
            agent_failures: self.agent_failures.load(SeqCst),
        }
    }
}

/// Keeps a run cancellable for as long as it is on.
struct Registration {
    shared: Arc<Shared>,
    execution_id: Uuid,
}

impl Drop for Registration {
    fn drop(&mut self) {
        self.shared.running().remove(&self.execution_id);
    }
}

/// Runs a Graph to its end. See [`crate::Engine::run`].
pub(super) async fn run(shared: Arc<Shared>, request: RunRequest, events: EventSender) -> Outcome {
    let execution_id = request.execution_id;
    let cancel = CancellationToken::new();
    shared.running().insert(execution_id, cancel.clone());
    let registration = Registration { shared: Arc::clone(&shared), execution_id };
    let run = Arc::new(Run::new(shared, request, events));
    run.tell(Event::FleetStarted { execution_id, graph: run.request.graph.clone(), depth: 0 });

    let budget = Budget::new(&run.limits, None);
    let graph = Graph {
        file: run.request.file.clone(),
        source: Arc::clone(&run.request.source),
        arguments: run.request.arguments.clone(),
        limits: run.limits,
        deadline: run.deadline,
        lineage: vec![run.request.graph.clone()],
    };
    let result = script::run(&run, graph, Arc::clone(&budget), cancel.clone()).await;
    drop(registration);

    let usage = run.usage(budget.agents());
    let outcome = outcome(result, cancel.is_cancelled(), usage);
    run.tell(Event::FleetFinished { status: outcome.status, error: outcome.error.clone(), usage });
    outcome
}

/// A run that was cancelled ends as cancelled, whatever its script made of it.
fn outcome(result: Result<serde_json::Value, GraphError>, cancelled: bool, usage: Usage) -> Outcome {
    let (status, result, error) = match result {
        _ if cancelled => (Status::Cancelled, None, Some(GraphError::cancelled())),
        Ok(value) => (Status::Completed, Some(value), None),
        Err(error) => (Status::Failed, None, Some(error)),
    };
    Outcome { status, result, error, usage }
}
