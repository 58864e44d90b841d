//! History: every execution, whoever started it, with its events and its whole result.

use fleet::{Event, GraphError, Outcome, Status, Usage};
use protocol::{ExecutionId, GraphSessionId};
use rusqlite::{Connection, Row, Transaction};
use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::graphs::keep_script;
use super::{StoreError, optional, rows, stored, stored_json, to_json};

/// Why a run that was on when the daemon stopped has failed.
pub const DAEMON_STOPPED: &str = "the desktop stopped while the Graph was running";

/// A run that is about to begin.
#[derive(Debug, Clone)]
pub struct NewExecution {
    /// Its id.
    pub id: ExecutionId,
    /// The channel that binds it to a project; none where the owner started it.
    pub channel: Option<String>,
    /// Slug, or the file's stem.
    pub graph: String,
    /// The saved Graph's session and version; none for a file that was not saved.
    pub saved: Option<(GraphSessionId, u32)>,
    /// Shown in error positions.
    pub file: String,
    /// The script.
    pub source: String,
    /// The script's `args`.
    pub arguments: Value,
}

/// One run in the history.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Execution {
    /// Its id.
    pub id: ExecutionId,
    /// The channel on which it was asked for; none where the owner started it.
    pub channel: Option<String>,
    /// Slug, or the file's stem.
    pub graph: String,
    /// The saved version; none for a file that was not saved.
    pub version: Option<u32>,
    /// The script's SHA-256, in hex.
    pub sha256: String,
    /// Shown in error positions.
    pub file: String,
    /// The script's `args`.
    pub arguments: Value,
    /// `running`, `completed`, `failed` or `cancelled`.
    pub status: String,
    /// What the script returned, whole.
    pub result: Option<Value>,
    /// Why it failed or was cancelled.
    pub error: Option<GraphError>,
    /// Tokens, cost and agents.
    pub usage: Usage,
    /// When it began.
    pub started_at_ms: i64,
    /// When it ended.
    pub finished_at_ms: Option<i64>,
}

/// Something that happened in a run.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Recorded {
    /// When.
    pub at_ms: i64,
    /// What.
    pub event: Event,
}

/// Writes a run down before its worker is spawned.
///
/// # Errors
/// [`StoreError`].
pub fn begin(tx: &Transaction<'_>, new: &NewExecution, now_ms: i64) -> Result<(), StoreError> {
    let sha256 = keep_script(tx, &new.source)?;
    let (session, version) = new.saved.as_ref().map(|(id, version)| (id.as_str(), version)).unzip();
    tx.execute(
        "INSERT INTO executions (id, channel, graph, session_id, version, sha256, file, arguments, status, started_at_ms)
         VALUES ($1, $2, $3, $4, $5, $6, $7, $8, 'running', $9)",
        rusqlite::params![
            new.id.to_string(),
            new.channel,
            new.graph,
            session,
            version,
            sha256,
            new.file,
            to_json(&new.arguments)?,
            now_ms
        ],
    )?;
    Ok(())
}

/// Adds events, in their order; the first of them is number `first_seq` of its run.
///
/// # Errors
/// [`StoreError`].
pub fn record(tx: &Transaction<'_>, id: ExecutionId, first_seq: u64, events: &[Recorded]) -> Result<(), StoreError> {
    let mut insert =
        tx.prepare_cached("INSERT INTO events (execution_id, seq, at_ms, event) VALUES ($1, $2, $3, $4)")?;
    for (seq, recorded) in (first_seq..).zip(events) {
        insert.execute((id.to_string(), seq.cast_signed(), recorded.at_ms, to_json(&recorded.event)?))?;
    }
    Ok(())
}

/// Writes a run's end, with its whole result.
///
/// # Errors
/// [`StoreError`].
pub fn finish(tx: &Transaction<'_>, id: ExecutionId, outcome: &Outcome, now_ms: i64) -> Result<(), StoreError> {
    let usage = &outcome.usage;
    tx.execute(
        "UPDATE executions SET status = $1, result = $2, error = $3, input_tokens = $4, output_tokens = $5,
            estimated = $6, cost = $7, agents = $8, agent_failures = $9, finished_at_ms = $10 WHERE id = $11",
        rusqlite::params![
            status_word(outcome.status),
            outcome.result.as_ref().map(to_json).transpose()?,
            outcome.error.as_ref().map(to_json).transpose()?,
            usage.input_tokens.cast_signed(),
            usage.output_tokens.cast_signed(),
            usage.estimated,
            usage.cost,
            usage.agents,
            usage.agent_failures.cast_signed(),
            now_ms,
            id.to_string()
        ],
    )?;
    Ok(())
}

