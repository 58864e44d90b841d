//! Commands: queueing, events, and what their assistants may see of them.

use protocol::{CommandId, CommandStatus, DeviceId, GraphSessionId, ProjectId, SessionMetadata};
use rusqlite::{Row, Transaction, params};
use serde_json::{Map, Value};

use super::Moment;
use super::presence::Presence;
use super::rows::{all, first, json, optional_json, optional_time, parsed, status, time, timestamp, to_json};
use crate::command::{CommandState, Event, Step, Write, is_lost, step};
use crate::store::{Actor, Applied, NewCommand, QueueOutcome, Result, RunView, Settled};

// The queries that run often must find their few rows by an index, however long the history: a test holds them to it.
pub(super) const WAITING: &str = "SELECT count(*) FROM commands WHERE device_id = $1 AND status = 'queued'";
pub(super) const AHEAD: &str = "SELECT count(*) FROM commands
     WHERE device_id = $1 AND (status = 'queued' OR status = 'running') AND seq < $2";
pub(super) const WAITED: &str = "SELECT id FROM commands WHERE status = 'queued' AND queued_at <= $1 ORDER BY seq";
pub(super) const UNSPOKEN: &str =
    "SELECT id, device_id, lease_until FROM commands WHERE status = 'running' AND lease_until <= $1";

/// Applies an event to a command, whoever it belongs to. `None` when there is none.
pub(super) fn apply(tx: &Transaction<'_>, id: &str, event: Event, moment: Moment) -> Result<Option<Applied>> {
    let mut statement = tx.prepare_cached(
        "SELECT status, attempt, cancel_requested, completion, device_id, project_id, progress, lease_until
         FROM commands WHERE id = $1",
    )?;
    let Some(Loaded { state, device_id, project_id, vouched }) = first(statement.query([id])?, loaded)? else {
        return Ok(None);
    };
    let Step { state, write, accepted } = step(state, event);
    let changed = match write {
        Write::Nothing => false,
        Write::Progress(progress) => write_progress(tx, id, &to_json(&progress)?, &vouched, moment)?,
        Write::Started => write_start(tx, id, &state, moment)?,
        Write::CancelFlag => {
            tx.prepare_cached("UPDATE commands SET cancel_requested = 1 WHERE id = $1")?.execute([id])?;
            true
        }
        Write::Settled => write_end(tx, id, &state, moment)?,
    };
    Ok(Some(Applied { state, accepted, changed, device_id, project_id }))
}

struct Loaded {
    state: CommandState,
    device_id: DeviceId,
    project_id: ProjectId,
    vouched: Vouched,
}

/// What the desktop last said of a running command.
struct Vouched {
    progress: String,
    lease_until: Option<i64>,
}

fn loaded(row: &Row<'_>) -> Result<Loaded> {
    Ok(Loaded {
        state: CommandState {
            status: status(row, 0)?,
            attempt: row.get(1)?,
            cancel_requested: row.get(2)?,
            completion: optional_json(row, 3, "completion")?,
        },
        device_id: parsed(row, 4, "device id")?,
        project_id: parsed(row, 5, "project id")?,
        vouched: Vouched { progress: row.get(6)?, lease_until: row.get(7)? },
    })
}

fn write_start(tx: &Transaction<'_>, id: &str, state: &CommandState, moment: Moment) -> Result<bool> {
    let sql = "UPDATE commands SET status = $1, attempt = $2, started_at = coalesce(started_at, $3), lease_until = $4
               WHERE id = $5";
    let values = params![state.status.as_str(), state.attempt, moment.now, moment.lease_until(), id];
    tx.prepare_cached(sql)?.execute(values)?;
    Ok(true)
}

/// A check every three seconds that tells nothing new need not cost a flush of the disk.
fn write_progress(tx: &Transaction<'_>, id: &str, news: &str, old: &Vouched, moment: Moment) -> Result<bool> {
    let is_news = news != old.progress;
    if is_news || !moment.is_fresh(old.lease_until) {
        let sql = "UPDATE commands SET progress = $1, lease_until = $2 WHERE id = $3";
        tx.prepare_cached(sql)?.execute(params![news, moment.lease_until(), id])?;
    }
    Ok(is_news)
}

