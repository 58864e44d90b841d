//! The store in one SQLite file (WAL, `synchronous=FULL`, foreign keys).
//!
//! SQL parameters are `$1`, `$2`, … in the order of their first use: SQLite numbers them so, and PostgreSQL reads
//! the same text.

mod access;
mod commands;
mod pool;
mod presence;
mod rows;
mod schema;
mod syncs;

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use jiff::Timestamp;
use protocol::{DeviceId, Project, ProjectId};

use self::pool::Database;
use self::presence::Presence;
use self::syncs::{Look, Times};
use super::{
    Actor, Applied, NewCommand, QueueOutcome, Result, RunView, Settled, SharedSession, Store, StoreError, SyncInput,
    SyncOutcome,
};
use crate::command::Event;
use crate::model::{Connection, DeviceRecord};
use crate::token::TokenHash;

/// A hub's memory in one file.
pub struct SqliteStore {
    database: Database,
    presence: Arc<Presence>,
}

impl SqliteStore {
    /// Opens the file, making it where it is missing and migrating it where it is old.
    ///
    /// # Errors
    /// When the file cannot be opened or is of a later version.
    pub async fn open(path: &str) -> Result<Self> {
        let path = path.to_owned();
        let open = move || {
            let in_memory = path == ":memory:";
            let path = Path::new(&path);
            let writer = schema::open(path, in_memory)?;
            let presence = Arc::new(Presence::load(&writer)?);
            Ok(Self { database: Database::new(writer, path, in_memory)?, presence })
        };
        tokio::task::spawn_blocking(open).await.map_err(|_| StoreError::Interrupted)?
    }
}

#[cfg(test)]
impl SqliteStore {
    /// Panics in the middle of a transaction, as a bug would.
    pub(crate) async fn fail_while_writing(&self) {
        let result: Result<()> = self
            .database
            .write(|tx| {
                tx.execute("INSERT INTO users (name, created_at) VALUES ('nobody', 0)", [])?;
                panic!("meant by the test");
            })
            .await;
        assert!(matches!(result, Err(StoreError::Interrupted)));
    }
}

/// The time of a call and the length of a lease, in milliseconds, the first since the epoch.
#[derive(Debug, Clone, Copy)]
struct Moment {
    now: i64,
    lease_ms: i64,
}

impl Moment {
    fn new(now: Timestamp, lease: Duration) -> Self {
        Self { now: now.as_millisecond(), lease_ms: millis(lease) }
    }

    /// When a lease given now runs out.
    fn lease_until(self) -> i64 {
        self.now.saturating_add(self.lease_ms)
    }

    /// Whether a lease has more than three quarters of its time left, so that renewing it can wait.
    fn is_fresh(self, lease_until: Option<i64>) -> bool {
        lease_until.is_some_and(|until| until - self.now > self.lease_ms / 4 * 3)
    }
}

fn millis(duration: Duration) -> i64 {
    i64::try_from(duration.as_millis()).unwrap_or(i64::MAX / 4)
}

#[async_trait]
impl Store for SqliteStore {
    async fn add_project(&self, project: &Project, now: Timestamp) -> Result<()> {
        let project = project.clone();
        self.database.write(move |tx| access::add_project(tx, &project, now)).await
    }

    async fn projects(&self) -> Result<Vec<Project>> {
        self.database.read(access::projects).await
    }

    async fn projects_of(&self, user: &str) -> Result<Vec<Project>> {
        let user = user.to_owned();
        self.database.read(move |tx| access::projects_of(tx, &user)).await
    }

    async fn add_member(&self, project: &ProjectId, user: &str, now: Timestamp) -> Result<bool> {
        let (project, user) = (project.clone(), user.to_owned());
        self.database.write(move |tx| access::add_member(tx, &project, &user, now)).await
    }

    async fn add_connection(&self, connection: &Connection, token: &TokenHash) -> Result<()> {
        let (connection, token) = (connection.clone(), token.clone());
        self.database.write(move |tx| access::add_connection(tx, &connection, &token)).await
    }

    async fn connections(&self) -> Result<Vec<Connection>> {
        self.database.read(access::connections).await
    }

    async fn revoke_connection(&self, id: &str, now: Timestamp) -> Result<bool> {
        let id = id.to_owned();
        self.database.write(move |tx| access::revoke_connection(tx, &id, now)).await
    }

    async fn add_device(&self, device: &DeviceRecord, token: &TokenHash) -> Result<()> {
        let (device, token) = (device.clone(), token.clone());
        self.database.write(move |tx| access::add_device(tx, &device, &token)).await
    }

