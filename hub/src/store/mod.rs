//! What the hub remembers, behind one trait: SQLite now, PostgreSQL by the same story.
//!
//! Every method is one transaction. After a crash the store holds every command, start and report that was
//! answered; only the times of the last syncs may be some seconds old, since those are kept in memory and written
//! together.

pub mod sqlite;
#[cfg(test)]
mod story;

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use jiff::Timestamp;
use protocol::{
    CheckRequest, CommandId, CommandStatus, Completion, Device, DeviceId, GraphSessionId, Project, ProjectId,
    QueuedCommand, SessionMetadata,
};
use serde_json::{Map, Value};

use crate::command::{CommandState, Event};
use crate::model::{Connection, DeviceRecord};
use crate::token::TokenHash;

/// Why a store could not do its work. None of it is for the eyes of a caller from outside.
#[derive(Debug, thiserror::Error)]
pub enum StoreError {
    /// The URL names a database that this version does not speak to.
    #[error("{0}")]
    Unsupported(String),
    /// The file was written by a later version; it was left untouched.
    #[error("{path} has schema version {found}, this program knows up to {known}: use the newer program")]
    Newer {
        /// The database.
        path: PathBuf,
        /// Its version.
        found: i64,
        /// The latest version known here.
        known: i64,
    },
    /// The database refused or failed.
    #[error("database: {0}")]
    Database(#[source] Box<dyn std::error::Error + Send + Sync>),
    /// A row holds what this program never writes.
    #[error("the database holds an unreadable {what}: {why}")]
    Corrupt {
        /// Which value.
        what: &'static str,
        /// What is wrong with it.
        why: String,
    },
    /// The call was cut short because the process is stopping, or because it panicked.
    #[error("the database call did not finish")]
    Interrupted,
}

/// What every method of a store answers.
pub type Result<T> = std::result::Result<T, StoreError>;

/// One sync, as it is stored.
#[derive(Debug, Clone)]
pub struct SyncInput {
    /// The project it speaks for.
    pub project_id: ProjectId,
    /// How the desktop introduced itself.
    pub device: Device,
    /// Commands that it holds and has not reported.
    pub known: Vec<CommandId>,
    /// What is shared with the project, whole.
    pub sessions: Vec<SessionMetadata>,
    /// Whether commands may be handed out.
    pub accept: bool,
}

/// What came of a sync.
#[derive(Debug, Clone, PartialEq)]
pub enum SyncOutcome {
    /// Stored. The commands queued for this desktop and project, oldest first, and those given up as lost.
    Synced {
        /// To be handed out.
        commands: Vec<QueuedCommand>,
        /// Settled as failed by this sync.
        lost: Vec<CommandId>,
    },
    /// The device's owner is not a member of the project, or there is no such project.
    NotMember,
    /// A session id in it belongs to another owner's desktop.
    SessionElsewhere(GraphSessionId),
}

/// Who acts on a command: one that is not theirs does not exist for them.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Actor {
    /// The desktop that it is queued for.
    Device(DeviceId),
    /// The connection that started it, as long as it may use the command's project.
    Connection {
        /// The connection.
        id: String,
        /// The projects in which it may act.
        projects: Vec<ProjectId>,
    },
}

/// What came of an event.
#[derive(Debug, Clone, PartialEq)]
pub struct Applied {
    /// Where the command stands now.
    pub state: CommandState,
    /// Whether the event was taken.
    pub accepted: bool,
    /// Whether anything that a watcher can see was written.
    pub changed: bool,
    /// The desktop it is queued for.
    pub device_id: DeviceId,
    /// The project it is tied to.
    pub project_id: ProjectId,
}

/// A Graph session that a project's members share.
#[derive(Debug, Clone, PartialEq)]
pub struct SharedSession {
    /// What its desktop tells of it.
    pub metadata: SessionMetadata,
    /// The desktop's name.
    pub desktop: String,
    /// Its last sync.
    pub last_seen_at: Option<Timestamp>,
}

/// A run that an assistant asks for.
#[derive(Debug, Clone)]
pub struct NewCommand {
    /// The id it gets unless the key is known.
    pub id: CommandId,
    /// Who asks.
    pub connection_id: String,
    /// Unique within the connection.
    pub idempotency_key: String,
    /// Which session to run; a text, since it came from outside.
    pub graph_session_id: String,
    /// The script's `args`.
    pub arguments: Map<String, Value>,
    /// The projects in which the connection may run.
    pub projects: Vec<ProjectId>,
    /// At most this many commands may wait for one desktop.
    pub max_queued: u32,
    /// The time of asking.
    pub now: Timestamp,
}

/// What came of asking for a run.
#[derive(Debug, Clone, PartialEq)]
pub enum QueueOutcome {
    /// A new row.
    Queued {
        /// The command.
        id: CommandId,
        /// The desktop to wake.
        device_id: DeviceId,
        /// The project it is tied to.
        project_id: ProjectId,
    },
    /// The key was used before, with the same session and arguments.
    Repeated(CommandId),
    /// The key was used before for something else.
    KeyTaken(CommandId),
    /// There is no such session in those projects.
    NoSession,
    /// Too many commands wait for that desktop.
    QueueFull,
}

