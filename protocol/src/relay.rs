//! The bodies of the relay API, desktop to hub.
//!
//! Every call is a JSON request with a bearer device token. Unknown fields are ignored on both sides, so that
//! either half can be updated first.

use jiff::Timestamp;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::{CommandId, DeviceId, GraphSessionId, ProjectId};

mod command;
#[cfg(test)]
mod tests;

pub use command::{
    BadCommand, CheckRequest, CheckResponse, CommandStatus, CompleteResponse, MAX_PROGRESS_TEXT, QueuedCommand,
    StartRequest, StartResponse,
};

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

/// The longest name, slug or status of a session that is told. Characters.
pub const MAX_SESSION_NAME: usize = 200;
/// The longest description of a session that is told. Characters.
pub const MAX_SESSION_DESCRIPTION: usize = 2_000;

impl SessionMetadata {
    /// The same with its texts cut, so that a hundred of them fit into one sync and none floods the assistants that
    /// read them. Desktops send it so; a hub does it again with what came.
    #[must_use]
    pub fn capped(mut self) -> Self {
        for text in [&mut self.name, &mut self.slug, &mut self.status] {
            cut(text, MAX_SESSION_NAME);
        }
        cut(&mut self.description, MAX_SESSION_DESCRIPTION);
        self
    }
}

/// Cuts a text to so many characters.
fn cut(text: &mut String, characters: usize) {
    if let Some((end, _)) = text.char_indices().nth(characters) {
        text.truncate(end);
    }
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
