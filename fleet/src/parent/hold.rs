//! Holds values to the schemas that a script brings, in a process that can be killed.

use std::time::Duration;

use serde_json::Value;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use super::process::Worker;
use crate::WorkerCommand;
use crate::wire::{FromWorker, ToWorker};

/// Longest that a check may take. An honest one takes milliseconds.
const PATIENCE: Duration = Duration::from_secs(5);
/// Memory of a process that only checks, in MiB.
const MEMORY_MB: u32 = 256;

/// What is wrong with a value (nothing, where there is none), checked in a worker of its own.
///
/// # Errors
/// What is wrong with the schema, for a person.
pub(super) async fn in_own_worker(
    command: &WorkerCommand,
    schema: &Value,
    value: Option<&Value>,
) -> Result<Vec<String>, String> {
    let worker =
        Worker::spawn(command).map_err(|error| format!("no process to check it in can be started: {error}"))?;
    // The agent that asks is dropped when its run is over, and with it the worker.
    let never = (Instant::now() + PATIENCE, &CancellationToken::new());
    let (worker, errors) = in_worker(worker, MEMORY_MB, schema, value, never).await?;
    worker.finish().await;
    Ok(errors)
}

/// The same, in a worker that has said it is ready and does not run its script yet. It comes back with what is wrong
/// with the value.
///
/// # Errors
/// The same, or that the run was cancelled or came to its deadline; the worker is gone then.
pub(super) async fn in_worker(
    mut worker: Worker,
    memory_mb: u32,
    schema: &Value,
    value: Option<&Value>,
    (deadline, cancel): (Instant, &CancellationToken),
) -> Result<(Worker, Vec<String>), String> {
    let asked = async {
        worker.send(&ToWorker::Hold { schema: schema.clone(), value: value.cloned(), memory_mb }).await;
        worker.next().await
    };
    let wrong = tokio::select! {
        said = asked => match said {
            Ok(FromWorker::Held { verdict: Ok(errors) }) => return Ok((worker, errors)),
            Ok(FromWorker::Held { verdict: Err(wrong) }) => wrong,
            Ok(_) => "the process that checks it said something out of turn".to_owned(),
            Err(silence) => return Err(worker.cause_of_death(silence, memory_mb).await.message),
        },
        () = tokio::time::sleep_until(deadline.min(Instant::now() + PATIENCE)) => {
            let limit = humantime::format_duration(PATIENCE);
            format!("checking a value against the schema takes longer than {limit}: make it simpler")
        }
        () = cancel.cancelled() => "the run was cancelled".to_owned(),
    };
    worker.kill().await;
    Err(wrong)
}
