//! What every test here needs: an engine over the test's own worker binary, and short ways to run a script.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use fleet::{
    Access, ChildGraph, Engine, Event, Fleet, FolderGrant, Graphs, Limits, ModelConfig, NoGraphs, Outcome, RunRequest,
    Settings, Status, WorkerCommand,
};
use futures::future::BoxFuture;
use serde_json::{Value, json};
use tokio::sync::mpsc;
use uuid::Uuid;

/// The settings of an engine without models.
pub(crate) fn settings() -> Settings {
    Settings {
        worker: WorkerCommand { program: env!("CARGO_BIN_EXE_fleet-worker").into(), args: Vec::new() },
        models: BTreeMap::new(),
        default_model: None,
        ceiling: Limits { timeout: Some(Duration::from_secs(30)), memory_mb: Some(256), ..Limits::default() },
        cancel_grace: Duration::from_secs(5),
    }
}

pub(crate) fn engine() -> Fleet {
    Fleet::new(settings())
}

pub(crate) fn engine_with_model(model: Value) -> Fleet {
    let model: ModelConfig = serde_json::from_value(model).unwrap();
    Fleet::new(Settings { models: BTreeMap::from([("local".to_owned(), model)]), ..settings() })
}

pub(crate) fn request(source: &str) -> RunRequest {
    RunRequest {
        execution_id: Uuid::new_v4(),
        graph: "test".to_owned(),
        file: "test.js".to_owned(),
        source: source.into(),
        arguments: json!({}),
        folders: Vec::new(),
        limits: Limits::default(),
        graphs: Arc::new(NoGraphs),
    }
}

pub(crate) fn reading(folder: &Path) -> Vec<FolderGrant> {
    vec![FolderGrant { path: folder.to_owned(), access: Access::Read }]
}

/// Runs to the end.
pub(crate) async fn run_request(engine: &Fleet, request: RunRequest) -> (Outcome, Vec<Event>) {
    let (sender, mut receiver) = mpsc::unbounded_channel();
    let outcome = engine.run(request, sender).await;
    let mut events = Vec::new();
    while let Some(event) = receiver.recv().await {
        events.push(event);
    }
    assert!(matches!(events.first(), Some(Event::FleetStarted { .. })), "{events:?}");
    assert!(matches!(events.last(), Some(Event::FleetFinished { .. })), "{events:?}");
    (outcome, events)
}

pub(crate) async fn run(source: &str) -> (Outcome, Vec<Event>) {
    run_request(&engine(), request(source)).await
}

/// The result of a script that completes.
pub(crate) async fn value(source: &str) -> Value {
    let (outcome, _) = run(source).await;
    assert_eq!(outcome.status, Status::Completed, "{:?}", outcome.error);
    outcome.result.unwrap()
}

/// The error, as the owner reads it, of a script that fails.
pub(crate) async fn failure(source: &str) -> String {
    let (outcome, _) = run(source).await;
    assert_eq!(outcome.status, Status::Failed, "{:?}", outcome.result);
    outcome.error.unwrap().to_string()
}

/// Saved Graphs, by name and source.
pub(crate) struct Saved(pub(crate) Vec<(&'static str, &'static str)>);

impl Graphs for Saved {
    fn find(&self, name: &str) -> BoxFuture<'_, Option<ChildGraph>> {
        let found = self.0.iter().find(|(saved, _)| *saved == name).map(|(name, source)| ChildGraph {
            name: (*name).to_owned(),
            version: 3,
            file: format!("{name}.js"),
            source: (*source).into(),
        });
        Box::pin(std::future::ready(found))
    }
}

/// The processes that have this word on their command line. A zombie has none, but stands under its parent.
#[cfg(target_os = "linux")]
pub(crate) fn processes_with(word: &str) -> Vec<String> {
    let processes = std::fs::read_dir("/proc").unwrap().filter_map(|entry| entry.ok()?.file_name().into_string().ok());
    processes
        .filter(|pid| {
            let command = std::fs::read(format!("/proc/{pid}/cmdline")).unwrap_or_default();
            String::from_utf8_lossy(&command).split('\0').any(|argument| argument == word)
        })
        .collect()
}
