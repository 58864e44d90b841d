//! What the owner sees of the store: the same for people and for `--json`.

use std::path::PathBuf;

use protocol::{ExecutionId, GraphSessionId, ProjectId};
use serde::{Deserialize, Serialize};

use crate::relay::Health;
use crate::store::executions::{Execution, Recorded};
use crate::store::graphs::Graph;

/// How things stand.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct StatusView {
    /// The version of the process that answered.
    pub version: String,
    /// Process id of the daemon; none where no daemon is running.
    pub daemon: Option<u32>,
    /// Where the configuration is looked for.
    #[serde(default)]
    pub config_file: PathBuf,
    /// The hub's base URL, if one is configured.
    pub hub: Option<String>,
    /// How the relay stands with it.
    pub health: Option<Health>,
    /// Projects that are on.
    pub projects_on: usize,
    /// Saved Graphs.
    pub graphs: usize,
    /// Commands that wait for the worker.
    pub waiting: u32,
    /// Runs that are on.
    pub running: Vec<RunView>,
    /// Reports that the hub has not got yet.
    pub outbox_waiting: u32,
    /// Reports that it will never take.
    pub outbox_dead: u32,
    /// Commands that could not even be named, with how often each was sent.
    pub refused: Vec<(String, u32)>,
    /// Models that agents can use.
    pub models: Vec<String>,
}

/// A saved Graph.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct GraphView {
    /// The fixed id under which it is shared.
    pub session_id: GraphSessionId,
    /// The name by which it is called.
    pub slug: String,
    /// What people call it.
    pub name: String,
    /// What it does.
    pub description: String,
    /// The version shown.
    pub version: u32,
    /// The script's SHA-256, in hex.
    pub sha256: String,
    /// When that version was saved.
    pub saved_at_ms: i64,
    /// The projects with which it is shared.
    pub shared_with: Vec<String>,
    /// The script, where one Graph was asked for.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub source: Option<String>,
}

impl GraphView {
    /// A view without the source.
    pub(super) fn new(graph: &Graph, shared_with: Vec<String>) -> Self {
        Self {
            session_id: graph.session_id.clone(),
            slug: graph.slug.clone(),
            name: graph.name().to_owned(),
            description: graph.description().to_owned(),
            version: graph.version,
            sha256: graph.sha256.clone(),
            saved_at_ms: graph.saved_at_ms,
            shared_with,
            source: None,
        }
    }
}

/// A project of the hub.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ProjectView {
    /// Its id.
    pub id: ProjectId,
    /// Its name.
    pub name: String,
    /// Whether the owner switched it on.
    pub is_on: bool,
    /// How many Graphs are shared with it.
    pub shared: u32,
    /// Whether the hub still lists it.
    pub at_hub: bool,
}

/// A run.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct RunView {
    /// The run itself.
    #[serde(flatten)]
    pub execution: Execution,
    /// Its events; empty in a list.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub events: Vec<Recorded>,
}

impl RunView {
    /// The id by which it is called.
    pub fn id(&self) -> ExecutionId {
        self.execution.id
    }

    /// For a list, which has no events.
    pub(super) fn short(execution: Execution) -> Self {
        Self { execution, events: Vec::new() }
    }
}

/// A report that waits, or a dead letter.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct OutboxItem {
    /// Its number.
    pub id: i64,
    /// Idempotency key, which names the command.
    pub key: String,
    /// Where it goes.
    pub destination: String,
    /// Size of the report.
    pub bytes: u64,
    /// Failures so far.
    pub attempts: u32,
    /// When the run ended.
    pub enqueued_at_ms: i64,
    /// When it is due.
    pub next_try_ms: i64,
    /// The last failure.
    pub last_error: Option<String>,
    /// Whether the relay has given it up.
    pub dead: bool,
}

impl From<outbox::Entry> for OutboxItem {
    fn from(entry: outbox::Entry) -> Self {
        Self {
            id: entry.id,
            key: entry.key,
            destination: entry.destination,
            bytes: entry.bytes,
            attempts: entry.attempts,
            enqueued_at_ms: entry.enqueued_at_ms,
            next_try_ms: entry.next_try_ms,
            last_error: entry.last_error,
            dead: entry.death.is_some(),
        }
    }
}
