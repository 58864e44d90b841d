//! `graph-relay graph`.

use std::fs::File;
use std::io::{self, Read};
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::Arc;
use std::time::Duration;

use fleet::{CheckError, Fleet, Limits};
use serde_json::Value;

use super::ask::{ask, ask_telling};
use super::error::{CANCELLED, CliError, GRAPH_FAILED, INVALID, NOT_FOUND};
use super::history::lost_agents;
use super::live::Live;
use super::options::{GraphCommand, RunArgs};
use super::print::{put, put_exactly, say};
use super::sharing::done;
use super::status::{print_json, unexpected};
use super::text::{harmless_json, local_time, one_line, shortened, span, table};
use crate::control::{GraphView, Reply, Request, RunTarget, RunView, worker_command};

/// Bytes that no script has. What is less goes to the engine, which says how much is allowed.
const FAR_TOO_LONG: u64 = 8 * 1024 * 1024;

pub(super) async fn run(command: GraphCommand) -> Result<ExitCode, CliError> {
    match command {
        GraphCommand::Add { name, file } => save(name, &file, false).await,
        GraphCommand::Update { name, file } => save(name, &file, true).await,
        GraphCommand::Rename { name, new_name } => done(Request::GraphRename { slug: name, new_slug: new_name }).await,
        GraphCommand::List { json } => list(json).await,
        GraphCommand::Show { name, version, json } => show(name, version, json).await,
        GraphCommand::Check { file } => check(&file).await,
        GraphCommand::Run(args) => run_graph(args).await,
    }
}

async fn save(slug: String, file: &Path, update: bool) -> Result<ExitCode, CliError> {
    let (file, source) = read_script(file)?;
    let Reply::Graph(graph) = ask(Request::GraphSave { slug, file, source, update }).await? else {
        return Err(unexpected());
    };
    say(format!("`{}` version {} is saved as {}", graph.slug, graph.version, graph.session_id));
    if !update {
        say(format!(
            "Nothing is shared yet. To let a project's assistants run it: graph-relay share {} --project NAME",
            graph.slug
        ));
    }
    Ok(ExitCode::SUCCESS)
}

/// The script's file name and text.
fn read_script(path: &Path) -> Result<(String, String), CliError> {
    let shown = path.display();
    let mut bytes = Vec::new();
    let read = File::open(path).and_then(|file| file.take(FAR_TOO_LONG + 1).read_to_end(&mut bytes));
    read.map_err(|error| match error.kind() {
        io::ErrorKind::NotFound => CliError::new(NOT_FOUND, format!("there is no file {shown}")),
        io::ErrorKind::IsADirectory => CliError::new(INVALID, format!("{shown} is a folder, not a script")),
        _ => CliError::new(INVALID, format!("cannot read {shown}: {error}")),
    })?;
    if bytes.len() as u64 > FAR_TOO_LONG {
        return Err(CliError::new(INVALID, format!("{shown} is too large for a script")));
    }
    let source = String::from_utf8(bytes)
        .map_err(|_| CliError::new(INVALID, format!("{shown} is not a script: it holds bytes that are not UTF-8")))?;
    let name = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
    Ok((name, source))
}

async fn list(json: bool) -> Result<ExitCode, CliError> {
    let Reply::Graphs(graphs) = ask(Request::GraphList).await? else { return Err(unexpected()) };
    if json {
        print_json(&graphs)?;
    } else if graphs.is_empty() {
        say("No Graph is saved yet. To save one: graph-relay graph add NAME FILE");
    } else {
        let rows: Vec<_> = graphs.iter().map(row).collect();
        put(table(&["GRAPH", "VERSION", "SAVED", "SHARED WITH", "DESCRIPTION"], &rows))?;
    }
    Ok(ExitCode::SUCCESS)
}

fn row(graph: &GraphView) -> Vec<String> {
    let shared = if graph.shared_with.is_empty() { "nobody".to_owned() } else { graph.shared_with.join(", ") };
    vec![
        graph.slug.clone(),
        graph.version.to_string(),
        local_time(graph.saved_at_ms),
        shared,
        shortened(&graph.description, 60),
    ]
}

