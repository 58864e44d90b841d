//! What a script asks for, and who does it.

use std::sync::Arc;
use std::time::Duration;

use serde::Deserialize;
use serde::de::DeserializeOwned;
use serde_json::{Value, json};
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use super::agents;
use super::budget::Budget;
use super::prepare::Prepared;
use super::run::Run;
use super::script::{self, Graph};
use crate::limits::{DEPTH, LOG_BYTES, SLEEP};
use crate::text::cut_utf16;
use crate::tools::{self, Tool};
use crate::wire::CallKind;
use crate::{Event, GraphError};

/// What is kept of an error's message where the history takes no more detail.
const BRIEF_UNITS: usize = 80;

/// The script that calls, and what it may do.
pub(super) struct Caller {
    pub(super) run: Arc<Run>,
    pub(super) budget: Arc<Budget>,
    /// Cancelled when the script has ended: its children must not outlive it.
    pub(super) stop: CancellationToken,
    pub(super) deadline: Instant,
    pub(super) file: String,
    /// The names of the Graphs from the outermost to this one.
    pub(super) lineage: Vec<String>,
    pub(super) prepared: Prepared,
}

/// Does what a script asked for at a place in it.
pub(super) async fn call(
    caller: Arc<Caller>,
    kind: CallKind,
    input: Value,
    (line, column): (u32, u32),
) -> Result<Value, GraphError> {
    let result = match kind {
        CallKind::Agent => agents::agent(&caller, input, (line, column)).await,
        CallKind::Tool => match parse::<ToolCall>(input) {
            Ok(ToolCall { name, input }) => tool(&caller, &caller.prepared.tools, &name, input, (line, column)).await,
            Err(error) => Err(error),
        },
        CallKind::Graph => match parse(input) {
            Ok(input) => graph(&caller, input).await,
            Err(error) => Err(error),
        },
        CallKind::Sleep => match parse(input) {
            Ok(input) => sleep(&caller, input).await,
            Err(error) => Err(error),
        },
    };
    result.map_err(|error| caller.locate(error, (line, column)))
}

impl Caller {
    /// The error at the place of the call, unless it has a place already.
    pub(super) fn locate(&self, error: GraphError, (line, column): (u32, u32)) -> GraphError {
        if line > 0 && error.line.is_none() { error.at(&self.file, line, column) } else { error }
    }
}

/// Input that the prelude wrote. What doesn't fit was written by something else.
pub(super) fn parse<T: DeserializeOwned>(input: Value) -> Result<T, GraphError> {
    serde_json::from_value(input).map_err(|error| GraphError::new("TypeError", "", error.to_string()))
}

#[derive(Deserialize)]
struct ToolCall {
    name: String,
    #[serde(default)]
    input: Value,
}

/// Runs one tool for a script or an agent, which may use those in `allowed`.
pub(super) async fn tool(
    caller: &Caller,
    allowed: &[Tool],
    name: &str,
    input: Value,
    at: (u32, u32),
) -> Result<Value, GraphError> {
    let tool = permitted(caller, allowed, name)?;
    let call = caller.run.next_call();
    let started = Instant::now();
    caller.run.tell(Event::ToolStarted { call, tool: name.to_owned(), input: shown(caller, &input) });
    let mut ending = Ending { caller, call, started, ended: false };
    let _place = caller.run.tools.acquire().await.expect("the semaphore is never closed");
    let result = tools::run(tool, input, Arc::clone(&caller.prepared.sandbox)).await;
    ending.ended = true;
    let duration_ms = started.elapsed().as_millis() as u64;
    match result {
        Ok(output) => {
            let output_bytes = output.to_string().len() as u64;
            caller.run.tell(Event::ToolFinished { call, duration_ms, output_bytes });
            Ok(output)
        }
        Err(error) => {
            let error = caller.locate(error, at);
            caller.run.tell(Event::ToolFailed { call, error: brief(caller, error.clone()), duration_ms });
            Err(error)
        }
    }
}

/// Tells the end of a tool whose call was dropped by a cancel.
struct Ending<'a> {
    caller: &'a Caller,
    call: u32,
    started: Instant,
    ended: bool,
}

impl Drop for Ending<'_> {
    fn drop(&mut self) {
        if !self.ended {
            let duration_ms = self.started.elapsed().as_millis() as u64;
            let error = GraphError::cancelled();
            self.caller.run.tell(Event::ToolFailed { call: self.call, error, duration_ms });
        }
    }
}

