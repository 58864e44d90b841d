//! When each desktop was last heard of, kept in memory and written now and then.
//!
//! Most syncs bring no news but that the desktop is there. Writing each of them would cost a flush of the disk,
//! and the hub's throughput would be that of its disk. After a crash the last few seconds are missing, which the
//! next sync makes good.

use std::collections::HashMap;
use std::sync::{Mutex, MutexGuard, PoisonError};

use protocol::{DeviceId, ProjectId};
use rusqlite::Transaction;

use super::Moment;
use crate::store::StoreError;

/// What is known of one desktop. Times in milliseconds since the epoch.
#[derive(Debug, Clone, Default)]
struct Seen {
    last: i64,
    /// Since when it has been online without a gap as long as a lease.
    since: i64,
    /// The last sync of each project; only to choose between projects that share the same session.
    projects: HashMap<ProjectId, i64>,
    /// Whether the database is behind.
    dirty: bool,
}

/// All desktops.
#[derive(Debug, Default)]
pub(super) struct Presence {
    desktops: Mutex<HashMap<DeviceId, Seen>>,
}

impl Presence {
    /// Reads what was written last.
    pub(super) fn load(connection: &rusqlite::Connection) -> Result<Self, StoreError> {
        let sql = "SELECT id, last_seen_at, online_since FROM devices WHERE last_seen_at IS NOT NULL";
        let mut statement = connection.prepare(sql)?;
        let mut rows = statement.query([])?;
        let mut desktops = HashMap::new();
        while let Some(row) = rows.next()? {
            let last: i64 = row.get(1)?;
            let since = row.get::<_, Option<i64>>(2)?.unwrap_or(last);
            desktops.insert(super::rows::parsed(row, 0, "device id")?, Seen { last, since, ..Seen::default() });
        }
        Ok(Self { desktops: Mutex::new(desktops) })
    }

    /// Notes that the desktop called and answers since when it is online.
    pub(super) fn note(&self, device: &DeviceId, moment: Moment) -> i64 {
        let Moment { now, lease_ms } = moment;
        let mut desktops = self.lock();
        let seen = desktops.entry(device.clone()).or_default();
        if seen.last.saturating_add(lease_ms) < now {
            seen.since = now;
        }
        seen.last = seen.last.max(now);
        seen.dirty = true;
        seen.since
    }

    /// Notes a sync that was taken: only then is the project known to be one of the desktop's.
    pub(super) fn synced(&self, device: &DeviceId, project: &ProjectId, now: i64) {
        let mut desktops = self.lock();
        let Some(seen) = desktops.get_mut(device) else {
            return;
        };
        match seen.projects.get_mut(project) {
            Some(at) => *at = now,
            None => drop(seen.projects.insert(project.clone(), now)),
        }
    }

    /// The last sync of any project.
    pub(super) fn last_seen(&self, device: &DeviceId) -> Option<i64> {
        self.lock().get(device).map(|seen| seen.last)
    }

    /// The last sync of one project, as far as this process has seen one.
    pub(super) fn last_sync(&self, device: &DeviceId, project: &ProjectId) -> Option<i64> {
        self.lock().get(device).and_then(|seen| seen.projects.get(project).copied())
    }

    /// Since when the desktop has been online, if it is.
    pub(super) fn online_since(&self, device: &DeviceId, moment: Moment) -> Option<i64> {
        let Moment { now, lease_ms } = moment;
        let desktops = self.lock();
        let seen = desktops.get(device)?;
        (seen.last.saturating_add(lease_ms) >= now).then_some(seen.since)
    }

    /// What the database does not know yet: device, last seen, online since.
    pub(super) fn take_dirty(&self) -> Vec<(DeviceId, i64, i64)> {
        let mut desktops = self.lock();
        let dirty = desktops.iter_mut().filter(|(_, seen)| seen.dirty);
        dirty
            .map(|(id, seen)| {
                seen.dirty = false;
                (id.clone(), seen.last, seen.since)
            })
            .collect()
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<DeviceId, Seen>> {
        self.desktops.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Writes what [`Presence::take_dirty`] gave. If that fails, the next sync makes the desktop dirty again.
pub(super) fn save(tx: &Transaction<'_>, seen: &[(DeviceId, i64, i64)]) -> Result<(), StoreError> {
    let mut statement = tx.prepare_cached("UPDATE devices SET last_seen_at = $1, online_since = $2 WHERE id = $3")?;
    for (id, last, since) in seen {
        statement.execute(rusqlite::params![last, since, id.as_str()])?;
    }
    Ok(())
}