async fn show(slug: String, version: Option<u32>, json: bool) -> Result<ExitCode, CliError> {
    let Reply::Graph(graph) = ask(Request::GraphShow { slug, version }).await? else { return Err(unexpected()) };
    if json {
        print_json(&graph)?;
        return Ok(ExitCode::SUCCESS);
    }
    say(format!(
        "{}\nsession {}\nsha256  {}\n",
        table(&["GRAPH", "VERSION", "SAVED", "SHARED WITH", "DESCRIPTION"], &[row(&graph)]),
        graph.session_id,
        graph.sha256
    ));
    put_exactly(graph.source.unwrap_or_default())?;
    Ok(ExitCode::SUCCESS)
}

/// Asks neither daemon nor database: a script can be checked anywhere.
async fn check(path: &Path) -> Result<ExitCode, CliError> {
    let (file, source) = read_script(path)?;
    let fleet = Fleet::new(fleet::Settings {
        worker: worker_command()?,
        models: Default::default(),
        default_model: None,
        ceiling: Limits::default(),
        cancel_grace: Duration::ZERO,
    });
    match fleet.check(&file, &source).await {
        Ok(meta) => {
            say(format!("{file} is fine"));
            print_json(&meta)?;
            Ok(ExitCode::SUCCESS)
        }
        Err(error @ CheckError::Problems { .. }) => {
            put(error)?;
            Err(CliError::new(INVALID, format!("{file} cannot be run as it is")))
        }
        Err(error) => Err(CliError::internal(error.to_string())),
    }
}

async fn run_graph(args: RunArgs) -> Result<ExitCode, CliError> {
    let request = Request::GraphRun {
        target: target(&args.target)?,
        arguments: arguments(&args.args)?,
        limits: Limits { timeout: args.timeout, max_tokens: args.max_tokens, ..Limits::default() },
        read: args.read.iter().map(|folder| absolute(folder)).collect::<Result<_, _>>()?,
    };
    let live = Arc::new(Live::new());
    let shown = Arc::clone(&live);
    let reply = ask_telling(request, Arc::new(move |recorded| shown.show(&recorded))).await;
    live.end();
    let Reply::Run(run) = reply? else { return Err(unexpected()) };
    if args.json {
        print_json(&run)?;
    } else {
        print_end(&run)?;
    }
    Ok(ExitCode::from(match run.execution.status.as_str() {
        "completed" => 0,
        "cancelled" => CANCELLED,
        _ => GRAPH_FAILED,
    }))
}

/// A name has neither dot nor slash, so whatever has one is a file.
fn target(text: &str) -> Result<RunTarget, CliError> {
    if text.contains(['.', '/', '\\']) {
        let (file, source) = read_script(Path::new(text))?;
        return Ok(RunTarget::File { file, source });
    }
    Ok(RunTarget::Saved(text.to_owned()))
}

fn arguments(text: &str) -> Result<Value, CliError> {
    serde_json::from_str(text).map_err(|error| {
        CliError::new(INVALID, format!("--args is not JSON: {error}"))
            .hint(r#"for example: --args '{"folder": "/home/me/notes"}'"#)
    })
}

/// The daemon has another working folder.
fn absolute(folder: &Path) -> Result<PathBuf, CliError> {
    let refused = |why: &dyn std::fmt::Display| CliError::new(INVALID, format!("--read {}: {why}", folder.display()));
    let found = folder.canonicalize().map_err(|error| refused(&error))?;
    if found.is_dir() { Ok(found) } else { Err(refused(&"not a folder")) }
}

fn print_end(run: &RunView) -> Result<(), CliError> {
    let execution = &run.execution;
    let took = span(execution.finished_at_ms.unwrap_or(execution.started_at_ms) - execution.started_at_ms);
    let tokens = execution.usage.total_tokens();
    say(format!("{} in {took}, {tokens} tokens; graph-relay history show {}", execution.status, execution.id));
    if execution.usage.agent_failures > 0 {
        say(format!("warning: {}", lost_agents(run)));
    }
    if let Some(error) = execution.error.as_ref().filter(|_| execution.status == "failed") {
        say(format!("error: {}", one_line(&error.to_string())));
    }
    if execution.status == "completed" {
        put(harmless_json(&format!("{:#}", execution.result.as_ref().unwrap_or(&Value::Null))))?;
    }
    Ok(())
}
