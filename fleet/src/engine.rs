//! The seam between the engine and who uses it: the [`Engine`] trait, what a run is asked with, and what the owner
//! sets once.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use futures::future::BoxFuture;
use serde::{Deserialize, Serialize};
use uuid::Uuid;

use crate::{Event, Limits, ModelConfig, Outcome};

/// Runs Graphs. The real one is [`crate::Fleet`]; tests and experiments put one in its place whose runs take a drawn
/// time.
pub trait Engine: Send + Sync + 'static {
    /// Runs a Graph to its end.
    ///
    /// The first event is always [`Event::FleetStarted`], even for a Graph that cannot start; the last one is
    /// [`Event::FleetFinished`], and the sender is dropped when the run is over. Never panics and never returns
    /// before every process of the run is gone. Dropping the future kills the run.
    fn run(&self, request: RunRequest, events: EventSender) -> BoxFuture<'static, Outcome>;

    /// Cancels a run by the id that its [`Event::FleetStarted`] told. False when no such run is on. Asking twice does
    /// no harm.
    fn cancel(&self, execution_id: Uuid) -> bool;
}

/// Where a run's events go.
///
/// Unbounded, so that a slow reader never holds up a Graph; what a script can make it hold is bounded by the script
/// limits instead (2,000 log lines of 4 KB, 4,096 items a call, 100,000 host calls a run, …).
pub type EventSender = tokio::sync::mpsc::UnboundedSender<Event>;

/// One run of a Graph, as the caller asks for it.
#[derive(Clone)]
pub struct RunRequest {
    /// The id that the caller gave the execution. It also seeds `Math.random` of the script.
    pub execution_id: Uuid,
    /// The Graph's slug or file stem: shown in events, and how a child that calls back is found to be a cycle.
    pub graph: String,
    /// The file name shown in error positions.
    pub file: String,
    /// The script.
    pub source: Arc<str>,
    /// A JSON object, checked against `meta.args` before the start. At most 256 KB as JSON.
    pub arguments: serde_json::Value,
    /// The folders that the owner lets this run see. The script's `meta.folders` must lie inside them.
    pub folders: Vec<FolderGrant>,
    /// Narrows [`Settings::ceiling`] for this run.
    pub limits: Limits,
    /// Where child Graphs come from.
    pub graphs: Arc<dyn Graphs>,
}

/// A folder that the owner lets Graphs use.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct FolderGrant {
    /// The folder, with everything below it.
    pub path: PathBuf,
    /// What may be done there.
    pub access: Access,
}

/// What may be done in a folder.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Access {
    /// List and read.
    Read,
    /// List, read, create and change.
    Write,
}

/// Finds the Graphs that a running Graph calls with `graph(name, args)`.
pub trait Graphs: Send + Sync {
    /// The Graph saved under this name (slug), in its current version. `None` when there is none.
    fn find(&self, name: &str) -> BoxFuture<'_, Option<ChildGraph>>;
}

/// A saved Graph, as [`Graphs::find`] gives it.
#[derive(Debug, Clone)]
pub struct ChildGraph {
    /// The slug.
    pub name: String,
    /// The saved version, from 1.
    pub version: u32,
    /// The file name shown in error positions.
    pub file: String,
    /// The script.
    pub source: Arc<str>,
}

/// No child Graphs: every `graph()` call finds nothing.
#[derive(Debug, Clone, Copy, Default)]
pub struct NoGraphs;

impl Graphs for NoGraphs {
    fn find(&self, _name: &str) -> BoxFuture<'_, Option<ChildGraph>> {
        Box::pin(std::future::ready(None))
    }
}

/// What the owner sets once, for every run.
#[derive(Debug, Clone)]
pub struct Settings {
    /// How a worker process is started.
    pub worker: WorkerCommand,
    /// The models that scripts may name, by the owner's name for each.
    pub models: BTreeMap<String, ModelConfig>,
    /// The model of an `agent()` call that names none. Absent: the only configured one, if there is exactly one.
    pub default_model: Option<String>,
    /// The owner's ceilings. What is absent has the default of [`Limits`]; scripts and callers can only narrow.
    pub ceiling: Limits,
    /// How long the `finally` blocks of a cancelled script get before it is killed. 5 s by the Graph API.
    pub cancel_grace: Duration,
}

/// The command that starts a worker: a program whose `main` ends in [`crate::worker_main`] and whose global allocator
/// is [`crate::CappedAllocator`].
///
/// The child's environment is cleared, apart from `SystemRoot` on Windows.
#[derive(Debug, Clone)]
pub struct WorkerCommand {
    /// The program, usually the current executable.
    pub program: PathBuf,
    /// Its arguments, usually the name of the hidden subcommand.
    pub args: Vec<OsString>,
}
