//! One command, from the last look at consent to the report in the outbox.
//!
//! Every step is stored before the next one begins: a crash leaves the command `received` (it will run), `running`
//! (the next start of the daemon settles it) or `finished` (its report is in the outbox).

use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use fleet::{Outcome, Status};
use protocol::{CheckRequest, CommandId, CommandStatus, Completion, CompletionStatus, ExecutionId};
use tokio::time::{MissedTickBehavior, interval_at};
use uuid::Uuid;

use super::hub::{HubError, Start};
use super::{Relay, lock, progress};
use crate::command::Event;
use crate::consent::NO_LONGER_SHARED;
use crate::runner::Allowance;
use crate::store::StoreError;
use crate::store::commands::{self, Command, Origin};
use crate::store::executions::{self, NewExecution};
use crate::store::graphs::{self, Graph};
use crate::store::sharing;

/// This desktop never starts a command twice, so its first attempt is its only one.
const ATTEMPT: u32 = 1;

/// A disk that was full is looked at again after this long.
const DISK_RETRY: Duration = Duration::from_secs(5);

/// What became of the command that was next in line.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Taken {
    /// None was waiting.
    Nothing,
    /// It is over, or dropped.
    Done,
    /// The hub did not say whether it may start; it waits.
    Held,
}

/// Why a command does not run.
enum NoRun {
    Denied,
    Rejected(Completion),
    Held(HubError),
}

/// What the run tells the checks, and the checks the run.
#[derive(Default)]
struct Watch {
    /// For the next check.
    progress: Mutex<CheckRequest>,
    /// Known from the engine's first event.
    execution: Mutex<Option<Uuid>>,
    /// The hub asked for a cancel: the report will say so, even if the script ends first.
    cancelled: AtomicBool,
}

impl Relay {
    /// Runs the command that has waited longest.
    ///
    /// # Errors
    /// [`StoreError`]: the command is as it was.
    pub(super) async fn run_next(&self) -> Result<Taken, StoreError> {
        let hub = self.hub.base_url().to_owned();
        let next = self.runner.store.read(move |connection| commands::next_received(connection, &hub)).await?;
        let Some(command) = next else { return Ok(Taken::Nothing) };
        let id = command.id;
        match self.begin(command).await? {
            Ok(execution) => self.drive(id, execution).await,
            Err(NoRun::Held(error)) => {
                tracing::warn!(command = %id, %error, "the hub did not say whether the command may start; it waits");
                return Ok(Taken::Held);
            }
            Err(NoRun::Denied) => {
                tracing::info!(command = %id, "dropped: the hub had ended it");
                let now_ms = self.runner.clock.now_ms();
                self.runner.store.write(move |tx| commands::drop_denied(tx, id, now_ms)).await?;
            }
            Err(NoRun::Rejected(completion)) => {
                tracing::info!(command = %id, reason = completion.message, "ended without a run");
                self.finish_until_stored(id, Event::Rejected, None, completion).await;
            }
        }
        Ok(Taken::Done)
    }

    /// Looks at consent, asks the hub, looks again, and writes down that the run begins.
    async fn begin(&self, command: Command) -> Result<Result<NewExecution, NoRun>, StoreError> {
        if let Err(rejected) = self.look(&command).await? {
            return Ok(Err(rejected));
        }
        match self.hub.start(command.id, ATTEMPT).await {
            Ok(Start::Agreed) => {}
            Ok(Start::Denied) => return Ok(Err(NoRun::Denied)),
            Err(error) => return Ok(Err(NoRun::Held(error))),
        }
        // The answer took its time, in which the owner may have changed his mind: this look and the start are one
        // transaction.
        let origin = self.origin(&command);
        let now_ms = self.runner.clock.now_ms();
        self.runner
            .store
            .write(move |tx| {
                Ok(match runnable(tx, &origin, &command)? {
                    Err(rejected) => Err(rejected),
                    Ok(graph) => {
                        let execution = new_execution(&command, graph);
                        commands::start(tx, &origin, command.id, &execution, now_ms)?;
                        Ok(execution)
                    }
                })
            })
            .await
    }

