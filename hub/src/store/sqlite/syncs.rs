//! The sync: by far the most frequent call, so one that brings no news only reads.

use std::collections::HashSet;

use protocol::{CommandId, DeviceId, GraphSessionId, ProjectId, QueuedCommand, SessionMetadata};
use rusqlite::{Transaction, params};
use sha2::{Digest, Sha256};

use super::Moment;
use super::commands::apply;
use super::presence::Presence;
use super::rows::{all, first, json, parsed, time, timestamp, to_json};
use crate::command::{Event, is_lost};
use crate::model::DeviceRecord;
use crate::store::{Result, SharedSession, SyncInput, SyncOutcome};

/// At most this many commands per answer, and at most about this many bytes of arguments: the rest comes with a
/// later sync, and no answer grows beyond what a desktop is ready to read.
const MAX_COMMANDS: usize = 100;
const MAX_ARGUMENT_BYTES: usize = 4 * 1024 * 1024;

// Run at every sync, so held to an index by the same test as those of `commands`.
pub(super) const RUNNING: &str =
    "SELECT id, project_id, lease_until FROM commands WHERE device_id = $1 AND status = 'running'";
pub(super) const QUEUED: &str = "SELECT id, graph_session_id, slug, arguments, queued_at FROM commands
     WHERE device_id = $1 AND status = 'queued' AND project_id = $2 ORDER BY seq";
pub(super) const WORK: &str = "SELECT 1 FROM commands WHERE device_id = $1 AND project_id = $2
     AND (status = 'queued' OR (status = 'running' AND cancel_requested = 1))";

/// The times of one sync.
#[derive(Debug, Clone, Copy)]
pub(super) struct Times {
    pub(super) moment: Moment,
    /// Since when the desktop is online, in milliseconds since the epoch.
    pub(super) online_since: i64,
}

/// What a sync finds before it writes.
pub(super) enum Look {
    /// Nothing to write.
    Done(SyncOutcome),
    /// There is news: take the writer.
    MustWrite,
}

/// The reading half.
pub(super) fn look(
    tx: &Transaction<'_>,
    device: &DeviceRecord,
    input: &SyncInput,
    digest: &str,
    times: Times,
) -> Result<Look> {
    if !is_member(tx, &device.owner, &input.project_id)? {
        return Ok(Look::Done(SyncOutcome::NotMember));
    }
    let sql = "SELECT 1 FROM syncs WHERE device_id = $1 AND project_id = $2 AND digest = $3";
    let is_same = tx.prepare_cached(sql)?.exists(params![device.id.as_str(), input.project_id.as_str(), digest])?;
    let leases = leases(tx, &device.id, input, times)?;
    if !is_same || !leases.renew.is_empty() || !leases.lost.is_empty() {
        return Ok(Look::MustWrite);
    }
    let commands = queued(tx, &device.id, input)?;
    Ok(Look::Done(SyncOutcome::Synced { commands, lost: Vec::new() }))
}

/// The writing half.
pub(super) fn write(
    tx: &Transaction<'_>,
    device: &DeviceRecord,
    input: &SyncInput,
    digest: &str,
    times: Times,
) -> Result<SyncOutcome> {
    if let Some(id) = elsewhere(tx, device, &input.sessions)? {
        return Ok(SyncOutcome::SessionElsewhere(id));
    }
    replace_shares(tx, &device.id, input, digest, times.moment.now)?;
    let leases = leases(tx, &device.id, input, times)?;
    let mut renew = tx.prepare_cached("UPDATE commands SET lease_until = $1 WHERE id = $2")?;
    for id in &leases.renew {
        renew.execute(params![times.moment.lease_until(), id.to_string()])?;
    }
    for id in &leases.lost {
        apply(tx, &id.to_string(), Event::Lost, times.moment)?;
    }
    Ok(SyncOutcome::Synced { commands: queued(tx, &device.id, input)?, lost: leases.lost })
}

/// Tells whether two syncs bring the same sessions.
pub(super) fn digest(sessions: &[SessionMetadata]) -> Result<String> {
    Ok(hex::encode(Sha256::digest(to_json(sessions)?)))
}

fn is_member(tx: &Transaction<'_>, user: &str, project: &ProjectId) -> Result<bool> {
    let sql = "SELECT 1 FROM members WHERE project_id = $1 AND user_name = $2";
    Ok(tx.prepare_cached(sql)?.exists(params![project.as_str(), user])?)
}

struct Leases {
    renew: Vec<CommandId>,
    lost: Vec<CommandId>,
}

/// Of the device's running commands, those that it lists and those that it has lost. A sync speaks only for its
/// own project when it leaves a command out, but for any when it lists one.
fn leases(tx: &Transaction<'_>, device: &DeviceId, input: &SyncInput, times: Times) -> Result<Leases> {
    let mut statement = tx.prepare_cached(RUNNING)?;
    let running = all(statement.query([device.as_str()])?, |row| {
        Ok((parsed::<CommandId>(row, 0, "command id")?, parsed::<ProjectId>(row, 1, "project id")?, row.get(2)?))
    })?;
    let known: HashSet<CommandId> = input.known.iter().copied().collect();
    let mut leases = Leases { renew: Vec::new(), lost: Vec::new() };
    for (id, project, lease_until) in running {
        let until: Option<i64> = lease_until;
        if known.contains(&id) {
            if !times.moment.is_fresh(until) {
                leases.renew.push(id);
            }
        } else if project == input.project_id
            && is_lost(until.unwrap_or(0), times.online_since, times.moment.lease_ms, times.moment.now)
        {
            leases.lost.push(id);
        }
    }
    Ok(leases)
}

