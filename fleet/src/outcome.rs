//! How a run ended, and what it used.

use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::GraphError;

/// The end of a run.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Outcome {
    /// How it ended.
    pub status: Status,
    /// What the script returned, as JSON; present exactly when `status` is [`Status::Completed`]. A script that
    /// returns nothing has the result `null`. At most 16 MB as JSON.
    pub result: Option<Value>,
    /// Why it failed or was cancelled.
    pub error: Option<GraphError>,
    /// What it used, children included.
    pub usage: Usage,
}

/// How a run ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Status {
    /// With a result.
    Completed,
    /// With an error.
    Failed,
    /// By [`crate::Engine::cancel`].
    Cancelled,
}

/// What a run used.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize, Deserialize)]
pub struct Usage {
    /// Tokens that the models read.
    pub input_tokens: u64,
    /// Tokens that the models wrote.
    pub output_tokens: u64,
    /// Whether some backend reported no usage, so that a part of the counts is estimated.
    pub estimated: bool,
    /// In the currency of the configured prices; absent when a model without prices was used, or none at all.
    pub cost: Option<f64>,
    /// Agents started.
    pub agents: u32,
    /// Agents that failed, whatever the script made of it: a run that lost half of its agents never looks clean.
    pub agent_failures: u64,
}

impl Usage {
    /// Input and output together.
    pub fn total_tokens(&self) -> u64 {
        self.input_tokens.saturating_add(self.output_tokens)
    }
}

/// Tokens of one agent.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct TokenUsage {
    /// Tokens that the model read.
    pub input_tokens: u64,
    /// Tokens that the model wrote.
    pub output_tokens: u64,
    /// Whether the backend reported none, so that they are estimated from the text's length.
    pub estimated: bool,
}

impl TokenUsage {
    /// Input and output together.
    pub fn total(&self) -> u64 {
        self.input_tokens.saturating_add(self.output_tokens)
    }

    /// Both together, estimated if either is.
    pub(crate) fn plus(self, other: TokenUsage) -> TokenUsage {
        TokenUsage {
            input_tokens: self.input_tokens.saturating_add(other.input_tokens),
            output_tokens: self.output_tokens.saturating_add(other.output_tokens),
            estimated: self.estimated || other.estimated,
        }
    }
}
