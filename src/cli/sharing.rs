//! `graph-relay project`, `share` and `unshare`.

use std::process::ExitCode;

use super::ask::ask;
use super::error::CliError;
use super::options::ProjectCommand;
use super::print::{put, say};
use super::status::{print_json, unexpected};
use super::text::table;
use crate::control::{ProjectView, Reply, Request};

pub(super) async fn project(command: ProjectCommand) -> Result<ExitCode, CliError> {
    match command {
        ProjectCommand::List { json } => list(json).await,
        ProjectCommand::On { project } => done(Request::ProjectSwitch { project, on: true }).await,
        ProjectCommand::Off { project } => done(Request::ProjectSwitch { project, on: false }).await,
    }
}

pub(super) async fn share(graph: String, project: String, shared: bool) -> Result<ExitCode, CliError> {
    done(Request::Share { graph, project, shared }).await
}

async fn list(json: bool) -> Result<ExitCode, CliError> {
    let Reply::Projects(projects) = ask(Request::ProjectList).await? else { return Err(unexpected()) };
    if json {
        print_json(&projects)?;
    } else if projects.is_empty() {
        say("The hub knows you in no project. At the hub: graph-relay hub member add YOU --project ID");
    } else {
        let rows: Vec<_> = projects.iter().map(row).collect();
        put(table(&["PROJECT", "ID", "ON", "SHARED"], &rows))?;
    }
    Ok(ExitCode::SUCCESS)
}

fn row(project: &ProjectView) -> Vec<String> {
    let on = match (project.is_on, project.at_hub) {
        (true, true) => "on",
        (true, false) => "on, gone at the hub",
        (false, _) => "off",
    };
    vec![project.name.clone(), project.id.to_string(), on.to_owned(), project.shared.to_string()]
}

/// For requests whose answer is a sentence.
pub(super) async fn done(request: Request) -> Result<ExitCode, CliError> {
    match ask(request).await? {
        Reply::Done(said) => {
            say(said);
            Ok(ExitCode::SUCCESS)
        }
        _ => Err(unexpected()),
    }
}
