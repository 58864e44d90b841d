//! Saving and running Graphs for the owner.

use std::path::{Path, PathBuf};

use fleet::{CheckError, Limits};
use protocol::{ExecutionId, GraphSessionId};
use serde_json::Value;
use tokio_util::sync::CancellationToken;

use super::desktop::Desktop;
use super::message::{Failure, Reply, RunTarget};
use super::views::{GraphView, RunView};
use crate::runner::Allowance;
use crate::store::executions::{self, NewExecution, Recorded};
use crate::store::graphs::{self, Graph, NewGraph};
use crate::store::sharing;

/// Longest slug.
const MAX_SLUG: usize = 64;

impl Desktop {
    pub(super) async fn save_graph(
        &self,
        slug: String,
        file: String,
        source: String,
        update: bool,
    ) -> Result<Reply, Failure> {
        check_slug(&slug)?;
        let meta = self.fleet.check(&file, &source).await.map_err(|error| wrong_script(&error))?;
        let (graph, now_ms) = (NewGraph { file, source, meta }, self.runner.clock.now_ms());
        let asked = slug.clone();
        let saved = self.runner.store.write(move |tx| {
            if update { graphs::update(tx, &asked, &graph, now_ms) } else { graphs::add(tx, &asked, &graph, now_ms) }
        });
        match saved.await? {
            Some(graph) => {
                self.tell_relay();
                Ok(Reply::Graph(self.view(graph).await?))
            }
            None if update => {
                Err(unknown(&slug).hint(format!("to save it for the first time: graph-relay graph add {slug} FILE")))
            }
            None => Err(Failure::invalid(format!("there is a Graph `{slug}` already"))
                .hint(format!("to save a new version of it: graph-relay graph update {slug} FILE"))),
        }
    }

    pub(super) async fn rename_graph(&self, slug: String, new_slug: String) -> Result<Reply, Failure> {
        check_slug(&new_slug)?;
        self.find_graph(&slug).await?;
        let (from, to) = (slug.clone(), new_slug.clone());
        if !self.runner.store.write(move |tx| graphs::rename(tx, &from, &to)).await? {
            return Err(Failure::invalid(format!("there is a Graph `{new_slug}` already")));
        }
        self.tell_relay();
        Ok(Reply::Done(format!(
            "`{slug}` is now `{new_slug}`; runs that were asked for under the old name will not start"
        )))
    }

    pub(super) async fn list_graphs(&self) -> Result<Reply, Failure> {
        let mut views = Vec::new();
        for graph in self.runner.store.read(graphs::list).await? {
            views.push(self.view(graph).await?);
        }
        Ok(Reply::Graphs(views))
    }

    pub(super) async fn show_graph(&self, slug: String, version: Option<u32>) -> Result<Reply, Failure> {
        let graph = match version {
            None => self.find_graph(&slug).await?,
            Some(version) => {
                let asked = slug.clone();
                let found = self.runner.store.read(move |connection| graphs::version(connection, &asked, version));
                found.await?.ok_or_else(|| {
                    Failure::not_found(format!("there is no version {version} of `{slug}`"))
                        .hint(format!("graph-relay graph show {slug} shows the latest"))
                })?
            }
        };
        let source = graph.source.clone();
        Ok(Reply::Graph(GraphView { source: Some(source), ..self.view(graph).await? }))
    }

