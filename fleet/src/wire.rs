//! What parent and worker say to each other: one JSON object a line, over the worker's stdin and stdout.
//!
//! Both are the same program, so the messages carry no version; a worker that cannot read one ends with
//! [`crate::exit_code::PROTOCOL`]. What comes from the worker is untrusted all the same: an exploited interpreter could
//! say anything, so the parent bounds lines, counts and sizes itself.
//!
//! ```text
//! parent                        worker
//! start {source, …}      →
//!                        ←      ready {meta} | refused {problems}
//! hold {schema, value}   →                               (instead of a start, or before the begin)
//!                        ←      held {verdict}
//! begin {args, …}        →
//!                        ←      call {id, kind, input} …, tell {kind, input} …
//! reply {id, outcome}    →
//! cancel                 →
//!                        ←      cancelled                (the script is alive, its pending calls reject)
//!                        ←      done {result} | failed {error}
//! ```

use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::{GraphError, Meta, Problem};

/// Longest line that the parent reads. Only a result comes near.
pub(crate) const LINE_BYTES: usize = 16 * 1024 * 1024;
/// Longest input of a call or a tell, as JSON.
pub(crate) const INPUT_BYTES: usize = 2 * 1024 * 1024;
/// Deepest nesting of any JSON that leaves the script: `serde_json` stops at 128.
pub(crate) const JSON_DEPTH: usize = 120;

/// How many values a JSON text has, at most: counted by the brackets and commas outside of its strings.
pub(crate) fn values(json: &[u8]) -> usize {
    let (mut count, mut in_string, mut escaped) = (1, false, false);
    for byte in json {
        match byte {
            _ if escaped => escaped = false,
            b'\\' => escaped = in_string,
            b'"' => in_string = !in_string,
            b'[' | b'{' | b',' if !in_string => count += 1,
            _ => {}
        }
    }
    count
}

/// From the parent.
#[derive(Debug, Serialize, Deserialize)]
#[serde(tag = "do", rename_all = "snake_case")]
pub(crate) enum ToWorker {
    /// The first message: parse and check.
    Start { source: String, memory_mb: u32 },
    /// Hold a value to a JSON Schema, or without a value only read the schema. Both come from the script or from a
    /// model: they may be made to hang, or to crash, whoever checks them.
    Hold { schema: Value, value: Option<Value>, memory_mb: u32 },
    /// Run what was parsed.
    Begin(Box<Begin>),
    /// The answer to a call.
    Reply { id: u64, spent: u64, outcome: Outcome },
    /// Reject what is pending, so that `finally` blocks run.
    Cancel,
}

/// What a script may know of its run.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct Begin {
    /// Seeds `Math.random`.
    pub(crate) seed: u64,
    /// The run's limit, if that is lower than the one of the start.
    pub(crate) memory_mb: u32,
    /// The global `args`.
    pub(crate) args: Value,
    /// The global `run`.
    pub(crate) run: Value,
    /// `budget.total`.
    pub(crate) total: Option<u64>,
    /// `budget.spent()` at the start: a child begins with what its parents have spent.
    pub(crate) spent: u64,
}

/// The end of a host call.
#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Outcome {
    Ok(Value),
    Err(GraphError),
}

impl From<Result<Value, GraphError>> for Outcome {
    fn from(result: Result<Value, GraphError>) -> Self {
        match result {
            Ok(value) => Self::Ok(value),
            Err(error) => Self::Err(error),
        }
    }
}

/// What a script asks the parent to do.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum CallKind {
    Agent,
    Tool,
    Graph,
    Sleep,
}

/// What a script tells without waiting for an answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum TellKind {
    Log,
    Phase,
    Progress,
    ItemFailed,
    Retry,
}

/// From the worker.
#[derive(Debug, Serialize, Deserialize)]
#[serde(tag = "say", rename_all = "snake_case")]
pub(crate) enum FromWorker {
    Ready {
        meta: Box<Meta>,
    },
    Refused {
        problems: Vec<Problem>,
    },
    Held {
        /// What is wrong with the value, or with the schema itself.
        verdict: Result<Vec<String>, String>,
    },
    Call {
        id: u64,
        kind: CallKind,
        input: Value,
        /// Where in the script, from 1; 0 where that is not known.
        line: u32,
        column: u32,
    },
    Tell {
        kind: TellKind,
        input: Value,
    },
    Cancelled,
    Done {
        result: Value,
        /// Calls that nobody awaited.
        open_calls: usize,
    },
    Failed {
        error: GraphError,
    },
}