/// Everything that an assistant may see of its run.
#[derive(Debug, Clone, PartialEq)]
pub struct RunView {
    /// The command.
    pub id: CommandId,
    /// The session that it runs.
    pub graph_session_id: GraphSessionId,
    /// The project it is tied to.
    pub project_id: ProjectId,
    /// Where it stands.
    pub status: CommandStatus,
    /// Whether a running one is to be cancelled.
    pub cancel_requested: bool,
    /// When it was asked for.
    pub queued_at: Timestamp,
    /// When its desktop first started it.
    pub started_at: Option<Timestamp>,
    /// When it was settled.
    pub finished_at: Option<Timestamp>,
    /// What the desktop last told of it.
    pub progress: CheckRequest,
    /// How it ended.
    pub completion: Option<Completion>,
    /// Commands of the same desktop that come before it, while it is queued.
    pub ahead: u32,
    /// The last sync of its desktop.
    pub last_seen_at: Option<Timestamp>,
}

/// A command that the settlement changed, so that whoever waits for it can be told.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Settled {
    /// The command.
    pub id: CommandId,
    /// Its status now.
    pub status: CommandStatus,
}

/// The hub's memory. See the module for what it promises.
#[async_trait]
pub trait Store: Send + Sync + 'static {
    /// Adds a project with no members.
    async fn add_project(&self, project: &Project, now: Timestamp) -> Result<()>;
    /// All projects, by name.
    async fn projects(&self) -> Result<Vec<Project>>;
    /// The projects of which the user is a member, by name.
    async fn projects_of(&self, user: &str) -> Result<Vec<Project>>;
    /// Adds a membership, and the user where needed. False when there is no such project.
    async fn add_member(&self, project: &ProjectId, user: &str, now: Timestamp) -> Result<bool>;
    /// Adds a connection with its grants.
    async fn add_connection(&self, connection: &Connection, token: &TokenHash) -> Result<()>;
    /// All connections, oldest first.
    async fn connections(&self) -> Result<Vec<Connection>>;
    /// Revokes a connection and calls off its commands. False when there is none.
    async fn revoke_connection(&self, id: &str, now: Timestamp) -> Result<bool>;
    /// Adds a device.
    async fn add_device(&self, device: &DeviceRecord, token: &TokenHash) -> Result<()>;
    /// All devices, oldest first.
    async fn devices(&self) -> Result<Vec<DeviceRecord>>;
    /// Revokes a device, withdraws what it shared and settles its commands. False when there is none.
    async fn revoke_device(&self, id: &str, now: Timestamp) -> Result<bool>;

    /// The live device of a token.
    async fn device_by_token(&self, token: &TokenHash) -> Result<Option<DeviceRecord>>;
    /// The live connection of a token, with its grants in projects of which its owner is still a member.
    async fn connection_by_token(&self, token: &TokenHash) -> Result<Option<Connection>>;

    /// Replaces what the device shares with the project, renews its presence and the leases of the commands that
    /// it lists, gives up those that are lost, and reads what is queued.
    async fn sync(
        &self,
        device: &DeviceRecord,
        input: SyncInput,
        now: Timestamp,
        lease: Duration,
    ) -> Result<SyncOutcome>;
    /// Applies an event to a command of the actor's. `None` when it has no such command.
    async fn apply(
        &self,
        actor: &Actor,
        id: &str,
        event: Event,
        now: Timestamp,
        lease: Duration,
    ) -> Result<Option<Applied>>;
    /// Whether a command is queued, or a running one to be cancelled, for the device in one of the projects.
    async fn has_work(&self, device: &DeviceId, projects: &[ProjectId]) -> Result<bool>;

    /// The sessions shared with a project by its members, the latest synced desktops first.
    async fn shared_sessions(&self, project: &ProjectId, limit: u32) -> Result<Vec<SharedSession>>;
    /// Queues a run, once per connection and key.
    async fn queue(&self, command: NewCommand) -> Result<QueueOutcome>;
    /// A run of the connection's, in one of the projects. `None` for all others alike.
    async fn run(&self, connection_id: &str, id: &str, projects: &[ProjectId]) -> Result<Option<RunView>>;

    /// Cancels commands that waited in the queue for longer than `queue_ttl`, and fails running ones whose
    /// desktop is online but let their lease run out.
    async fn settle_overdue(
        &self,
        now: Timestamp,
        lease: Duration,
        queue_ttl: Option<Duration>,
    ) -> Result<Vec<Settled>>;
    /// Writes what is only in memory: the times of the last syncs.
    async fn flush(&self) -> Result<()>;
}

/// Opens a store by URL: `sqlite:/path/hub.db`, `sqlite::memory:`, or a plain path to a SQLite file.
///
/// # Errors
/// When the scheme is not spoken here, or the database cannot be opened or is of a later version.
pub async fn open_store(url: &str) -> std::result::Result<Arc<dyn Store>, StoreError> {
    if url.starts_with("postgres:") || url.starts_with("postgresql:") {
        return Err(StoreError::Unsupported(
            "PostgreSQL is not in this version; use sqlite:/path/to/hub.db".to_owned(),
        ));
    }
    let path = match url.strip_prefix("sqlite:") {
        Some(rest) => rest.strip_prefix("//").unwrap_or(rest),
        None if url.contains("://") => {
            let scheme = url.split("://").next().unwrap_or_default();
            return Err(StoreError::Unsupported(format!("no store for `{scheme}://`; use sqlite:/path/to/hub.db")));
        }
        None => url,
    };
    Ok(Arc::new(sqlite::SqliteStore::open(path).await?))
}
