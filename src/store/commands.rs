//! Commands, from the sync that brought them to the report that the hub has.

use protocol::{
    BadCommand, CommandId, Completion, ExecutionId, GraphSessionId, ProjectId, QueuedCommand, cap_message, path,
};
use rusqlite::{Connection, OptionalExtension, Row, Transaction};
use serde_json::{Map, Value};

use super::{StoreError, executions, optional, rows, stored, stored_json, to_json};
use crate::command::{self, Event, State};

/// Commands held back at most: a hub cannot fill the disk with them, it keeps what is not taken.
const MAX_WAITING: u32 = 1_000;

/// Bytes that a command's slug and arguments may take as JSON. The engine takes no larger arguments either.
const MAX_COMMAND_BYTES: usize = 256 * 1024;

/// Kinds of nonsense that are remembered at most.
const MAX_REFUSED: u32 = 200;

/// Bytes that a report may take: 100,000 UTF-16 units are at most three times as many bytes.
const REPORT_BYTES: u64 = 300_000;

/// A command, as the desktop keeps it.
#[derive(Debug, Clone, PartialEq)]
pub struct Command {
    /// Its id.
    pub id: CommandId,
    /// The project for which it was asked.
    pub project: ProjectId,
    /// Which session to run; none where the command could not be read.
    pub session: Option<GraphSessionId>,
    /// The session's slug when the run was asked for.
    pub slug: String,
    /// The script's `args`.
    pub arguments: Map<String, Value>,
    /// Why it cannot run, where that was known on arrival.
    pub problem: Option<String>,
    /// Where it stands.
    pub state: State,
    /// Its run, once there is one.
    pub execution: Option<ExecutionId>,
}

/// Where a command comes from and where its report goes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Origin {
    /// The hub's base URL.
    pub hub: String,
    /// The project.
    pub project: ProjectId,
}

/// What came of a sync's commands.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Received {
    /// Stored for the first time.
    pub new: usize,
    /// Known before.
    pub known: usize,
    /// Left at the hub, for want of room here.
    pub left: usize,
    /// Refused for the first time, since their ids are no UUIDs; what comes with every sync is told once.
    pub refused: Vec<String>,
}

/// Stores what a sync brought. A known id changes nothing, whatever else comes with it: nothing runs twice.
///
/// # Errors
/// [`StoreError`]; nothing is stored then.
pub fn receive(
    tx: &Transaction<'_>,
    origin: &Origin,
    entries: &[Value],
    policy: &outbox::Policy,
    now_ms: i64,
) -> Result<Received, StoreError> {
    let (entries, too_many) = entries.split_at(entries.len().min(MAX_WAITING as usize));
    let mut received = Received { left: too_many.len(), ..Received::default() };
    for entry in entries {
        let parsed = QueuedCommand::parse(entry);
        let id = match &parsed {
            Ok(command) => command.command_id,
            Err(BadCommand::Body { command_id, .. }) => *command_id,
            Err(BadCommand::Id(error)) => {
                let reason = error.to_string();
                if refuse(tx, &origin.hub, &reason, now_ms)? {
                    received.refused.push(reason);
                }
                continue;
            }
        };
        if get(tx, id)?.is_some() {
            received.known += 1;
        } else if !may_take(tx, policy)? {
            received.left += 1;
        } else {
            insert(tx, origin, id, parsed.map_err(|error| error.to_string()).and_then(bounded), now_ms)?;
            received.new += 1;
        }
    }
    Ok(received)
}

/// Whether there is room for one more command and for the report that it will end in.
///
/// # Errors
/// [`StoreError`].
pub fn may_take(connection: &Connection, policy: &outbox::Policy) -> Result<bool, StoreError> {
    let unreported: u32 = connection
        .prepare_cached("SELECT count(*) FROM commands WHERE state IN ('received', 'running')")?
        .query_row([], |row| row.get(0))?;
    let reports = u64::from(unreported) + 1;
    Ok(unreported < MAX_WAITING && outbox::has_room(connection, policy, reports * REPORT_BYTES)?)
}

