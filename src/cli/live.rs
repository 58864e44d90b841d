//! A run as it happens: one line an event, and on a terminal a bar for the script's own progress.

use std::collections::HashMap;
use std::io::IsTerminal;
use std::sync::Mutex;

use fleet::Event;
use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};
use serde_json::Value;

use super::print::say;
use super::text::{one_line, shortened, span};
use crate::store::executions::Recorded;

/// Width at which texts of unknown length are cut.
const TEXT: usize = 100;

/// Turns events into lines; remembers the names that belong to numbers.
#[derive(Debug, Default)]
pub(super) struct Narrator {
    started_ms: Option<i64>,
    names: HashMap<(char, u32), String>,
}

impl Narrator {
    /// The line for an event; none for one that says nothing to a person.
    pub(super) fn line(&mut self, recorded: &Recorded) -> Option<String> {
        let started = *self.started_ms.get_or_insert(recorded.at_ms);
        let text = self.text(&recorded.event)?;
        let seconds = (recorded.at_ms - started).max(0);
        Some(format!("{:>6}.{}s  {}", seconds / 1000, seconds % 1000 / 100, one_line(&text)))
    }

    fn text(&mut self, event: &Event) -> Option<String> {
        Some(match event {
            Event::FleetStarted { execution_id, graph, .. } => format!("run      {graph} ({execution_id})"),
            Event::PhaseStarted { title } => format!("phase    {}", shortened(title, TEXT)),
            Event::Log { message, data } => match data {
                Some(data) => format!("log      {} {}", shortened(message, TEXT), brief(data)),
                None => format!("log      {}", shortened(message, TEXT)),
            },
            Event::Progress { done, total, message } => {
                format!("progress {done}/{total} {}", shortened(message.as_deref().unwrap_or_default(), TEXT))
                    .trim_end()
                    .to_owned()
            }
            Event::AgentStarted { agent, label, model, .. } => {
                let name = shortened(label, 60);
                self.names.insert(('a', *agent), name.clone());
                format!("agent    {name} started on {model}")
            }
            Event::AgentFinished { agent, tokens, duration_ms, .. } => {
                let (name, sign) = (self.name('a', *agent), if tokens.estimated { "about " } else { "" });
                format!("agent    {name} done in {}, {sign}{} tokens", elapsed(*duration_ms), tokens.total())
            }
            Event::AgentFailed { agent, error, duration_ms } => {
                format!("agent    {} failed after {}: {error}", self.name('a', *agent), elapsed(*duration_ms))
            }
            Event::ToolStarted { call, tool, input } => {
                self.names.insert(('t', *call), format!("{tool} {}", brief(input)));
                return None;
            }
            Event::ToolFinished { call, duration_ms, output_bytes } => {
                format!("tool     {} ({output_bytes} bytes in {})", self.name('t', *call), elapsed(*duration_ms))
            }
            Event::ToolFailed { call, error, .. } => format!("tool     {} failed: {error}", self.name('t', *call)),
            Event::ItemFailed { error } => format!("item     failed: {error}"),
            Event::RetryScheduled { attempt, delay_ms, error } => {
                format!("retry    after try {attempt}, in {}: {error}", elapsed(*delay_ms))
            }
            Event::ChildStarted { graph, version, .. } => format!("graph    {graph} (version {version}) started"),
            Event::ChildFinished { graph, ok } => {
                format!("graph    {graph} {}", if *ok { "done" } else { "failed" })
            }
            Event::Sleeping { ms } => format!("sleep    {}", elapsed(*ms)),
            Event::Warning { message } => format!("warning  {}", shortened(message, 300)),
            Event::FleetFinished { .. } => return None,
        })
    }

    fn name(&self, kind: char, number: u32) -> String {
        self.names.get(&(kind, number)).cloned().unwrap_or_else(|| format!("{number}"))
    }
}

fn elapsed(ms: u64) -> String {
    span(i64::try_from(ms).unwrap_or(i64::MAX))
}

/// A value in a few words: a path where there is one, else the beginning of its JSON.
fn brief(value: &Value) -> String {
    match value.get("path").and_then(Value::as_str) {
        Some(path) => shortened(path, TEXT),
        None => shortened(&value.to_string(), TEXT),
    }
}

