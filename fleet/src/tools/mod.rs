//! Tools: what scripts and agents can do in the folders that the owner granted.
//!
//! All of it is reading so far. Each call runs on the blocking pool, stops soon after nobody waits for it any more, and
//! gives at most 256 KB of JSON. No state.

mod list;
mod read;
mod sandbox;
mod search;
#[cfg(test)]
mod tests;
mod walk;

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};

use serde::de::DeserializeOwned;
use serde_json::{Value, json};

pub(crate) use sandbox::Sandbox;

use crate::GraphError;
use crate::limits::TOOL_OUTPUT_BYTES;

/// A tool that exists.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Tool {
    ListDirectory,
    ReadTextFile,
    SearchFiles,
}

impl Tool {
    pub(crate) const ALL: [Tool; 3] = [Self::ListDirectory, Self::ReadTextFile, Self::SearchFiles];

    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::ListDirectory => "list_directory",
            Self::ReadTextFile => "read_text_file",
            Self::SearchFiles => "search_files",
        }
    }

    pub(crate) fn by_name(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|tool| tool.name() == name)
    }

    /// What a model is told of it.
    pub(crate) fn description(self) -> &'static str {
        match self {
            Self::ListDirectory => list::DESCRIPTION,
            Self::ReadTextFile => read::DESCRIPTION,
            Self::SearchFiles => search::DESCRIPTION,
        }
    }

    /// JSON Schema of its input.
    pub(crate) fn input_schema(self) -> Value {
        match self {
            Self::ListDirectory => list::input_schema(),
            Self::ReadTextFile => read::input_schema(),
            Self::SearchFiles => search::input_schema(),
        }
    }
}

/// Says whether anybody still waits for a tool.
#[derive(Clone, Default)]
struct Wanted(Arc<AtomicBool>);

impl Wanted {
    fn check(&self) -> Result<(), GraphError> {
        if self.0.load(Relaxed) { Err(GraphError::cancelled()) } else { Ok(()) }
    }
}

/// Tells the blocking thread to stop when the call is dropped.
struct StopOnDrop(Wanted);

impl Drop for StopOnDrop {
    fn drop(&mut self) {
        self.0.0.store(true, Relaxed);
    }
}

/// Runs a tool.
///
/// # Errors
/// `ToolError` with one of the codes `bad_input`, `outside_folder`, `not_found`, `too_large`, `interrupted`.
pub(crate) async fn run(tool: Tool, input: Value, sandbox: Arc<Sandbox>) -> Result<Value, GraphError> {
    let wanted = Wanted::default();
    let _stop = StopOnDrop(wanted.clone());
    let work = move || match tool {
        Tool::ListDirectory => list::run(&parse(input)?, &sandbox, &wanted),
        Tool::ReadTextFile => read::run(&parse(input)?, &sandbox),
        Tool::SearchFiles => search::run(&parse(input)?, &sandbox, &wanted),
    };
    let output = tokio::task::spawn_blocking(work)
        .await
        .map_err(|error| GraphError::tool("interrupted", format!("the tool did not end by itself: {error}")))??;
    let bytes = output.to_string().len();
    if bytes > TOOL_OUTPUT_BYTES {
        let message =
            format!("the output has {bytes} bytes as JSON; at most {TOOL_OUTPUT_BYTES} are given: ask for less");
        return Err(GraphError::tool("too_large", message));
    }
    Ok(output)
}

fn parse<T: DeserializeOwned>(input: Value) -> Result<T, GraphError> {
    serde_json::from_value(input).map_err(|error| GraphError::tool("bad_input", error.to_string()))
}

/// The schema of an object whose only required property is `path`.
fn object_schema(properties: Value) -> Value {
    json!({"type": "object", "additionalProperties": false, "required": ["path"], "properties": properties})
}