fn insert(
    tx: &Transaction<'_>,
    origin: &Origin,
    id: CommandId,
    parsed: Result<QueuedCommand, String>,
    now_ms: i64,
) -> Result<(), StoreError> {
    let state = command::next(None, Event::Brought)?;
    let (command, problem) = match parsed {
        Ok(command) => (Some(command), None),
        // It may quote what came, which may be megabytes.
        Err(problem) => (None, Some(cap_message(&problem).to_owned())),
    };
    let arguments = command.as_ref().map_or_else(|| Ok("{}".to_owned()), |command| to_json(&command.arguments))?;
    tx.execute(
        "INSERT INTO commands (id, hub, project_id, session_id, slug, arguments, problem, state, queued_at_ms,
            received_at_ms) VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10)",
        rusqlite::params![
            id.to_string(),
            origin.hub,
            origin.project.as_str(),
            command.as_ref().map(|command| command.graph_session_id.as_str()),
            command.as_ref().map_or("", |command| command.slug.as_str()),
            arguments,
            problem,
            state.as_str(),
            command.as_ref().map(|command| command.queued_at.as_millisecond()),
            now_ms
        ],
    )?;
    Ok(())
}

/// A hub cannot fill the disk with what it wants to be run.
fn bounded(command: QueuedCommand) -> Result<QueuedCommand, String> {
    let bytes = command.slug.len() + serde_json::to_string(&command.arguments).map_or(usize::MAX, |text| text.len());
    if bytes > MAX_COMMAND_BYTES {
        return Err(format!("the command is larger than {} KiB", MAX_COMMAND_BYTES / 1024));
    }
    Ok(command)
}

/// Remembers a command that cannot even be named, so that the owner can see what the hub sent. True the first time.
fn refuse(tx: &Transaction<'_>, hub: &str, reason: &str, now_ms: i64) -> Result<bool, StoreError> {
    let mut times = tx.prepare_cached(
        "INSERT INTO refused_commands (hub, reason, at_ms) SELECT $1, $2, $3
            WHERE (SELECT count(*) FROM refused_commands) < $4
            OR EXISTS (SELECT 1 FROM refused_commands WHERE hub = $1 AND reason = $2)
         ON CONFLICT (hub, reason) DO UPDATE SET at_ms = excluded.at_ms, times = times + 1
         RETURNING times",
    )?;
    // No row comes back where the list is full: what it does not hold is not told either.
    Ok(times.query_row((hub, reason, now_ms, MAX_REFUSED), |row| row.get::<_, u32>(0)).optional()? == Some(1))
}

/// What was refused, the latest first: reason and how often.
///
/// # Errors
/// [`StoreError`].
pub fn refused(connection: &Connection) -> Result<Vec<(String, u32)>, StoreError> {
    let sql = "SELECT reason, times FROM refused_commands ORDER BY at_ms DESC, reason";
    rows(connection, sql, [], |row| Ok((row.get(0)?, row.get(1)?)))
}

const SELECT: &str = "SELECT id, project_id, session_id, slug, arguments, problem, state, execution_id FROM commands";

fn read(row: &Row<'_>) -> Result<Command, StoreError> {
    let state: String = row.get(6)?;
    Ok(Command {
        id: stored(&row.get::<_, String>(0)?)?,
        project: stored(&row.get::<_, String>(1)?)?,
        session: row.get::<_, Option<String>>(2)?.as_deref().map(stored).transpose()?,
        slug: row.get(3)?,
        arguments: stored_json(&row.get::<_, String>(4)?)?,
        problem: row.get(5)?,
        state: State::from_word(&state).ok_or_else(|| StoreError::corrupt(format!("the state `{state}`")))?,
        execution: row.get::<_, Option<String>>(7)?.as_deref().map(stored).transpose()?,
    })
}

