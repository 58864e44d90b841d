//! The bodies of the relay API, desktop to hub.
//!
//! Every call is a JSON request with a bearer device token. Unknown fields are ignored on both sides, so that
//! either half can be updated first.

use jiff::Timestamp;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use crate::{CommandId, CompletionStatus, DeviceId, GraphSessionId, IdError, ProjectId};

/// A sync carries at most this many Graph sessions (SPEC 1.2).
pub const MAX_SESSIONS_PER_SYNC: usize = 100;

/// The paths below the hub's base URL.
pub mod path {
    use crate::CommandId;

    /// `GET`: the projects that the device's owner is a member of.
    pub const PROJECTS: &str = "/external-assistants/graph-relays/projects";
    /// `POST`: tell what is shared, take what is queued.
    pub const SYNC: &str = "/external-assistants/graph-relays/sync";
    /// `POST`: return as soon as something is queued or to be cancelled.
    pub const WAIT: &str = "/external-assistants/graph-relays/wait";

    /// `POST`: one step (`start`, `check` or `complete`) in the life of a command.
    pub fn command(id: &CommandId, step: &str) -> String {
        format!("/external-assistants/graph-relays/commands/{id}/{step}")
    }
}

/// A project, as the desktop's owner sees it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Project {
    /// Its id on the hub.
    pub id: ProjectId,
    /// What people call it.
    pub name: String,
}

/// Answer to [`path::PROJECTS`].
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct ProjectsResponse {
    /// The projects that the device's owner is a member of.
    pub projects: Vec<Project>,
    /// The hub's clock.
    pub server_time: Timestamp,
}

/// The desktop, as it introduces itself with each sync.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Device {
    /// Made once, kept for the life of the desktop's database.
    pub id: DeviceId,
    /// What the owner calls this laptop.
    pub name: String,
    /// The relay's version.
    pub version: String,
    /// Whether a Graph is running right now.
    pub busy: bool,
}

/// What a hub may know of a shared Graph: never its source.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct SessionMetadata {
    /// The session's fixed id.
    pub id: GraphSessionId,
    /// The Graph's name.
    pub name: String,
    /// What it does, in the owner's words.
    pub description: String,
    /// The name by which it is called; a change of it withdraws consent (SPEC 1.3).
    pub slug: String,
    /// The saved version that a command would run.
    pub version: u32,
    /// `ready`, or why it cannot run now.
    pub status: String,
}

/// Body of [`path::SYNC`].
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct SyncRequest {
    /// The project that this sync speaks for.
    pub project_id: ProjectId,
    /// Who is asking.
    pub device: Device,
    /// Commands that the desktop holds and has not reported: the hub must not give them up as lost.
    pub known: Vec<CommandId>,
    /// Every session ticked for the project, at most [`MAX_SESSIONS_PER_SYNC`].
    pub sessions: Vec<SessionMetadata>,
    /// Whether queued commands may be handed out now.
    pub accept: bool,
}

/// Answer to [`path::SYNC`].
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct SyncResponse {
    /// Queued commands, oldest first, each to be read by [`QueuedCommand::parse`]: one that makes no sense
    /// must not hide the others.
    #[serde(default)]
    pub commands: Vec<Value>,
    /// When the hub would like to be asked again, in seconds.
    #[serde(default)]
    pub next_poll_s: Option<u64>,
    /// The hub's clock.
    pub server_time: Timestamp,
}

/// One queued run, as the hub hands it out.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct QueuedCommand {
    /// The command's id.
    pub command_id: CommandId,
    /// Which Graph session to run.
    pub graph_session_id: GraphSessionId,
    /// The session's slug when the run was asked for.
    pub slug: String,
    /// The script's `args`.
    pub arguments: Map<String, Value>,
    /// When the assistant asked.
    pub queued_at: Timestamp,
}

/// A command that cannot be understood.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum BadCommand {
    /// Without a UUID there is nothing to bind a run to, nor a way to report.
    #[error("{0}")]
    Id(#[from] IdError),
    /// The id is good, so the command can be ended as failed.
    #[error("{reason}")]
    Body {
        /// The command.
        command_id: CommandId,
        /// What was wrong, to be read by a person.
        reason: String,
    },
}

