//! The calls in the life of one command: handed out, started, checked, completed.

use jiff::Timestamp;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use crate::{CommandId, CompletionStatus, GraphSessionId, IdError};

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
    /// Reads one entry of [`crate::SyncResponse::commands`].
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

/// The longest text in a [`CheckRequest`] that a hub keeps. Characters.
pub const MAX_PROGRESS_TEXT: usize = 1_000;

impl CheckRequest {
    /// The same with its texts cut.
    #[must_use]
    pub fn capped(mut self) -> Self {
        for text in [&mut self.phase, &mut self.message, &mut self.waiting_for].into_iter().flatten() {
            super::cut(text, MAX_PROGRESS_TEXT);
        }
        self
    }
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