    async fn devices(&self) -> Result<Vec<DeviceRecord>> {
        let presence = Arc::clone(&self.presence);
        self.database.read(move |tx| access::devices(tx, &presence)).await
    }

    async fn revoke_device(&self, id: &str, now: Timestamp) -> Result<bool> {
        let id = id.to_owned();
        self.database.write(move |tx| access::revoke_device(tx, &id, now)).await
    }

    async fn device_by_token(&self, token: &TokenHash) -> Result<Option<DeviceRecord>> {
        let (token, presence) = (token.clone(), Arc::clone(&self.presence));
        self.database.read(move |tx| access::device_by_token(tx, &token, &presence)).await
    }

    async fn connection_by_token(&self, token: &TokenHash) -> Result<Option<Connection>> {
        let token = token.clone();
        self.database.read(move |tx| access::connection_by_token(tx, &token)).await
    }

    async fn sync(
        &self,
        device: &DeviceRecord,
        input: SyncInput,
        now: Timestamp,
        lease: Duration,
    ) -> Result<SyncOutcome> {
        let moment = Moment::new(now, lease);
        let times = Times { moment, online_since: self.presence.note(&device.id, moment) };
        let digest = syncs::digest(&input.sessions)?;
        let sync = Arc::new((device.clone(), input, digest));
        let reading = Arc::clone(&sync);
        let look = move |tx: &rusqlite::Transaction<'_>| {
            let (device, input, digest) = &*reading;
            syncs::look(tx, device, input, digest, times)
        };
        let outcome = match self.database.read(look).await? {
            Look::Done(outcome) => outcome,
            Look::MustWrite => {
                let writing = Arc::clone(&sync);
                let write = move |tx: &rusqlite::Transaction<'_>| {
                    let (device, input, digest) = &*writing;
                    syncs::write(tx, device, input, digest, times)
                };
                self.database.write(write).await?
            }
        };
        if matches!(outcome, SyncOutcome::Synced { .. }) {
            self.presence.synced(&device.id, &sync.1.project_id, moment.now);
        }
        Ok(outcome)
    }

    async fn apply(
        &self,
        actor: &Actor,
        id: &str,
        event: Event,
        now: Timestamp,
        lease: Duration,
    ) -> Result<Option<Applied>> {
        let (actor, id, moment) = (actor.clone(), id.to_owned(), Moment::new(now, lease));
        self.database
            .write(move |tx| {
                if !commands::belongs(tx, &actor, &id)? {
                    return Ok(None);
                }
                commands::apply(tx, &id, event, moment)
            })
            .await
    }

    async fn has_work(&self, device: &DeviceId, projects: &[ProjectId]) -> Result<bool> {
        let (device, projects) = (device.clone(), projects.to_owned());
        self.database.read(move |tx| syncs::has_work(tx, &device, &projects)).await
    }

    async fn shared_sessions(&self, project: &ProjectId, limit: u32) -> Result<Vec<SharedSession>> {
        let (project, presence) = (project.clone(), Arc::clone(&self.presence));
        self.database.read(move |tx| syncs::shared_sessions(tx, &presence, &project, limit)).await
    }

    async fn queue(&self, command: NewCommand) -> Result<QueueOutcome> {
        let presence = Arc::clone(&self.presence);
        self.database.write(move |tx| commands::queue(tx, &presence, &command)).await
    }

    async fn run(&self, connection_id: &str, id: &str, projects: &[ProjectId]) -> Result<Option<RunView>> {
        let (connection, id, projects) = (connection_id.to_owned(), id.to_owned(), projects.to_owned());
        let presence = Arc::clone(&self.presence);
        self.database.read(move |tx| commands::run(tx, &presence, &connection, &id, &projects)).await
    }

    async fn settle_overdue(
        &self,
        now: Timestamp,
        lease: Duration,
        queue_ttl: Option<Duration>,
    ) -> Result<Vec<Settled>> {
        let moment = Moment::new(now, lease);
        let queued_before = queue_ttl.map(|ttl| moment.now.saturating_sub(millis(ttl)));
        let presence = Arc::clone(&self.presence);
        let overdue = self.database.read({
            let presence = Arc::clone(&presence);
            move |tx| commands::overdue(tx, &presence, moment, queued_before)
        });
        if overdue.await?.is_empty() {
            return Ok(Vec::new());
        }
        self.database.write(move |tx| commands::settle_overdue(tx, &presence, moment, queued_before)).await
    }

    async fn flush(&self) -> Result<()> {
        let seen = self.presence.take_dirty();
        if seen.is_empty() {
            return Ok(());
        }
        self.database.write(move |tx| presence::save(tx, &seen)).await
    }
}