/// One command.
///
/// # Errors
/// [`StoreError`].
pub fn get(connection: &Connection, id: CommandId) -> Result<Option<Command>, StoreError> {
    optional(connection, &format!("{SELECT} WHERE id = $1"), [id.to_string()], read)
}

/// The command of that hub that is to run next.
///
/// # Errors
/// [`StoreError`].
pub fn next_received(connection: &Connection, hub: &str) -> Result<Option<Command>, StoreError> {
    let sql = format!("{SELECT} WHERE state = 'received' AND hub = $1 ORDER BY seq LIMIT 1");
    optional(connection, &sql, [hub], read)
}

/// How many commands of that hub wait for the worker.
///
/// # Errors
/// [`StoreError`].
pub fn waiting_from(connection: &Connection, hub: &str) -> Result<u32, StoreError> {
    let sql = "SELECT count(*) FROM commands WHERE state = 'received' AND hub = $1";
    Ok(connection.prepare_cached(sql)?.query_row([hub], |row| row.get(0))?)
}

/// How many commands wait for the worker, also those of a hub that is not configured any more.
///
/// # Errors
/// [`StoreError`].
pub fn waiting(connection: &Connection) -> Result<u32, StoreError> {
    let sql = "SELECT count(*) FROM commands WHERE state = 'received'";
    Ok(connection.prepare_cached(sql)?.query_row([], |row| row.get(0))?)
}

/// The commands of a project that the hub must not give up as lost.
///
/// # Errors
/// [`StoreError`].
pub fn known(connection: &Connection, origin: &Origin) -> Result<Vec<CommandId>, StoreError> {
    let sql = "SELECT id FROM commands WHERE hub = $1 AND project_id = $2
        AND state IN ('received', 'running', 'finished') ORDER BY seq";
    rows(connection, sql, [&origin.hub, origin.project.as_str()], |row| stored(&row.get::<_, String>(0)?))
}

/// Takes a step of the table in [`crate::command`].
fn step(tx: &Transaction<'_>, id: CommandId, event: Event, now_ms: i64) -> Result<Command, StoreError> {
    let known = get(tx, id)?;
    let state = command::next(known.as_ref().map(|command| command.state), event)?;
    let known = known.ok_or_else(|| StoreError::corrupt(format!("no command {id}")))?;
    let is_over = !matches!(state, State::Received | State::Running);
    tx.execute(
        "UPDATE commands SET state = $1, settled_at_ms = CASE WHEN $2 THEN coalesce(settled_at_ms, $3) END WHERE id = $4",
        (state.as_str(), is_over, now_ms, id.to_string()),
    )?;
    Ok(Command { state, ..known })
}

/// `received → running`: binds the channel to its project and writes the run down, before any worker is spawned.
///
/// # Errors
/// [`StoreError`].
pub fn start(
    tx: &Transaction<'_>,
    origin: &Origin,
    id: CommandId,
    execution: &executions::NewExecution,
    now_ms: i64,
) -> Result<(), StoreError> {
    step(tx, id, Event::Started, now_ms)?;
    tx.execute(
        "INSERT INTO bindings (channel, hub, project_id, bound_at_ms) VALUES ($1, $2, $3, $4)",
        (id.channel(), &origin.hub, origin.project.as_str(), now_ms),
    )?;
    executions::begin(tx, execution, now_ms)?;
    tx.execute("UPDATE commands SET execution_id = $1 WHERE id = $2", (execution.id.to_string(), id.to_string()))?;
    Ok(())
}

/// `received → finished` without a run, or `running → finished`: the report goes into the outbox with it.
///
/// # Errors
/// [`StoreError`].
pub fn finish(
    tx: &Transaction<'_>,
    hub: &str,
    id: CommandId,
    event: Event,
    completion: &Completion,
    now_ms: i64,
) -> Result<(), StoreError> {
    step(tx, id, event, now_ms)?;
    let body = to_json(completion)?;
    let item = outbox::NewItem {
        key: &report_key(id),
        destination: &format!("{hub}{}", path::command(&id, "complete")),
        body: body.as_bytes(),
    };
    // Room was looked for before the command was taken. If the caps have shrunk since, the report still counts more.
    let whatever_it_takes =
        outbox::Policy { max_rows: u32::MAX, max_bytes: i64::MAX.unsigned_abs(), ..outbox::Policy::default() };
    outbox::enqueue(tx, &item, &whatever_it_takes, now_ms)?;
    Ok(())
}

