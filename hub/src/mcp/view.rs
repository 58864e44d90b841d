//! A run, as its assistant sees it.

use protocol::{CheckRequest, CommandStatus, CompletionStatus};
use serde_json::{Map, Value, json};

use crate::Hub;
use crate::store::RunView;

/// Once a run is on, looking every 15 s loses hardly any time (SPEC 7).
const WATCH_EVERY_S: u64 = 15;

/// The answer of `get_graph_run`.
pub(super) fn run(hub: &Hub, run: &RunView) -> Value {
    let completion = run.completion.as_ref();
    let mut answer = json!({
        "command_id": run.id,
        "graph_session_id": run.graph_session_id,
        "project_id": run.project_id,
        "status": run.status.as_str(),
        "cancel_requested": run.cancel_requested,
        "queued_at": run.queued_at,
        "started_at": run.started_at,
        "finished_at": run.finished_at,
        "desktop_online": is_online(hub, run.last_seen_at),
        "queue_position": position(run),
        "progress": progress(&run.progress),
        "execution_id": completion.and_then(|c| c.execution_id),
        "result_truncated": completion.is_some_and(|c| c.result_truncated),
        "message": message(run),
        "total_tokens": completion.and_then(|c| c.total_tokens).or(run.progress.total_tokens),
        "reported_cost": completion.and_then(|c| c.reported_cost),
        "agent_failures": completion.map_or(0, |c| c.agent_failures),
        "retry_after_s": retry_after_s(hub, run.status),
    });
    // A Graph may have ended well before its desktop read the cancel: what was cancelled has no result.
    if run.status == CommandStatus::Completed
        && let Some(result) = completion.and_then(|c| c.result.clone())
    {
        answer["result"] = result;
    }
    answer
}

/// Whether a desktop counts as online: its last sync is younger than a lease.
pub(super) fn is_online(hub: &Hub, last_seen: Option<jiff::Timestamp>) -> bool {
    let now = hub.now();
    last_seen.is_some_and(|seen| now.duration_since(seen).unsigned_abs() < hub.settings().lease)
}

/// The place in the queue: 1 is next.
pub(super) fn position(run: &RunView) -> Option<u32> {
    (run.status == CommandStatus::Queued).then_some(run.ahead + 1)
}

/// When to look again: one poll while it waits, then at a steady pace, never once it is over.
pub(super) fn retry_after_s(hub: &Hub, status: CommandStatus) -> Option<u64> {
    match status {
        CommandStatus::Queued => Some(hub.settings().poll.as_secs().max(1)),
        CommandStatus::Running => Some(WATCH_EVERY_S),
        _ => None,
    }
}

fn progress(progress: &CheckRequest) -> Value {
    serde_json::to_value(progress).unwrap_or_else(|_| Value::Object(Map::new()))
}

fn message(run: &RunView) -> Option<String> {
    let completion = run.completion.as_ref()?;
    if run.status == CommandStatus::Cancelled && completion.status != CompletionStatus::Cancelled {
        return Some("cancelled on request; the Graph ended before its desktop could stop it".to_owned());
    }
    if completion.result_truncated {
        let place = completion.execution_id.map_or_else(String::new, |id| format!(" under execution {id}"));
        return Some(format!(
            "the result is larger than {} characters; it stays whole in the desktop's history{place}",
            protocol::MAX_REPORT_UNITS
        ));
    }
    completion.message.clone()
}