impl QueuedCommand {
    /// Reads one entry of [`SyncResponse::commands`].
    ///
    /// # Errors
    /// [`BadCommand`], which keeps the id where that much could be read.
    pub fn parse(entry: &Value) -> Result<Self, BadCommand> {
        let id = match entry.get("command_id") {
            Some(Value::String(text)) => text.as_str(),
            _ => "",
        };
        let command_id: CommandId = id.parse()?;
        Self::deserialize(entry).map_err(|error| BadCommand::Body {
            command_id,
            reason: format!("the hub sent a malformed command: {error}"),
        })
    }
}

/// Where a command stands, as the hub sees it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum CommandStatus {
    /// Waiting for its desktop.
    Queued,
    /// The desktop has started it.
    Running,
    /// The script ended.
    Completed,
    /// The script failed, or could not be run.
    Failed,
    /// Stopped by the assistant, by the owner, or for want of consent.
    Cancelled,
}

impl CommandStatus {
    /// Whether nothing more can happen to the command.
    pub fn is_settled(self) -> bool {
        !matches!(self, Self::Queued | Self::Running)
    }

    /// The wire's word for it.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Queued => "queued",
            Self::Running => "running",
            Self::Completed => "completed",
            Self::Failed => "failed",
            Self::Cancelled => "cancelled",
        }
    }
}

impl From<CompletionStatus> for CommandStatus {
    fn from(status: CompletionStatus) -> Self {
        match status {
            CompletionStatus::Completed => Self::Completed,
            CompletionStatus::Failed => Self::Failed,
            CompletionStatus::Cancelled => Self::Cancelled,
        }
    }
}

/// Body of `start`: the desktop is about to spawn the worker.
#[derive(Debug, Clone, Copy, Serialize, Deserialize)]
pub struct StartRequest {
    /// Counts the desktop's starts of this command from 1; the same attempt may be sent again.
    pub attempt: u32,
}

/// Answer to `start`: 200 with `running`, or 409 with what stands instead.
#[derive(Debug, Clone, Copy, Serialize, Deserialize)]
pub struct StartResponse {
    /// Where the command stands now.
    pub status: CommandStatus,
    /// The hub's clock.
    pub server_time: Timestamp,
}

/// Body of `check`: what an assistant that watches the run may see of it.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct CheckRequest {
    /// The phase that the script announced last.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub phase: Option<String>,
    /// The script's last progress message.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub message: Option<String>,
    /// Units of work done.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub done: Option<u64>,
    /// Units of work in all.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub total: Option<u64>,
    /// Tokens spent so far.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub total_tokens: Option<u64>,
    /// What a person must do before the run goes on.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub waiting_for: Option<String>,
}

/// Answer to `check`.
#[derive(Debug, Clone, Copy, Serialize, Deserialize)]
pub struct CheckResponse {
    /// Where the command stands.
    pub status: CommandStatus,
    /// Whether the assistant asked for the run to be cancelled.
    pub cancel_requested: bool,
    /// The hub's clock.
    pub server_time: Timestamp,
}

/// Answer to `complete`: 200 with the status, or 409 with what stands instead.
#[derive(Debug, Clone, Copy, Serialize, Deserialize)]
pub struct CompleteResponse {
    /// Where the command stands.
    pub status: CommandStatus,
    /// The hub's clock.
    pub server_time: Timestamp,
}

/// Body of [`path::WAIT`].
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct WaitRequest {
    /// The projects to listen for.
    pub projects: Vec<ProjectId>,
    /// How long the hub may hold the call, at most 50 s.
    pub timeout_s: u64,
}

/// Answer to [`path::WAIT`].
#[derive(Debug, Clone, Copy, Serialize, Deserialize)]
pub struct WaitResponse {
    /// Whether there is something to do: a command queued, or a cancel asked for.
    pub wake: bool,
    /// The hub's clock.
    pub server_time: Timestamp,
}

/// Body of every answer that is an error.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct ErrorBody {
    /// What went wrong.
    pub error: ErrorDetail,
    /// The hub's clock, also here: a wrong clock must not look like a wrong token.
    pub server_time: Timestamp,
}

/// The part of an error that may be shown.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct ErrorDetail {
    /// Stable, for programs: `not_found`, `unauthorized`, `bad_request`, …
    pub code: String,
    /// For people.
    pub message: String,
}