    async fn look(&self, command: &Command) -> Result<Result<(), NoRun>, StoreError> {
        let (origin, command) = (self.origin(command), command.clone());
        self.runner.store.read(move |connection| Ok(runnable(connection, &origin, &command)?.map(drop))).await
    }

    fn origin(&self, command: &Command) -> Origin {
        Origin { hub: self.hub.base_url().to_owned(), project: command.project.clone() }
    }

    async fn drive(&self, id: CommandId, execution: NewExecution) {
        tracing::info!(command = %id, execution = %execution.id, graph = execution.graph, "started");
        let watch = Watch::default();
        let outcome = tokio::select! {
            outcome = self.runner.drive(&execution, Allowance::default(), |event| watch.saw(event)) => outcome,
            never = self.check_for_cancel(id, &watch) => match never {},
        };
        let cancelled = watch.cancelled.load(Ordering::Relaxed);
        let completion = report(execution.id, &outcome, cancelled);
        tracing::info!(
            command = %id, execution = %execution.id, status = completion.status.as_str(),
            tokens = outcome.usage.total_tokens(), truncated = completion.result_truncated, "finished"
        );
        self.finish_until_stored(id, Event::Ended, Some((execution.id, outcome)), completion).await;
    }

    /// Asks at every interval, at once when the wake channel speaks, until the run is over and this is dropped.
    async fn check_for_cancel(&self, id: CommandId, watch: &Watch) -> std::convert::Infallible {
        let every = self.settings.check_interval;
        let mut ticks = interval_at(tokio::time::Instant::now() + every, every);
        ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
        let mut stopped = false;
        loop {
            tokio::select! {
                _ = ticks.tick() => {}
                () = self.check_now.notified() => {}
            }
            if !watch.cancelled.load(Ordering::Relaxed) {
                let told = watch.told();
                match self.hub.check(id, &told).await {
                    Ok(answer) if answer.cancel_requested || answer.status == CommandStatus::Cancelled => {
                        watch.cancelled.store(true, Ordering::Relaxed);
                        self.fetched.notify_one();
                    }
                    Ok(_) => {}
                    Err(error) => tracing::debug!(command = %id, %error, "check failed; the run goes on"),
                }
            }
            if watch.cancelled.load(Ordering::Relaxed)
                && !stopped
                && let Some(execution) = *lock(&watch.execution)
            {
                tracing::info!(command = %id, "cancelled by the assistant");
                stopped = self.runner.engine.cancel(execution);
            }
        }
    }

    /// The end of the run, its whole result and its report are one transaction, tried until the disk takes it: the
    /// worker takes nothing new meanwhile.
    async fn finish_until_stored(
        &self,
        id: CommandId,
        event: Event,
        run: Option<(ExecutionId, Outcome)>,
        completion: Completion,
    ) {
        let completion = completion.capped();
        loop {
            let now_ms = self.runner.clock.now_ms();
            let (hub, run, completion) = (self.hub.base_url().to_owned(), run.clone(), completion.clone());
            let stored = self
                .runner
                .store
                .write(move |tx| {
                    if let Some((execution, outcome)) = &run {
                        executions::finish(tx, *execution, outcome, now_ms)?;
                    }
                    commands::finish(tx, &hub, id, event, &completion, now_ms)
                })
                .await;
            match stored {
                Ok(()) => return,
                Err(StoreError::Illegal(error)) => {
                    tracing::error!(command = %id, %error, "a finished command was settled already");
                    return;
                }
                Err(error) => tracing::error!(command = %id, %error, "a finished run cannot be stored yet"),
            }
            tokio::time::sleep(DISK_RETRY).await;
        }
    }
}

impl Watch {
    fn saw(&self, event: &fleet::Event) {
        if let fleet::Event::FleetStarted { execution_id, .. } = event {
            *lock(&self.execution) = Some(*execution_id);
        }
        progress::fold(&mut lock(&self.progress), event);
    }

    fn told(&self) -> CheckRequest {
        lock(&self.progress).clone()
    }
}

