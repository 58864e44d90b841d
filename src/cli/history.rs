//! `graph-relay history`, `cancel` and `outbox`.

use std::process::ExitCode;

use super::ask::ask;
use super::error::CliError;
use super::live::Narrator;
use super::options::{HistoryArgs, HistoryCommand, OutboxCommand};
use super::print::{put, say};
use super::sharing::done;
use super::status::{print_json, unexpected};
use super::text::{counted, harmless_json, local_time, one_line, shortened, span, table};
use crate::control::{OutboxItem, Reply, Request, RunView};

pub(super) async fn history(args: HistoryArgs) -> Result<ExitCode, CliError> {
    match args.command {
        Some(HistoryCommand::Show { id, json }) => show(id, json).await,
        None => list(args.limit, args.json).await,
    }
}

async fn list(limit: u32, json: bool) -> Result<ExitCode, CliError> {
    let Reply::Runs(runs) = ask(Request::History { limit }).await? else { return Err(unexpected()) };
    if json {
        print_json(&runs)?;
    } else if runs.is_empty() {
        say("No Graph has run yet. Try: graph-relay graph run FILE");
    } else {
        let rows: Vec<_> = runs.iter().map(row).collect();
        put(table(&["STARTED", "GRAPH", "BY", "STATUS", "TOOK", "TOKENS", "ID"], &rows))?;
    }
    Ok(ExitCode::SUCCESS)
}

fn row(run: &RunView) -> Vec<String> {
    let execution = &run.execution;
    let version = execution.version.map(|version| format!(" v{version}")).unwrap_or_default();
    vec![
        local_time(execution.started_at_ms),
        format!("{}{version}", shortened(&execution.graph, 40)),
        asked_by(run).to_owned(),
        execution.status.clone(),
        execution.finished_at_ms.map(|end| span(end - execution.started_at_ms)).unwrap_or_default(),
        execution.usage.total_tokens().to_string(),
        execution.id.to_string(),
    ]
}

fn asked_by(run: &RunView) -> &'static str {
    if run.execution.channel.is_some() { "assistant" } else { "you" }
}

async fn show(id: String, json: bool) -> Result<ExitCode, CliError> {
    let Reply::Run(run) = ask(Request::HistoryShow { id }).await? else { return Err(unexpected()) };
    if json {
        print_json(&run)?;
    } else {
        put(whole(&run))?;
    }
    Ok(ExitCode::SUCCESS)
}

fn whole(run: &RunView) -> String {
    let execution = &run.execution;
    let mut text = table(&["STARTED", "GRAPH", "BY", "STATUS", "TOOK", "TOKENS", "ID"], &[row(run)]);
    text += &format!("\nscript {} (sha256 {})", execution.file, &execution.sha256[..16]);
    text += &format!("\narguments {}\n", shortened(&execution.arguments.to_string(), 500));
    let mut narrator = Narrator::default();
    for line in run.events.iter().filter_map(|recorded| narrator.line(recorded)) {
        text += &format!("\n{line}");
    }
    if execution.usage.agent_failures > 0 {
        text += &format!("\n{}", lost_agents(run));
    }
    if let Some(error) = &execution.error {
        text += &format!("\n\nerror: {}", one_line(&error.to_string()));
    }
    if let Some(result) = &execution.result {
        text += &format!("\n\n{}", harmless_json(&format!("{result:#}")));
    }
    text
}

/// A run that lost agents never looks clean.
pub(super) fn lost_agents(run: &RunView) -> String {
    let lost = usize::try_from(run.execution.usage.agent_failures).unwrap_or(usize::MAX);
    format!("{} of {} failed", lost, counted(run.execution.usage.agents as usize, "agent", "agents"))
}

pub(super) async fn cancel(id: String) -> Result<ExitCode, CliError> {
    let Reply::Cancelling(id) = ask(Request::Cancel { id }).await? else { return Err(unexpected()) };
    say(format!("run {id} is being cancelled"));
    Ok(ExitCode::SUCCESS)
}

pub(super) async fn outbox(command: OutboxCommand) -> Result<ExitCode, CliError> {
    match command {
        OutboxCommand::Retry { id } => done(Request::OutboxRetry { id }).await,
        OutboxCommand::Drop { id } => done(Request::OutboxDrop { id }).await,
        OutboxCommand::List { json } => {
            let Reply::Outbox(items) = ask(Request::OutboxList).await? else { return Err(unexpected()) };
            if json {
                print_json(&items)?;
            } else if items.is_empty() {
                say("The hub has every report.");
            } else {
                let rows: Vec<_> = items.iter().map(outbox_row).collect();
                put(table(&["NR", "REPORT OF", "ENDED", "BYTES", "TRIES", "NEXT", "LAST ERROR"], &rows))?;
            }
            Ok(ExitCode::SUCCESS)
        }
    }
}

fn outbox_row(item: &OutboxItem) -> Vec<String> {
    vec![
        item.id.to_string(),
        item.key.trim_start_matches("complete:").to_owned(),
        local_time(item.enqueued_at_ms),
        item.bytes.to_string(),
        item.attempts.to_string(),
        if item.dead { "never".to_owned() } else { local_time(item.next_try_ms) },
        shortened(item.last_error.as_deref().unwrap_or_default(), 120),
    ]
}