/// `received → dropped`: the hub itself had ended it.
///
/// # Errors
/// [`StoreError`].
pub fn drop_denied(tx: &Transaction<'_>, id: CommandId, now_ms: i64) -> Result<(), StoreError> {
    step(tx, id, Event::StartDenied, now_ms).map(drop)
}

/// Ends every command that was running when an earlier daemon stopped, with its execution, and puts its report into
/// the outbox.
///
/// # Errors
/// [`StoreError`].
pub fn settle_cut_off(tx: &Transaction<'_>, now_ms: i64) -> Result<usize, StoreError> {
    let left = rows(tx, "SELECT id, hub FROM commands WHERE state = 'running' ORDER BY seq", [], |row| {
        Ok((stored::<CommandId>(&row.get::<_, String>(0)?)?, row.get::<_, String>(1)?))
    })?;
    for (id, hub) in &left {
        let execution = get(tx, *id)?.and_then(|command| command.execution);
        if let Some(execution) = execution {
            executions::finish(tx, execution, &executions::cut_off(), now_ms)?;
        }
        let mut completion = Completion::without_run(protocol::CompletionStatus::Failed, executions::DAEMON_STOPPED);
        completion.execution_id = execution;
        finish(tx, hub, *id, Event::DaemonDied, &completion, now_ms)?;
    }
    Ok(left.len())
}

/// The outbox key of a command's report, which is also its idempotency key on the wire.
pub fn report_key(id: CommandId) -> String {
    format!("complete:{id}")
}

/// Whose report an outbox key names.
fn command_of_key(key: &str) -> Option<CommandId> {
    key.strip_prefix("complete:")?.parse().ok()
}

/// The hub has the report: the item goes, and with it the last thing that was to be done for the command.
///
/// # Errors
/// [`StoreError`].
pub fn acknowledged(tx: &Transaction<'_>, item: &outbox::Item, now_ms: i64) -> Result<(), StoreError> {
    outbox::acknowledge(tx, item.id)?;
    settle_report(tx, &item.key, Event::Acknowledged, now_ms)
}

/// The hub will never take the report: it becomes a dead letter, which the owner can see, retry and drop.
///
/// # Errors
/// [`StoreError`].
pub fn refused_for_good(tx: &Transaction<'_>, item: &outbox::Item, why: &str, now_ms: i64) -> Result<(), StoreError> {
    outbox::refuse(tx, item.id, why, now_ms)?;
    settle_report(tx, &item.key, Event::RefusedForGood, now_ms)
}

/// Reports older than the outbox's `max_age` become dead letters. Gives back how many.
///
/// # Errors
/// [`StoreError`].
pub fn expire_reports(tx: &Transaction<'_>, policy: &outbox::Policy, now_ms: i64) -> Result<u32, StoreError> {
    let expired = outbox::expire(tx, policy, now_ms)?;
    if expired > 0 {
        for letter in outbox::dead_letters(tx)? {
            settle_report(tx, &letter.key, Event::RefusedForGood, now_ms)?;
        }
    }
    Ok(expired)
}

/// A dead letter that was tried again belongs to a command that is `reported` already: nothing to do then.
fn settle_report(tx: &Transaction<'_>, key: &str, event: Event, now_ms: i64) -> Result<(), StoreError> {
    let Some(id) = command_of_key(key) else { return Ok(()) };
    match get(tx, id)? {
        Some(command) if command.state == State::Finished => step(tx, id, event, now_ms).map(drop),
        _ => Ok(()),
    }
}
