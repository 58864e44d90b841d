//! What a run tells while it is on.

use serde::{Deserialize, Serialize};
use serde_json::Value;
use uuid::Uuid;

use crate::{GraphError, Status, TokenUsage, Usage};

/// One thing that happened in a run. [`Event::FleetStarted`] comes first, [`Event::FleetFinished`] last; child Graphs
/// report into the same stream.
///
/// `agent` and `call` number the agents and the tool calls of one run from 1, children included.
#[derive(Serialize, Deserialize, Clone, Debug, PartialEq)]
#[serde(tag = "type", rename_all = "snake_case")]
pub enum Event {
    /// The run exists and can be cancelled by this id.
    FleetStarted {
        /// The execution.
        execution_id: Uuid,
        /// The Graph's slug or file stem.
        graph: String,
        /// 0: only the outermost Graph starts a fleet.
        depth: u32,
    },
    /// `phase(title)`.
    PhaseStarted {
        /// As the script gave it, cut to 200 characters.
        title: String,
    },
    /// `log(message, data)` or `console.log`.
    Log {
        /// At most 4 KB.
        message: String,
        /// At most 4 KB as JSON.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        data: Option<Value>,
    },
    /// `progress(done, total, message)`.
    Progress {
        /// Units done.
        done: f64,
        /// Units in all.
        total: f64,
        /// What is being worked on.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        message: Option<String>,
    },
    /// An agent got its place and starts.
    AgentStarted {
        /// Which agent.
        agent: u32,
        /// `label`, or the first words of the prompt.
        label: String,
        /// The owner's name of the model.
        model: String,
        /// The phase that it belongs to.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        phase: Option<String>,
    },
    /// An agent answered.
    AgentFinished {
        /// Which agent.
        agent: u32,
        /// What it used.
        tokens: TokenUsage,
        /// In the currency of the configured prices; absent without prices.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        cost: Option<f64>,
        /// From its start.
        duration_ms: u64,
    },
    /// An agent gave up. What it used until then counts, and is in the outcome's usage.
    AgentFailed {
        /// Which agent.
        agent: u32,
        /// Why.
        error: GraphError,
        /// From its start.
        duration_ms: u64,
    },
    /// A tool begins, called by the script or by an agent.
    ToolStarted {
        /// Which call.
        call: u32,
        /// The tool's name.
        tool: String,
        /// Its input, or a note of its size when that is over 4 KB.
        input: Value,
    },
    /// A tool ended well.
    ToolFinished {
        /// Which call.
        call: u32,
        /// From its start.
        duration_ms: u64,
        /// Length of its output as JSON.
        output_bytes: u64,
    },
    /// A tool ended with an error.
    ToolFailed {
        /// Which call.
        call: u32,
        /// Why.
        error: GraphError,
        /// From its start.
        duration_ms: u64,
    },
    /// An item of `parallel`, `map` or `pipeline` failed; the script sees `null` or a settled rejection in its place.
    ItemFailed {
        /// Why.
        error: GraphError,
    },
    /// A try failed for a passing reason, and another one will follow.
    RetryScheduled {
        /// The try that failed, from 1.
        attempt: u32,
        /// How long until the next.
        delay_ms: u64,
        /// Why it failed.
        error: GraphError,
    },
    /// A child Graph begins.
    ChildStarted {
        /// Its slug.
        graph: String,
        /// Its saved version.
        version: u32,
        /// 1 for a child of the outermost Graph.
        depth: u32,
    },
    /// A child Graph ended.
    ChildFinished {
        /// Its slug.
        graph: String,
        /// Whether it ended with a result.
        ok: bool,
    },
    /// `sleep(duration)` begins.
    Sleeping {
        /// For how long.
        ms: u64,
    },
    /// Something that the owner should know, and that did not stop the run.
    Warning {
        /// What, and what to do about it.
        message: String,
    },
    /// The run is over; nothing follows.
    FleetFinished {
        /// How it ended.
        status: Status,
        /// Why it failed or was cancelled.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        error: Option<GraphError>,
        /// What it used, children included.
        usage: Usage,
    },
}