/// Shows a run on standard error.
pub(super) struct Live {
    narrator: Mutex<Narrator>,
    /// On a terminal: carries the script's progress, the lines go above it.
    bar: Option<ProgressBar>,
}

impl Live {
    pub(super) fn new() -> Self {
        let bar = std::io::stderr().is_terminal().then(|| {
            let bar = ProgressBar::with_draw_target(None, ProgressDrawTarget::stderr());
            if let Ok(style) = ProgressStyle::with_template("{spinner} {wide_msg}") {
                bar.set_style(style);
            }
            bar.enable_steady_tick(std::time::Duration::from_millis(120));
            bar
        });
        Self { narrator: Mutex::default(), bar }
    }

    /// Shows one event.
    pub(super) fn show(&self, recorded: &Recorded) {
        let line = self.narrator.lock().unwrap_or_else(std::sync::PoisonError::into_inner).line(recorded);
        match (&self.bar, &recorded.event) {
            (Some(bar), Event::Progress { done, total, message }) => {
                if let Ok(style) = ProgressStyle::with_template("{spinner} [{bar:30}] {pos}/{len} {wide_msg}") {
                    bar.set_style(style.progress_chars("=> "));
                }
                bar.set_length(units(*total));
                bar.set_position(units(*done));
                bar.set_message(shortened(message.as_deref().unwrap_or_default(), TEXT));
            }
            (Some(bar), _) => {
                if let Some(line) = line {
                    bar.println(line);
                }
            }
            (None, _) => {
                if let Some(line) = line {
                    say(line);
                }
            }
        }
    }

    /// Takes the bar away.
    pub(super) fn end(&self) {
        if let Some(bar) = &self.bar {
            bar.finish_and_clear();
        }
    }
}

#[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "a bar may saturate")]
fn units(count: f64) -> u64 {
    count as u64
}

#[cfg(test)]
mod tests {
    use fleet::TokenUsage;
    use serde_json::json;

    use super::*;

    #[test]
    fn an_error_cannot_pose_as_the_next_event() {
        let error = fleet::GraphError::new("Error", "", "x\n   9.9s  agent    done\u{9b}2J");
        let line = Narrator::default().line(&Recorded { at_ms: 0, event: Event::ItemFailed { error } }).unwrap();
        assert_eq!(line, "     0.0s  item     failed: Error: x    9.9s  agent    done\u{fffd}2J");
    }

    #[test]
    fn a_run_reads_like_a_story() {
        let events = [
            Event::FleetStarted { execution_id: uuid::Uuid::nil(), graph: "digest".to_owned(), depth: 0 },
            Event::PhaseStarted { title: "Read".to_owned() },
            Event::ToolStarted { call: 1, tool: "read_text_file".to_owned(), input: json!({"path": "in/a.txt"}) },
            Event::ToolFinished { call: 1, duration_ms: 12, output_bytes: 480 },
            Event::AgentStarted { agent: 1, label: "a.txt".to_owned(), model: "local".to_owned(), phase: None },
            Event::AgentFinished {
                agent: 1,
                tokens: TokenUsage { input_tokens: 90, output_tokens: 10, estimated: true },
                cost: None,
                duration_ms: 2_300,
            },
            Event::Progress { done: 1.0, total: 2.0, message: Some("a.txt".to_owned()) },
            Event::Log { message: "half\u{1b}[2J way".to_owned(), data: None },
        ];
        let mut narrator = Narrator::default();
        let lines: Vec<String> = (0..)
            .step_by(450)
            .zip(events)
            .filter_map(|(ms, event)| narrator.line(&Recorded { at_ms: 1_000 + ms, event }))
            .collect();
        insta::assert_snapshot!(lines.join("\n"), @r"
        0.0s  run      digest (00000000-0000-0000-0000-000000000000)
        0.4s  phase    Read
        1.3s  tool     read_text_file in/a.txt (480 bytes in 12 ms)
        1.8s  agent    a.txt started on local
        2.2s  agent    a.txt done in 2.3 s, about 100 tokens
        2.7s  progress 1/2 a.txt
        3.1s  log      half [2J way
        ");
    }
}
