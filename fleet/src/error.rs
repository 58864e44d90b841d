//! The one error shape that scripts and owners see.

use std::fmt;

use serde::{Deserialize, Serialize};

use crate::text::cut_utf16;

/// Longest message kept, in UTF-16 units: SPEC 1.7 counts so.
const MESSAGE_UNITS: usize = 2_000;

/// What went wrong in a Graph: what the script caught or did not catch, and what the owner reads.
///
/// `name` is the kind (`AgentError`, `ToolError`, `LimitError`, or JavaScript's own: `TypeError`, …), `code` the stable
/// word to branch on (`outside_folder`, `rate_limited`, …; empty for JavaScript's own errors).
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct GraphError {
    /// The kind of error.
    pub name: String,
    /// The stable word within the kind.
    #[serde(default)]
    pub code: String,
    /// For a person.
    pub message: String,
    /// Whether the same call could succeed later.
    #[serde(default)]
    pub retryable: bool,
    /// The script's file.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub file: Option<String>,
    /// From 1.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub line: Option<u32>,
    /// From 1.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub column: Option<u32>,
}

impl GraphError {
    /// An error of that kind and code, without a position. The message is cut to 2,000 UTF-16 units.
    pub fn new(name: impl Into<String>, code: impl Into<String>, message: impl Into<String>) -> Self {
        let mut message = message.into();
        cut_utf16(&mut message, MESSAGE_UNITS);
        Self { name: name.into(), code: code.into(), message, retryable: false, file: None, line: None, column: None }
    }

    /// The same, worth another try.
    pub(crate) fn retryable(mut self) -> Self {
        self.retryable = true;
        self
    }

    /// The same, at a place in the script.
    pub(crate) fn at(mut self, file: &str, line: u32, column: u32) -> Self {
        self.file = Some(file.to_owned());
        self.line = Some(line);
        self.column = Some(column);
        self
    }

    /// Refused before the first line ran: `bad_script`, `bad_meta`, `bad_args`, `folder_not_granted`, …
    pub(crate) fn start(code: &str, message: impl Into<String>) -> Self {
        Self::new("StartError", code, message)
    }

    /// The engine itself failed, or a script exhausted its process: `memory`, `stack`, `panic`, `worker`, …
    pub(crate) fn engine(code: &str, message: impl Into<String>) -> Self {
        Self::new("EngineError", code, message)
    }

    pub(crate) fn tool(code: &str, message: impl Into<String>) -> Self {
        Self::new("ToolError", code, message)
    }

    pub(crate) fn agent(code: &str, message: impl Into<String>) -> Self {
        Self::new("AgentError", code, message)
    }

    pub(crate) fn limit(code: &str, message: impl Into<String>) -> Self {
        Self::new("LimitError", code, message)
    }

    pub(crate) fn cancelled() -> Self {
        Self::new("CancelledError", "cancelled", "the run was cancelled")
    }

    /// Whether the error must stop the whole run rather than one item of it.
    pub(crate) fn is_control(&self) -> bool {
        matches!(self.name.as_str(), "BudgetExceededError" | "LimitError" | "CircuitOpenError" | "CancelledError")
    }
}

impl fmt::Display for GraphError {
    /// `invoices.js:12:5: ToolError outside_folder: …`, without the parts that are not known.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some(file) = &self.file {
            write!(f, "{file}:")?;
            if let Some(line) = self.line {
                write!(f, "{line}:")?;
                if let Some(column) = self.column {
                    write!(f, "{column}:")?;
                }
            }
            f.write_str(" ")?;
        }
        f.write_str(&self.name)?;
        if !self.code.is_empty() {
            write!(f, " {}", self.code)?;
        }
        write!(f, ": {}", self.message)
    }
}

impl std::error::Error for GraphError {}