fn write_end(tx: &Transaction<'_>, id: &str, state: &CommandState, moment: Moment) -> Result<bool> {
    let completion = state.completion.as_ref().map(to_json).transpose()?;
    let sql = "UPDATE commands SET status = $1, completion = $2, finished_at = $3, lease_until = NULL WHERE id = $4";
    tx.prepare_cached(sql)?.execute(params![state.status.as_str(), completion, moment.now, id])?;
    Ok(true)
}

/// Whether the actor has that command.
pub(super) fn belongs(tx: &Transaction<'_>, actor: &Actor, id: &str) -> Result<bool> {
    match actor {
        Actor::Device(device) => {
            let mut statement = tx.prepare_cached("SELECT 1 FROM commands WHERE id = $1 AND device_id = $2")?;
            Ok(statement.exists(params![id, device.as_str()])?)
        }
        Actor::Connection { id: connection, projects } => {
            let sql = "SELECT project_id FROM commands WHERE id = $1 AND connection_id = $2";
            let mut statement = tx.prepare_cached(sql)?;
            let project =
                first(statement.query(params![id, connection])?, |row| parsed::<ProjectId>(row, 0, "project id"))?;
            Ok(project.is_some_and(|project| projects.contains(&project)))
        }
    }
}

/// Queues a run, once per connection and key. The key is looked up first, so that a repeated request is answered
/// alike even when the session has been withdrawn in the meantime.
pub(super) fn queue(tx: &Transaction<'_>, presence: &Presence, new: &NewCommand) -> Result<QueueOutcome> {
    if let Some(outcome) = repeated(tx, new)? {
        return Ok(outcome);
    }
    let Some(target) = target(tx, presence, new)? else {
        return Ok(QueueOutcome::NoSession);
    };
    let waiting: u32 = tx.prepare_cached(WAITING)?.query_row([target.device_id.as_str()], |row| row.get(0))?;
    if waiting >= new.max_queued {
        return Ok(QueueOutcome::QueueFull);
    }
    tx.prepare_cached(
        "INSERT INTO commands (id, connection_id, idempotency_key, project_id, device_id, graph_session_id, slug,
             arguments, status, queued_at)
         VALUES ($1, $2, $3, $4, $5, $6, $7, $8, 'queued', $9)",
    )?
    .execute(params![
        new.id.to_string(),
        new.connection_id,
        new.idempotency_key,
        target.project_id.as_str(),
        target.device_id.as_str(),
        target.metadata.id.as_str(),
        target.metadata.slug,
        to_json(&new.arguments)?,
        new.now.as_millisecond(),
    ])?;
    Ok(QueueOutcome::Queued { id: new.id, device_id: target.device_id, project_id: target.project_id })
}

fn repeated(tx: &Transaction<'_>, new: &NewCommand) -> Result<Option<QueueOutcome>> {
    let mut statement = tx.prepare_cached(
        "SELECT id, graph_session_id, arguments FROM commands WHERE connection_id = $1 AND idempotency_key = $2",
    )?;
    let rows = statement.query(params![new.connection_id, new.idempotency_key])?;
    first(rows, |row| {
        let id: CommandId = parsed(row, 0, "command id")?;
        let session: String = row.get(1)?;
        let arguments: Map<String, Value> = json(row, 2, "arguments")?;
        if session == new.graph_session_id && arguments == new.arguments {
            return Ok(QueueOutcome::Repeated(id));
        }
        Ok(QueueOutcome::KeyTaken(id))
    })
}

struct Target {
    project_id: ProjectId,
    device_id: DeviceId,
    metadata: SessionMetadata,
}

/// Of the projects with which the session is shared and in which the connection may run, the latest synced.
fn target(tx: &Transaction<'_>, presence: &Presence, new: &NewCommand) -> Result<Option<Target>> {
    let mut statement = tx.prepare_cached(
        "SELECT s.project_id, s.device_id, s.metadata, y.changed_at FROM shares s
         JOIN syncs y ON y.device_id = s.device_id AND y.project_id = s.project_id
         WHERE s.graph_session_id = $1",
    )?;
    let shares = all(statement.query([&new.graph_session_id])?, |row| {
        let target = Target {
            project_id: parsed(row, 0, "project id")?,
            device_id: parsed(row, 1, "device id")?,
            metadata: json(row, 2, "metadata")?,
        };
        let synced = presence.last_sync(&target.device_id, &target.project_id);
        Ok((synced.max(Some(row.get(3)?)), target))
    })?;
    let allowed = shares.into_iter().filter(|(_, target)| new.projects.contains(&target.project_id));
    Ok(allowed.max_by_key(|(synced, _)| *synced).map(|(_, target)| target))
}