fn permitted(caller: &Caller, allowed: &[Tool], name: &str) -> Result<Tool, GraphError> {
    let tool = Tool::by_name(name);
    if let Some(tool) = tool
        && allowed.contains(&tool)
    {
        return Ok(tool);
    }
    let message = match tool {
        Some(tool) if caller.prepared.tools.contains(&tool) => format!("the agent's own `tools` leave out '{name}'"),
        Some(_) => format!("'{name}' is not in meta.tools: add it there"),
        None => format!("there is no tool '{name}' here, only {}", Tool::ALL.map(Tool::name).join(", ")),
    };
    Err(GraphError::tool("unknown_tool", message))
}

fn shown(caller: &Caller, input: &Value) -> Value {
    let bytes = input.to_string().len();
    let fits = bytes <= LOG_BYTES && caller.run.has_room(bytes);
    if fits { input.clone() } else { json!(format!("{bytes} bytes of JSON")) }
}

/// The error as the history keeps it: it may quote the input.
fn brief(caller: &Caller, mut error: GraphError) -> GraphError {
    if !caller.run.has_room(error.message.len()) {
        cut_utf16(&mut error.message, BRIEF_UNITS);
    }
    error
}

#[derive(Deserialize)]
struct GraphCall {
    name: String,
    args: Value,
}

/// Runs a child Graph.
async fn graph(caller: &Arc<Caller>, GraphCall { name, args }: GraphCall) -> Result<Value, GraphError> {
    let failed = |code: &str, message: String| GraphError::new("GraphError", code, message);
    let depth = caller.lineage.len();
    if !caller.prepared.graphs.contains(&name) {
        return Err(failed("unknown_graph", format!("'{name}' is not in meta.graphs: add it there")));
    }
    if caller.lineage.contains(&name) {
        return Err(failed("cycle", format!("{} → {name} goes in a circle", caller.lineage.join(" → "))));
    }
    if depth > DEPTH as usize {
        return Err(failed("depth", format!("child Graphs nest {DEPTH} deep at most: {}", caller.lineage.join(" → "))));
    }
    let Some(child) = caller.run.request.graphs.find(&name).await else {
        return Err(failed("unknown_graph", format!("there is no saved Graph '{name}'")));
    };
    let _place = tokio::select! {
        place = caller.run.children[depth - 1].acquire() => place.expect("the semaphore is never closed"),
        () = caller.stop.cancelled() => return Err(GraphError::cancelled()),
    };
    caller.run.tell(Event::ChildStarted { graph: name.clone(), version: child.version, depth: depth as u32 });
    let mut lineage = caller.lineage.clone();
    lineage.push(name.clone());
    let graph = Graph {
        file: child.file,
        source: child.source,
        arguments: args,
        limits: caller.prepared.limits,
        deadline: caller.deadline,
        lineage,
    };
    let budget = Arc::clone(&caller.budget);
    let result = Box::pin(script::run(&caller.run, graph, budget, caller.stop.child_token())).await;
    caller.run.tell(Event::ChildFinished { graph: name.clone(), ok: result.is_ok() });
    result.map_err(|error| child_error(&name, error))
}

/// What stops the whole run passes; anything else is a child that failed, whose own words are kept.
fn child_error(name: &str, error: GraphError) -> GraphError {
    let own_limit = matches!(error.code.as_str(), "timeout" | "memory" | "stack" | "items");
    if error.is_control() && !own_limit {
        return error;
    }
    let mut outer = GraphError::new("GraphError", "child_failed", format!("the Graph '{name}' failed: {error}"));
    outer.retryable = error.retryable;
    outer
}

#[derive(Deserialize)]
struct SleepCall {
    ms: f64,
    /// A retry's pause, which its own event has told.
    #[serde(default)]
    quiet: bool,
}

async fn sleep(caller: &Caller, SleepCall { ms, quiet }: SleepCall) -> Result<Value, GraphError> {
    let duration = Duration::try_from_secs_f64(ms / 1e3).ok().filter(|duration| *duration <= SLEEP);
    let Some(duration) = duration else {
        return Err(GraphError::limit("sleep", "a sleep may last seven days at most"));
    };
    if !quiet {
        caller.run.tell(Event::Sleeping { ms: duration.as_millis() as u64 });
    }
    tokio::time::sleep(duration).await;
    Ok(Value::Null)
}
