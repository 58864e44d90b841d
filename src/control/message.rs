//! What the command line and the daemon say to each other.

use std::path::PathBuf;

use fleet::Limits;
use protocol::ExecutionId;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::desktop::NoRelay;
use super::views::{GraphView, OutboxItem, ProjectView, RunView, StatusView};
use crate::relay::HubError;
use crate::store::executions::Recorded;

/// Grows with every change that an older side would misread.
pub const PROTOCOL: u32 = 1;

/// The daemon's first line.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Hello {
    /// [`PROTOCOL`] of the daemon.
    pub protocol: u32,
    /// The daemon's version, for people.
    pub version: String,
}

/// What the owner can ask. The one line that the command line sends.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(tag = "request", rename_all = "snake_case")]
pub enum Request {
    /// How things stand.
    Status,
    /// Saves a Graph, or with `update` its next version.
    GraphSave {
        /// The name by which it is called.
        slug: String,
        /// The file's name, for error positions.
        file: String,
        /// The script.
        source: String,
        /// Whether the Graph must exist already.
        update: bool,
    },
    /// Gives a Graph another slug.
    GraphRename {
        /// As it is now.
        slug: String,
        /// As it shall be.
        new_slug: String,
    },
    /// Every saved Graph.
    GraphList,
    /// One saved Graph, with its source.
    GraphShow {
        /// Its slug.
        slug: String,
        /// A version other than the latest.
        version: Option<u32>,
    },
    /// Runs a Graph for the owner, telling its events. The end of the connection cancels it.
    GraphRun {
        /// What to run.
        target: RunTarget,
        /// The script's `args`, an object.
        arguments: Value,
        /// Narrows the owner's ceilings.
        limits: Limits,
        /// Folders granted to this run, to read.
        read: Vec<PathBuf>,
    },
    /// The projects that the hub knows the owner in.
    ProjectList,
    /// Switches a project on or off.
    ProjectSwitch {
        /// Its id, or its name where that is unique.
        project: String,
        /// On or off.
        on: bool,
    },
    /// Ticks or unticks a Graph for a project.
    Share {
        /// The Graph's slug.
        graph: String,
        /// The project's id or name.
        project: String,
        /// Tick or untick.
        shared: bool,
    },
    /// The latest runs.
    History {
        /// How many.
        limit: u32,
    },
    /// One run, whole.
    HistoryShow {
        /// Its id, its command's id, or the end of either, at least four characters.
        id: String,
    },
    /// Cancels a run.
    Cancel {
        /// The same.
        id: String,
    },
    /// Reports that wait, and dead letters.
    OutboxList,
    /// Sends a dead letter again.
    OutboxRetry {
        /// Its number in the list.
        id: i64,
    },
    /// Deletes a dead letter.
    OutboxDrop {
        /// Its number in the list.
        id: i64,
    },
}

/// What to run for the owner.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum RunTarget {
    /// A saved Graph, by its slug.
    Saved(String),
    /// A file that is not saved.
    File {
        /// The file's name, for error positions.
        file: String,
        /// The script.
        source: String,
    },
}

/// What the daemon sends after its [`Hello`]: events as they happen, then one answer or failure.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Frame {
    /// A run that was asked for goes on.
    Event(Recorded),
    /// The answer; nothing follows.
    Reply(Box<Reply>),
    /// There is no answer; nothing follows.
    Failure(Failure),
}

/// The answer to a [`Request`].
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Reply {
    /// To `Status`.
    Status(StatusView),
    /// To `GraphList`.
    Graphs(Vec<GraphView>),
    /// To `GraphSave` and `GraphShow`.
    Graph(GraphView),
    /// To `ProjectList`.
    Projects(Vec<ProjectView>),
    /// To `History`; results are left out.
    Runs(Vec<RunView>),
    /// To `GraphRun` and `HistoryShow`.
    Run(Box<RunView>),
    /// To `Cancel`: the run that is being cancelled.
    Cancelling(ExecutionId),
    /// To `OutboxList`: what waits, then the dead letters.
    Outbox(Vec<OutboxItem>),
    /// To everything else: what was done, in words.
    Done(String),
}

/// Why there is no answer.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, thiserror::Error)]
#[error("{message}")]
pub struct Failure {
    /// For programs.
    pub kind: FailureKind,
    /// What was wrong.
    pub message: String,
    /// What to do about it.
    pub hint: Option<String>,
}

/// Kinds of [`Failure`]; each has its exit code.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum FailureKind {
    /// There is no such thing.
    NotFound,
    /// What was asked breaks a rule.
    Invalid,
    /// The hub is missing, unreachable or refuses.
    Hub,
    /// The database, the disk, or a bug.
    Internal,
}

impl Failure {
    /// There is no such thing.
    pub fn not_found(message: impl Into<String>) -> Self {
        Self { kind: FailureKind::NotFound, message: message.into(), hint: None }
    }

    /// What was asked breaks a rule.
    pub fn invalid(message: impl Into<String>) -> Self {
        Self { kind: FailureKind::Invalid, message: message.into(), hint: None }
    }

    /// The same, with what to do.
    #[must_use]
    pub fn hint(mut self, hint: impl Into<String>) -> Self {
        self.hint = Some(hint.into());
        self
    }
}

impl From<crate::store::StoreError> for Failure {
    fn from(error: crate::store::StoreError) -> Self {
        Self { kind: FailureKind::Internal, message: error.to_string(), hint: None }
    }
}

impl From<&NoRelay> for Failure {
    fn from(error: &NoRelay) -> Self {
        Self { kind: FailureKind::Hub, message: error.to_string(), hint: Some(error.hint().to_owned()) }
    }
}

impl From<HubError> for Failure {
    fn from(error: HubError) -> Self {
        let hint = match error {
            HubError::Transport(_) | HubError::Timeout(_) => {
                Some("see whether it is up, and whether url under [hub] in config.toml is right".to_owned())
            }
            _ => None,
        };
        Self { kind: FailureKind::Hub, message: error.to_string(), hint }
    }
}