/// A session id that belongs to another owner's desktop: it must not be claimed. The owner's own may move, so that
/// a laptop that was linked anew keeps its sessions.
fn elsewhere(
    tx: &Transaction<'_>,
    device: &DeviceRecord,
    sessions: &[SessionMetadata],
) -> Result<Option<GraphSessionId>> {
    let sql = "SELECT d.owner FROM graph_sessions g JOIN devices d ON d.id = g.device_id WHERE g.id = $1";
    let mut statement = tx.prepare_cached(sql)?;
    for session in sessions {
        let owner: Option<String> = first(statement.query([session.id.as_str()])?, |row| Ok(row.get(0)?))?;
        if owner.is_some_and(|owner| owner != device.owner) {
            return Ok(Some(session.id.clone()));
        }
    }
    Ok(None)
}

fn replace_shares(tx: &Transaction<'_>, device: &DeviceId, input: &SyncInput, digest: &str, now: i64) -> Result<()> {
    let project = input.project_id.as_str();
    tx.prepare_cached("DELETE FROM shares WHERE device_id = $1 AND project_id = $2")?
        .execute(params![device.as_str(), project])?;
    let mut own = tx.prepare_cached(
        "INSERT INTO graph_sessions (id, device_id) VALUES ($1, $2)
         ON CONFLICT (id) DO UPDATE SET device_id = excluded.device_id",
    )?;
    // A session that moved from another desktop of the owner's is no longer shared by that one.
    let mut share = tx.prepare_cached(
        "INSERT INTO shares (graph_session_id, project_id, device_id, position, metadata)
         VALUES ($1, $2, $3, $4, $5)
         ON CONFLICT (graph_session_id, project_id) DO UPDATE
         SET device_id = excluded.device_id, position = excluded.position, metadata = excluded.metadata",
    )?;
    for (position, session) in input.sessions.iter().enumerate() {
        own.execute(params![session.id.as_str(), device.as_str()])?;
        let position = position as i64;
        share.execute(params![session.id.as_str(), project, device.as_str(), position, to_json(session)?])?;
    }
    tx.prepare_cached(
        "INSERT INTO syncs (device_id, project_id, digest, changed_at) VALUES ($1, $2, $3, $4)
         ON CONFLICT (device_id, project_id) DO UPDATE
         SET digest = excluded.digest, changed_at = excluded.changed_at",
    )?
    .execute(params![device.as_str(), project, digest, now])?;
    Ok(())
}

/// The commands to hand out, oldest first. They stay queued until the desktop starts them, so that one whose
/// answer got lost comes again.
fn queued(tx: &Transaction<'_>, device: &DeviceId, input: &SyncInput) -> Result<Vec<QueuedCommand>> {
    if !input.accept {
        return Ok(Vec::new());
    }
    let mut statement = tx.prepare_cached(QUEUED)?;
    let mut rows = statement.query(params![device.as_str(), input.project_id.as_str()])?;
    let mut commands = Vec::new();
    let mut bytes = 0;
    while let Some(row) = rows.next()? {
        bytes += row.get_ref(3)?.as_bytes().map_or(0, <[u8]>::len);
        if commands.len() == MAX_COMMANDS || (bytes > MAX_ARGUMENT_BYTES && !commands.is_empty()) {
            break;
        }
        commands.push(QueuedCommand {
            command_id: parsed(row, 0, "command id")?,
            graph_session_id: parsed(row, 1, "session id")?,
            slug: row.get(2)?,
            arguments: json(row, 3, "arguments")?,
            queued_at: time(row, 4, "queued_at")?,
        });
    }
    Ok(commands)
}

/// Whether the device has something to fetch or to cancel in one of the projects.
pub(super) fn has_work(tx: &Transaction<'_>, device: &DeviceId, projects: &[ProjectId]) -> Result<bool> {
    let mut statement = tx.prepare_cached(WORK)?;
    for project in projects {
        if statement.exists(params![device.as_str(), project.as_str()])? {
            return Ok(true);
        }
    }
    Ok(false)
}

/// The sessions shared with a project. A share counts only while the desktop's owner is a member.
pub(super) fn shared_sessions(
    tx: &Transaction<'_>,
    presence: &Presence,
    project: &ProjectId,
    limit: u32,
) -> Result<Vec<SharedSession>> {
    let mut statement = tx.prepare_cached(
        "SELECT s.metadata, d.name, d.id FROM shares s
         JOIN devices d ON d.id = s.device_id
         JOIN members m ON m.project_id = s.project_id AND m.user_name = d.owner
         WHERE s.project_id = $1 ORDER BY d.last_seen_at DESC, s.device_id, s.position LIMIT $2",
    )?;
    let mut sessions = all(statement.query(params![project.as_str(), limit])?, |row| {
        let device: DeviceId = parsed(row, 2, "device id")?;
        let seen = presence.last_seen(&device);
        Ok(SharedSession {
            metadata: json(row, 0, "metadata")?,
            desktop: row.get(1)?,
            last_seen_at: seen.map(|ms| timestamp(ms, "last_seen_at")).transpose()?,
        })
    })?;
    sessions.sort_by_key(|session| std::cmp::Reverse(session.last_seen_at));
    Ok(sessions)
}
