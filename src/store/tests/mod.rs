//! The database against real SQLite: files where the file matters, memory elsewhere.

mod file;
mod full_disk;
mod history;
mod received;
mod shared;
mod versions;

use fleet::Meta;
use protocol::{CommandId, ExecutionId, Project, ProjectId};
use serde_json::{Value, json};

use super::commands::{Command, Origin};
use super::executions::NewExecution;
use super::graphs::{Graph, NewGraph};
use super::*;

const HUB: &str = "https://hub.example";

fn memory() -> Store {
    Store::in_memory(outbox::Policy::default()).unwrap()
}

fn project(id: &str) -> ProjectId {
    id.parse().unwrap()
}

fn origin() -> Origin {
    Origin { hub: HUB.to_owned(), project: project("project-1") }
}

/// A project that is known; it is off.
fn know(tx: &Transaction<'_>, id: &str) -> Result<(), StoreError> {
    sharing::remember_projects(tx, HUB, &[Project { id: project(id), name: format!("Project {id}") }])
}

fn script(source: &str) -> NewGraph {
    NewGraph { file: "digest.js".to_owned(), source: source.to_owned(), meta: Meta::default() }
}

fn save(tx: &Transaction<'_>, slug: &str, source: &str) -> Result<Graph, StoreError> {
    Ok(graphs::add(tx, slug, &script(source), 1_000)?.unwrap())
}

/// A command as the hub sends it.
fn entry(id: CommandId, graph: &Graph) -> Value {
    json!({
        "command_id": id, "graph_session_id": graph.session_id, "slug": graph.slug,
        "arguments": {"month": 7}, "queued_at": "2026-08-01T10:00:00Z",
    })
}

/// A command that was received.
fn received(tx: &Transaction<'_>) -> Result<(Command, Graph), StoreError> {
    let graph = match graphs::latest(tx, "digest")? {
        Some(graph) => graph,
        None => save(tx, "digest", "return 1")?,
    };
    let id = CommandId::new();
    let got = commands::receive(tx, &origin(), &[entry(id, &graph)], &outbox::Policy::default(), 2_000)?;
    assert_eq!(got.new, 1);
    Ok((commands::get(tx, id)?.unwrap(), graph))
}

fn execution_of(command: &Command, graph: &Graph) -> NewExecution {
    NewExecution {
        id: ExecutionId::new(),
        channel: Some(command.id.channel()),
        graph: graph.slug.clone(),
        saved: Some((graph.session_id.clone(), graph.version)),
        file: graph.file.clone(),
        source: graph.source.clone(),
        arguments: command.arguments.clone().into(),
    }
}

/// A command whose run is on.
fn running(tx: &Transaction<'_>) -> Result<(Command, NewExecution), StoreError> {
    let (command, graph) = received(tx)?;
    let execution = execution_of(&command, &graph);
    commands::start(tx, &origin(), command.id, &execution, 3_000)?;
    Ok((commands::get(tx, command.id)?.unwrap(), execution))
}

async fn count(store: &Store, table: &'static str) -> u32 {
    let sql = format!("SELECT count(*) FROM {table}");
    store.read(move |connection| Ok(connection.query_row(&sql, [], |row| row.get(0))?)).await.unwrap()
}
