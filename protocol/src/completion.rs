//! The report of a finished run and its caps (SPEC 1.7).

use serde::{Deserialize, Deserializer, Serialize};
use serde_json::Value;

use crate::{ExecutionId, exceeds};

/// The largest report that is sent whole: UTF-16 code units of its JSON text.
pub const MAX_REPORT_UNITS: usize = 100_000;

/// The longest error message that is sent: UTF-16 code units of its text.
pub const MAX_MESSAGE_UNITS: usize = 2_000;

/// How a run ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum CompletionStatus {
    /// The script returned.
    Completed,
    /// The script threw, ran out of a limit, or could not be started.
    Failed,
    /// It was stopped, or consent was missing.
    Cancelled,
}

impl CompletionStatus {
    /// The wire's word for it.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Completed => "completed",
            Self::Failed => "failed",
            Self::Cancelled => "cancelled",
        }
    }
}

/// What the desktop reports when a command has ended.
///
/// Made by [`Completion::capped`], so that one in hand is always small enough to send.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Completion {
    /// The run in the desktop's history; none where no run began.
    pub execution_id: Option<ExecutionId>,
    /// How it ended.
    pub status: CompletionStatus,
    /// What the script returned. A script that returns nothing has the result `null`, which is not the same as none.
    #[serde(default, skip_serializing_if = "Option::is_none", deserialize_with = "present")]
    pub result: Option<Value>,
    /// Why it failed or was cancelled, at most [`MAX_MESSAGE_UNITS`].
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub message: Option<String>,
    /// Input and output tokens of all agents.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub total_tokens: Option<u64>,
    /// Cost in US dollars as the model backends reported it; none where none did.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reported_cost: Option<f64>,
    /// Agents that failed although the script went on.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub agent_failures: u64,
    /// The result was too large to send and stays on the desktop.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub result_truncated: bool,
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde passes the field by reference")]
fn is_zero(n: &u64) -> bool {
    *n == 0
}

/// A field that is there is there, also when it holds `null`.
fn present<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<Value>, D::Error> {
    Value::deserialize(deserializer).map(Some)
}

impl Completion {
    /// An end without a run: consent was missing, or the command could not be understood.
    pub fn without_run(status: CompletionStatus, message: &str) -> Self {
        Self {
            execution_id: None,
            status,
            result: None,
            message: Some(cap_message(message).to_owned()),
            total_tokens: None,
            reported_cost: None,
            agent_failures: 0,
            result_truncated: false,
        }
    }

    /// The report in the form in which it may be sent: whole, or without everything but
    /// `{execution_id, status, result_truncated: true}`.
    #[must_use]
    pub fn capped(mut self) -> Self {
        if let Some(message) = &mut self.message {
            let kept = cap_message(message).len();
            message.truncate(kept);
        }
        if !exceeds(&self, MAX_REPORT_UNITS) {
            return self;
        }
        Self {
            execution_id: self.execution_id,
            status: self.status,
            result: None,
            message: None,
            total_tokens: None,
            reported_cost: None,
            agent_failures: 0,
            result_truncated: true,
        }
    }
}

/// The longest beginning of `message` within [`MAX_MESSAGE_UNITS`] that splits no character.
pub fn cap_message(message: &str) -> &str {
    let mut units = 0;
    for (at, ch) in message.char_indices() {
        units += ch.len_utf16();
        if units > MAX_MESSAGE_UNITS {
            return &message[..at];
        }
    }
    message
}

#[cfg(test)]
mod tests;
