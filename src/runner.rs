//! One execution, whoever asked for it: the engine runs it, its events go into the history as they happen.
//!
//! The caller writes the execution down before, and its end after; what lies between is here. If the history
//! cannot be written (a full disk), the run goes on and the owner finds a gap, not a dead daemon.

use std::path::PathBuf;
use std::sync::Arc;

use fleet::{ChildGraph, Engine, Event, FolderGrant, Graphs, Limits, Outcome, RunRequest};
use futures::future::BoxFuture;
use protocol::{Clock, ExecutionId};
use tokio::sync::mpsc;

use crate::store::executions::{self, NewExecution, Recorded};
use crate::store::{Store, graphs};

/// Events are stored in transactions of at most so many.
const BATCH: usize = 256;

/// What every run of this desktop has in common.
#[derive(Clone)]
pub struct Runner {
    /// Runs the scripts.
    pub engine: Arc<dyn Engine>,
    /// Keeps the history.
    pub store: Store,
    /// Dates it.
    pub clock: Arc<dyn Clock>,
    /// Folders that any Graph may be given.
    pub folders: Vec<FolderGrant>,
}

/// What one run is given beyond that.
#[derive(Debug, Clone, Default)]
pub struct Allowance {
    /// Narrows the owner's ceilings.
    pub limits: Limits,
    /// Folders that the owner grants to this run alone, to read.
    pub read: Vec<PathBuf>,
}

impl Runner {
    /// Runs to the end, telling each event to `observe` and to the history.
    pub async fn drive(
        &self,
        execution: &NewExecution,
        allowance: Allowance,
        mut observe: impl FnMut(&Event) + Send,
    ) -> Outcome {
        let (sender, mut events) = mpsc::unbounded_channel();
        let mut folders = self.folders.clone();
        folders.extend(allowance.read.into_iter().map(|path| FolderGrant { path, access: fleet::Access::Read }));
        let run = self.engine.run(
            RunRequest {
                execution_id: execution.id.as_uuid(),
                graph: execution.graph.clone(),
                file: execution.file.clone(),
                source: execution.source.as_str().into(),
                arguments: execution.arguments.clone(),
                folders,
                limits: allowance.limits,
                graphs: Arc::new(SavedGraphs(self.store.clone())),
            },
            sender,
        );
        let record = async {
            let mut batch = Vec::new();
            let mut seq = 0;
            while events.recv_many(&mut batch, BATCH).await > 0 {
                batch.iter().for_each(&mut observe);
                seq += self.record(execution.id, seq, std::mem::take(&mut batch)).await;
            }
        };
        // The channel closes when the run is over, so both end together and no event is left behind.
        let (outcome, ()) = futures::join!(run, record);
        outcome
    }

    async fn record(&self, id: ExecutionId, first_seq: u64, events: Vec<Event>) -> u64 {
        let at_ms = self.clock.now_ms();
        let events: Vec<Recorded> = events.into_iter().map(|event| Recorded { at_ms, event }).collect();
        let count = events.len() as u64;
        let stored = self.store.write(move |tx| executions::record(tx, id, first_seq, &events)).await;
        if let Err(error) = stored {
            tracing::warn!(execution = %id, events = count, %error, "events are missing from the history");
        }
        count
    }
}

/// Child Graphs come from the owner's saved ones, in their latest versions.
struct SavedGraphs(Store);

impl Graphs for SavedGraphs {
    fn find(&self, name: &str) -> BoxFuture<'_, Option<ChildGraph>> {
        let slug = name.to_owned();
        Box::pin(async move {
            let found = self.0.read(move |connection| graphs::latest(connection, &slug)).await;
            let graph = found.inspect_err(|error| tracing::error!(%error, "a child Graph cannot be read")).ok()??;
            Some(ChildGraph {
                name: graph.slug,
                version: graph.version,
                file: graph.file,
                source: graph.source.as_str().into(),
            })
        })
    }
}