/// A run of the connection's in one of the projects.
pub(super) fn run(
    tx: &Transaction<'_>,
    presence: &Presence,
    connection: &str,
    id: &str,
    projects: &[ProjectId],
) -> Result<Option<RunView>> {
    let mut statement = tx.prepare_cached(
        "SELECT id, graph_session_id, project_id, status, cancel_requested, queued_at, started_at, finished_at,
             progress, completion, device_id, seq
         FROM commands WHERE id = $1 AND connection_id = $2",
    )?;
    let found = first(statement.query(params![id, connection])?, |row| {
        let device: DeviceId = parsed(row, 10, "device id")?;
        let last_seen = presence.last_seen(&device);
        let status = status(row, 3)?;
        let ahead = if status == CommandStatus::Queued { ahead(tx, &device, row.get(11)?)? } else { 0 };
        Ok(RunView {
            id: parsed(row, 0, "command id")?,
            graph_session_id: parsed::<GraphSessionId>(row, 1, "session id")?,
            project_id: parsed(row, 2, "project id")?,
            status,
            cancel_requested: row.get(4)?,
            queued_at: time(row, 5, "queued_at")?,
            started_at: optional_time(row, 6, "started_at")?,
            finished_at: optional_time(row, 7, "finished_at")?,
            progress: json(row, 8, "progress")?,
            completion: optional_json(row, 9, "completion")?,
            ahead,
            last_seen_at: last_seen.map(|ms| timestamp(ms, "last_seen_at")).transpose()?,
        })
    })?;
    Ok(found.filter(|run| projects.contains(&run.project_id)))
}

/// A desktop runs one command at a time (SPEC 1.5), so all of its open ones that are older come first.
fn ahead(tx: &Transaction<'_>, device: &DeviceId, seq: i64) -> Result<u32> {
    Ok(tx.prepare_cached(AHEAD)?.query_row(params![device.as_str(), seq], |row| row.get(0))?)
}

/// Settles what has waited too long, and what its desktop has lost.
pub(super) fn settle_overdue(
    tx: &Transaction<'_>,
    presence: &Presence,
    moment: Moment,
    queued_before: Option<i64>,
) -> Result<Vec<Settled>> {
    let mut settled = Vec::new();
    for (id, event) in overdue(tx, presence, moment, queued_before)? {
        if let Some(applied) = apply(tx, &id.to_string(), event, moment)?
            && applied.changed
        {
            settled.push(Settled { id, status: applied.state.status });
        }
    }
    Ok(settled)
}

/// The commands that [`settle_overdue`] would settle. Reading first keeps an idle hub from writing.
pub(super) fn overdue(
    tx: &Transaction<'_>,
    presence: &Presence,
    moment: Moment,
    queued_before: Option<i64>,
) -> Result<Vec<(CommandId, Event)>> {
    let mut found = Vec::new();
    if let Some(queued_before) = queued_before {
        let mut statement = tx.prepare_cached(WAITED)?;
        let expired = all(statement.query([queued_before])?, |row| parsed(row, 0, "command id"))?;
        found.extend(expired.into_iter().map(|id| (id, Event::Expire)));
    }
    let mut statement = tx.prepare_cached(UNSPOKEN)?;
    let expired = all(statement.query([moment.now])?, |row| {
        let device: DeviceId = parsed(row, 1, "device id")?;
        Ok((parsed(row, 0, "command id")?, device, row.get::<_, i64>(2)?))
    })?;
    for (id, device, lease_until) in expired {
        let online_since = presence.online_since(&device, moment);
        if online_since.is_some_and(|since| is_lost(lease_until, since, moment.lease_ms, moment.now)) {
            found.push((id, Event::Lost));
        }
    }
    Ok(found)
}