fn status_word(status: Status) -> &'static str {
    match status {
        Status::Completed => "completed",
        Status::Failed => "failed",
        Status::Cancelled => "cancelled",
    }
}

/// The outcome of a run that was cut off with its daemon.
pub fn cut_off() -> Outcome {
    Outcome {
        status: Status::Failed,
        result: None,
        error: Some(GraphError::new("InterruptedError", "desktop_stopped", DAEMON_STOPPED)),
        usage: Usage::default(),
    }
}

/// Ends every run that is still written down as running: none is, when the daemon has just begun.
///
/// # Errors
/// [`StoreError`].
pub fn settle_cut_off(tx: &Transaction<'_>, now_ms: i64) -> Result<Vec<ExecutionId>, StoreError> {
    let left = rows(tx, "SELECT id FROM executions WHERE status = 'running' ORDER BY id", [], |row| {
        stored::<ExecutionId>(&row.get::<_, String>(0)?)
    })?;
    for id in &left {
        finish(tx, *id, &cut_off(), now_ms)?;
    }
    Ok(left)
}

const SELECT: &str = "SELECT id, channel, graph, version, sha256, file, arguments, status, result, error, input_tokens,
    output_tokens, estimated, cost, agents, agent_failures, started_at_ms, finished_at_ms FROM executions";

fn read(row: &Row<'_>) -> Result<Execution, StoreError> {
    let count = |column: usize| row.get::<_, i64>(column).map(i64::cast_unsigned);
    Ok(Execution {
        id: stored(&row.get::<_, String>(0)?)?,
        channel: row.get(1)?,
        graph: row.get(2)?,
        version: row.get(3)?,
        sha256: row.get(4)?,
        file: row.get(5)?,
        arguments: stored_json(&row.get::<_, String>(6)?)?,
        status: row.get(7)?,
        result: row.get::<_, Option<String>>(8)?.as_deref().map(stored_json).transpose()?,
        error: row.get::<_, Option<String>>(9)?.as_deref().map(stored_json).transpose()?,
        usage: Usage {
            input_tokens: count(10)?,
            output_tokens: count(11)?,
            estimated: row.get(12)?,
            cost: row.get(13)?,
            agents: row.get(14)?,
            agent_failures: count(15)?,
        },
        started_at_ms: row.get(16)?,
        finished_at_ms: row.get(17)?,
    })
}

fn without_results() -> String {
    SELECT.replacen(" result,", " NULL,", 1)
}

/// One run.
///
/// # Errors
/// [`StoreError`].
pub fn get(connection: &Connection, id: ExecutionId) -> Result<Option<Execution>, StoreError> {
    optional(connection, &format!("{SELECT} WHERE id = $1"), [id.to_string()], read)
}

/// The runs that an id names: its own, its command's, or the end of either, at least four characters. Ids of one minute
/// begin alike, it is the ends that differ.
///
/// # Errors
/// [`StoreError`].
pub fn find(connection: &Connection, id: &str) -> Result<Vec<ExecutionId>, StoreError> {
    if id.len() < 4 || !id.bytes().all(|b| b.is_ascii_hexdigit() || b == b'-') {
        return Ok(Vec::new());
    }
    let sql = "SELECT id FROM executions WHERE id LIKE '%' || $1
        UNION SELECT execution_id FROM commands WHERE id LIKE '%' || $1 AND execution_id IS NOT NULL";
    rows(connection, sql, [id], |row| stored(&row.get::<_, String>(0)?))
}

/// The latest runs, the newest first. Their results are left out: a list is short, and each may have megabytes.
///
/// # Errors
/// [`StoreError`].
pub fn latest(connection: &Connection, limit: u32) -> Result<Vec<Execution>, StoreError> {
    rows(connection, &format!("{} ORDER BY started_at_ms DESC, id DESC LIMIT $1", without_results()), [limit], read)
}

/// The runs that are on, the oldest first.
///
/// # Errors
/// [`StoreError`].
pub fn running(connection: &Connection) -> Result<Vec<Execution>, StoreError> {
    rows(connection, &format!("{SELECT} WHERE status = 'running' ORDER BY started_at_ms, id"), [], read)
}

/// A run's events, in their order.
///
/// # Errors
/// [`StoreError`].
pub fn events(connection: &Connection, id: ExecutionId) -> Result<Vec<Recorded>, StoreError> {
    let sql = "SELECT at_ms, event FROM events WHERE execution_id = $1 ORDER BY seq";
    rows(connection, sql, [id.to_string()], |row| {
        Ok(Recorded { at_ms: row.get(0)?, event: stored_json(&row.get::<_, String>(1)?)? })
    })
}