/// The Graph that the command may run at this moment, or the report of why it may not.
fn runnable(
    connection: &rusqlite::Connection,
    origin: &Origin,
    command: &Command,
) -> Result<Result<Graph, NoRun>, StoreError> {
    let rejected = |status, message: &str| Ok(Err(NoRun::Rejected(Completion::without_run(status, message))));
    if let Some(problem) = &command.problem {
        return rejected(CompletionStatus::Failed, problem);
    }
    let Some(session) = &command.session else { return rejected(CompletionStatus::Cancelled, NO_LONGER_SHARED) };
    if !sharing::consent(connection, &origin.hub, &origin.project, session, &command.slug)? {
        return rejected(CompletionStatus::Cancelled, NO_LONGER_SHARED);
    }
    match graphs::latest_of_session(connection, session)? {
        Some(graph) => Ok(Ok(graph)),
        None => rejected(CompletionStatus::Cancelled, NO_LONGER_SHARED),
    }
}

fn new_execution(command: &Command, graph: Graph) -> NewExecution {
    NewExecution {
        id: ExecutionId::new(),
        channel: Some(command.id.channel()),
        graph: graph.slug,
        saved: Some((graph.session_id, graph.version)),
        file: graph.file,
        source: graph.source,
        arguments: command.arguments.clone().into(),
    }
}

/// What the hub is told. A run that was to be cancelled is reported so, even if the script ended first.
fn report(execution: ExecutionId, outcome: &Outcome, cancelled: bool) -> Completion {
    let status = match outcome.status {
        _ if cancelled => CompletionStatus::Cancelled,
        Status::Completed => CompletionStatus::Completed,
        Status::Failed => CompletionStatus::Failed,
        Status::Cancelled => CompletionStatus::Cancelled,
    };
    let message = match (&outcome.error, status) {
        (_, CompletionStatus::Completed) => None,
        (_, CompletionStatus::Cancelled) if cancelled => Some("cancelled on request".to_owned()),
        (error, CompletionStatus::Cancelled) => {
            Some(error.as_ref().map_or_else(|| "cancelled by the owner".to_owned(), |error| error.message.clone()))
        }
        (error, CompletionStatus::Failed) => error.as_ref().map(ToString::to_string),
    };
    Completion {
        execution_id: Some(execution),
        status,
        result: if status == CompletionStatus::Completed { outcome.result.clone() } else { None },
        message,
        total_tokens: Some(outcome.usage.total_tokens()),
        reported_cost: outcome.usage.cost,
        agent_failures: outcome.usage.agent_failures,
        result_truncated: false,
    }
}

#[cfg(test)]
mod tests {
    use fleet::Usage;
    use serde_json::json;

    use super::*;

    fn completed() -> Outcome {
        Outcome { status: Status::Completed, result: Some(json!({"sum": 3})), error: None, usage: Usage::default() }
    }

    #[test]
    fn a_run_that_ended_between_flag_and_stop_is_reported_cancelled_without_its_result() {
        let report = report(ExecutionId::new(), &completed(), true);
        assert_eq!((report.status, report.result), (CompletionStatus::Cancelled, None));
        assert_eq!(report.message.as_deref(), Some("cancelled on request"));
    }

    #[test]
    fn lost_agents_are_told_with_a_clean_end() {
        let mut outcome = completed();
        outcome.usage.agent_failures = 3;
        let report = report(ExecutionId::new(), &outcome, false);
        assert_eq!((report.status, report.agent_failures), (CompletionStatus::Completed, 3));
    }

    #[test]
    fn a_failure_is_told_with_its_place() {
        let error = fleet::GraphError {
            file: Some("a.js".to_owned()),
            line: Some(3),
            column: Some(7),
            ..fleet::GraphError::new("TypeError", "", "x is undefined")
        };
        let outcome = Outcome { status: Status::Failed, result: None, error: Some(error), usage: Usage::default() };
        let report = report(ExecutionId::new(), &outcome, false);
        assert_eq!(report.message.as_deref(), Some("a.js:3:7: TypeError: x is undefined"));
    }
}