    pub(super) async fn run_graph(
        &self,
        target: RunTarget,
        arguments: Value,
        limits: Limits,
        read: Vec<PathBuf>,
        tell: &(dyn Fn(Recorded) + Send + Sync),
        gone: &CancellationToken,
    ) -> Result<Reply, Failure> {
        if !arguments.is_object() {
            return Err(Failure::invalid("the arguments must be a JSON object")
                .hint(r#"for example: --args '{"folder": "/home/me/notes"}'"#));
        }
        let execution = self.owner_execution(target, arguments).await?;
        let (id, new, now_ms) = (execution.id, execution.clone(), self.runner.clock.now_ms());
        self.runner.store.write(move |tx| executions::begin(tx, &new, now_ms)).await?;

        let observe = |event: &fleet::Event| {
            tell(Recorded { at_ms: self.runner.clock.now_ms(), event: event.clone() });
        };
        let run = self.runner.drive(&execution, Allowance { limits, read }, observe);
        tokio::pin!(run);
        let outcome = tokio::select! {
            // Before it is first polled the engine does not know the run, and could not cancel it.
            biased;
            outcome = &mut run => outcome,
            () = gone.cancelled() => {
                self.runner.engine.cancel(id.as_uuid());
                run.await
            }
        };
        let now_ms = self.runner.clock.now_ms();
        let stored = self.runner.store.write(move |tx| {
            executions::finish(tx, id, &outcome, now_ms)?;
            executions::get(tx, id)
        });
        let execution = stored.await?.ok_or_else(|| Failure::not_found(format!("run {id} is not in the history")))?;
        Ok(Reply::Run(Box::new(RunView { execution, events: Vec::new() })))
    }

    async fn owner_execution(&self, target: RunTarget, arguments: Value) -> Result<NewExecution, Failure> {
        let (graph, saved, file, source): (String, Option<(GraphSessionId, u32)>, String, String) = match target {
            RunTarget::Saved(slug) => {
                let found = self.find_graph(&slug).await?;
                (found.slug, Some((found.session_id, found.version)), found.file, found.source)
            }
            RunTarget::File { file, source } => {
                let stem = Path::new(&file).file_stem().unwrap_or_default().to_string_lossy().into_owned();
                (stem, None, file, source)
            }
        };
        Ok(NewExecution { id: ExecutionId::new(), channel: None, graph, saved, file, source, arguments })
    }

    pub(super) async fn find_graph(&self, slug: &str) -> Result<Graph, Failure> {
        let asked = slug.to_owned();
        let found = self.runner.store.read(move |connection| graphs::latest(connection, &asked)).await?;
        found.ok_or_else(|| unknown(slug))
    }

    async fn view(&self, graph: Graph) -> Result<GraphView, Failure> {
        let Some(hub) = self.hub.clone() else { return Ok(GraphView::new(&graph, Vec::new())) };
        let session = graph.session_id.clone();
        let shared = self.runner.store.read(move |connection| sharing::shared_with(connection, &hub, &session)).await?;
        Ok(GraphView::new(&graph, shared.into_iter().map(|project| project.name).collect()))
    }
}

fn unknown(slug: &str) -> Failure {
    Failure::not_found(format!("there is no Graph `{slug}`")).hint("graph-relay graph list shows the saved ones")
}

fn wrong_script(error: &CheckError) -> Failure {
    Failure::invalid(error.to_string())
}

/// A slug is typed, and stands in URLs and logs.
fn check_slug(slug: &str) -> Result<(), Failure> {
    let good = |ch: char| ch.is_ascii_lowercase() || ch.is_ascii_digit() || ch == '-';
    if (1..=MAX_SLUG).contains(&slug.len()) && slug.chars().all(good) && !slug.starts_with('-') {
        return Ok(());
    }
    let shown: String = slug.chars().take(MAX_SLUG + 1).collect();
    Err(Failure::invalid(format!("`{shown}` is no name for a Graph")).hint(format!(
        "a name has 1 to {MAX_SLUG} lowercase letters, digits or hyphens and does not begin with a hyphen"
    )))
}

#[cfg(test)]
mod tests {
    use std::collections::HashMap;
    use std::sync::{Arc, Mutex};
    use std::time::Duration;

    use fleet::{Engine, EventSender, GraphError, Outcome, RunRequest, Status, Usage};
    use futures::future::BoxFuture;
    use uuid::Uuid;

    use super::*;
    use crate::config::Config;
    use crate::paths::Paths;

    /// Runs that end when they are cancelled, and not before.
    #[derive(Default)]
    struct Endless(Arc<Mutex<HashMap<Uuid, CancellationToken>>>);

    impl Engine for Endless {
        fn run(&self, request: RunRequest, _events: EventSender) -> BoxFuture<'static, Outcome> {
            let runs = Arc::clone(&self.0);
            Box::pin(async move {
                let cancel = CancellationToken::new();
                runs.lock().unwrap().insert(request.execution_id, cancel.clone());
                cancel.cancelled().await;
                let error = GraphError::new("CancelledError", "cancelled", "the run was cancelled");
                Outcome { status: Status::Cancelled, result: None, error: Some(error), usage: Usage::default() }
            })
        }

        fn cancel(&self, execution_id: Uuid) -> bool {
            self.0.lock().unwrap().get(&execution_id).map(CancellationToken::cancel).is_some()
        }
    }

    /// Ctrl-C right after Enter: it must not be lost because the run had not begun.
    #[tokio::test]
    async fn a_run_that_nobody_waits_for_any_more_is_cancelled_from_its_start() {
        let home = tempfile::tempdir().unwrap();
        let paths = Paths::in_folder(home.path()).unwrap();
        let mut desktop = Desktop::open(&paths, &Config::default(), "test", Duration::ZERO).await.unwrap();
        desktop.runner.engine = Arc::new(Endless::default());
        let gone = CancellationToken::new();
        gone.cancel();
        for _ in 0..16 {
            let target = RunTarget::File { file: "wait.js".to_owned(), source: String::new() };
            let arguments = Value::Object(serde_json::Map::new());
            let run = desktop.run_graph(target, arguments, Limits::default(), Vec::new(), &|_| {}, &gone);
            let Reply::Run(ended) = run.await.unwrap() else { panic!("not a run") };
            assert_eq!(ended.execution.status, "cancelled");
        }
    }

    #[test]
    fn a_slug_is_short_lowercase_and_starts_with_no_hyphen() {
        for good in ["a", "weekly-report", "2024", &"x".repeat(64)] {
            assert!(check_slug(good).is_ok(), "{good}");
        }
        for bad in ["", "-a", "Weekly", "a b", "a/b", "ä", "a_b", &"x".repeat(65)] {
            assert!(check_slug(bad).is_err(), "{bad}");
        }
    }
}
