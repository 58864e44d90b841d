//! `graph-relay status`.

use std::process::ExitCode;

use super::ask::ask;
use super::error::CliError;
use super::print::put;
use super::text::{counted, harmless_json, local_time, shortened};
use crate::control::{Reply, Request, StatusView};

pub(super) async fn status(json: bool) -> Result<ExitCode, CliError> {
    let Reply::Status(view) = ask(Request::Status).await? else { return Err(unexpected()) };
    if json {
        print_json(&view)?;
    } else {
        put(for_people(&view))?;
    }
    Ok(ExitCode::SUCCESS)
}

fn for_people(view: &StatusView) -> String {
    let mut lines = Vec::new();
    let mut line = |name: &str, text: String| lines.push(format!("{name:<9} {text}"));
    line(
        "daemon",
        match view.daemon {
            Some(pid) => format!("running, version {}, process {pid}", view.version),
            None => "not running; start it with: graph-relay run".to_owned(),
        },
    );
    let there = if view.config_file.exists() { "" } else { " (not there: the defaults hold)" };
    line("config", format!("{}{there}", view.config_file.display()));
    line("hub", view.hub.clone().unwrap_or_else(|| "none; set url under [hub] in that file".to_owned()));
    if let Some(health) = &view.health {
        line(
            "sync",
            match health.last_sync_ms {
                Some(ms) => format!("last answered {}", local_time(ms)),
                None => "not answered yet".to_owned(),
            },
        );
        if let Some(problem) = &health.problem {
            line("problem", shortened(problem, 300));
        }
        if health.clock_skew_ms.abs() > 60_000 {
            line("clock", format!("this laptop is {} s off the hub", -health.clock_skew_ms / 1_000));
        }
    }
    line("graphs", format!("{} saved, {} on", view.graphs, counted(view.projects_on, "project", "projects")));
    line(
        "models",
        if view.models.is_empty() {
            "none; agents need [models.NAME] in that file".to_owned()
        } else {
            view.models.join(", ")
        },
    );
    for run in &view.running {
        line(
            "running",
            format!("{} since {} ({})", run.execution.graph, local_time(run.execution.started_at_ms), run.id()),
        );
    }
    if view.waiting > 0 {
        line("waiting", counted(view.waiting as usize, "command", "commands"));
    }
    if view.outbox_waiting + view.outbox_dead > 0 {
        line("outbox", format!("{} to deliver, {} refused for good", view.outbox_waiting, view.outbox_dead));
    }
    for (reason, times) in &view.refused {
        line("refused", format!("{} ({times} times)", shortened(reason, 200)));
    }
    lines.join("\n")
}

/// An answer of the wrong kind can only come from a daemon with a bug.
pub(super) fn unexpected() -> CliError {
    CliError::internal("the daemon's answer is not to this question")
}

pub(super) fn print_json<T: serde::Serialize>(value: &T) -> Result<(), CliError> {
    let text = serde_json::to_string_pretty(value).map_err(|error| CliError::internal(error.to_string()))?;
    put(harmless_json(&text))
}
