//! What a run may use. The owner's ceiling, the caller's wish and the script's `meta.limits` are all [`Limits`]; each
//! can only narrow the one before.
//!
//! | limit | default | hard cap |
//! |---|---|---|
//! | `max_concurrency`, agents at work at once | 4 | 16 |
//! | `max_tokens`, input + output | none | none |
//! | `max_agents` | 200 | 1,000 |
//! | `timeout` | 1 h | 24 h |
//! | `memory_mb` of the worker | 512 | 4,096 |

use std::time::Duration;

use serde::{Deserialize, Serialize};

/// Longest script, in bytes.
pub(crate) const SCRIPT_BYTES: usize = 512 * 1024;
/// Longest arguments, as JSON.
pub(crate) const ARGUMENT_BYTES: usize = 256 * 1024;
/// Most entries of `meta.folders`: each keeps a file descriptor of this process for the whole run.
pub(crate) const FOLDERS: usize = 32;
/// Longest JSON Schema, as JSON.
pub(crate) const SCHEMA_BYTES: usize = 64 * 1024;
/// Longest prompt, system text and data of one agent together, as JSON.
pub(crate) const PROMPT_BYTES: usize = 1024 * 1024;
/// Most items of one `parallel`, `map` or `pipeline` call. The prelude has the same number.
pub(crate) const ITEMS: usize = 4_096;
/// Longest log message, and longest log data as JSON.
pub(crate) const LOG_BYTES: usize = 4 * 1024;
/// Most log lines, phases and progress reports of a run; what comes after is dropped with one warning.
pub(crate) const LOG_LINES: u32 = 2_000;
/// Deepest nesting of child Graphs: the outermost has depth 0.
pub(crate) const DEPTH: u32 = 3;
/// Longest sleep.
pub(crate) const SLEEP: Duration = Duration::from_secs(7 * 24 * 3600);
/// Longest output of a tool, as JSON.
pub(crate) const TOOL_OUTPUT_BYTES: usize = 256 * 1024;
/// What the history of a run keeps of the inputs and errors of its tools, in bytes; beyond it, only their sizes.
pub(crate) const DETAIL_BYTES: usize = 16 * 1024 * 1024;
/// Most values in one JSON text that leaves the script: each takes far more memory than text, here and wherever the
/// result is read.
pub(crate) const JSON_VALUES: usize = 1_000_000;
/// Most host calls of a run: what bounds the history of a script that calls tools in a loop.
pub(crate) const HOST_CALLS: u32 = 100_000;
/// Most host calls that a script may have under way at once.
pub(crate) const HOST_CALLS_AT_ONCE: u32 = 8_192;

/// Ceilings of a run; an absent one is left to the next in line, in the end to the default.
///
/// In TOML and JSON: `{"max_concurrency": 2, "max_tokens": 100000, "max_agents": 50, "timeout": "30m",
/// "memory_mb": 256}`; unknown keys are refused.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Limits {
    /// Agents at work at once, child Graphs included.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub max_concurrency: Option<u32>,
    /// Input and output tokens together, child Graphs included.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub max_tokens: Option<u64>,
    /// Agents started, child Graphs included.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub max_agents: Option<u32>,
    /// Wall-clock time from the start of the run.
    #[serde(with = "crate::text::optional_duration", skip_serializing_if = "Option::is_none")]
    pub timeout: Option<Duration>,
    /// Memory of a worker process, in MiB.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub memory_mb: Option<u32>,
}

/// [`Limits`] with every default filled in and every hard cap applied.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct EffectiveLimits {
    /// Agents at work at once.
    pub max_concurrency: u32,
    /// Input and output tokens together; `None` is no ceiling.
    pub max_tokens: Option<u64>,
    /// Agents started.
    pub max_agents: u32,
    /// Wall-clock time from the start.
    pub timeout: Duration,
    /// Memory of a worker process, in MiB.
    pub memory_mb: u32,
}

impl Limits {
    /// The narrower of both, limit by limit.
    #[must_use]
    pub fn narrowed_by(&self, other: &Limits) -> Limits {
        Limits {
            max_concurrency: narrower(self.max_concurrency, other.max_concurrency),
            max_tokens: narrower(self.max_tokens, other.max_tokens),
            max_agents: narrower(self.max_agents, other.max_agents),
            timeout: narrower(self.timeout, other.timeout),
            memory_mb: narrower(self.memory_mb, other.memory_mb),
        }
    }

    /// The owner's ceiling made complete: the default for what he left out, never above the hard cap.
    #[must_use]
    pub fn as_ceiling(&self) -> EffectiveLimits {
        EffectiveLimits {
            max_concurrency: self.max_concurrency.unwrap_or(4).clamp(1, 16),
            max_tokens: self.max_tokens,
            max_agents: self.max_agents.unwrap_or(200).min(1_000),
            timeout: self.timeout.unwrap_or(Duration::from_secs(3_600)).min(Duration::from_secs(24 * 3_600)),
            memory_mb: self.memory_mb.unwrap_or(512).clamp(32, 4_096),
        }
    }
}

impl EffectiveLimits {
    /// These, narrowed by a caller's or a script's wish. A wish can lower any limit, and raise none.
    #[must_use]
    pub fn narrowed_by(&self, wish: &Limits) -> EffectiveLimits {
        EffectiveLimits {
            max_concurrency: wish.max_concurrency.unwrap_or(u32::MAX).clamp(1, self.max_concurrency),
            max_tokens: narrower(self.max_tokens, wish.max_tokens),
            max_agents: wish.max_agents.unwrap_or(u32::MAX).min(self.max_agents),
            timeout: wish.timeout.unwrap_or(Duration::MAX).min(self.timeout),
            memory_mb: wish.memory_mb.unwrap_or(u32::MAX).clamp(32.min(self.memory_mb), self.memory_mb),
        }
    }
}

fn narrower<T: Ord>(a: Option<T>, b: Option<T>) -> Option<T> {
    match (a, b) {
        (Some(a), Some(b)) => Some(a.min(b)),
        (a, b) => a.or(b),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_script_can_lower_a_ceiling_but_not_raise_it() {
        let ceiling = Limits { max_agents: Some(10), timeout: Some(Duration::from_secs(60)), ..Limits::default() };
        let wish = Limits { max_agents: Some(500), timeout: Some(Duration::from_secs(5)), ..Limits::default() };
        let effective = ceiling.as_ceiling().narrowed_by(&wish);
        assert_eq!((effective.max_agents, effective.timeout), (10, Duration::from_secs(5)));
        assert_eq!(ceiling.narrowed_by(&wish).max_agents, Some(10));
    }

    #[test]
    fn the_owner_cannot_lift_the_hard_caps() {
        let wish = Limits { max_concurrency: Some(99), max_agents: Some(9_999), ..Limits::default() };
        assert_eq!((wish.as_ceiling().max_concurrency, wish.as_ceiling().max_agents), (16, 1_000));
    }

    #[test]
    fn durations_are_text() {
        let limits: Limits = serde_json::from_str(r#"{"timeout": "1h 30m"}"#).unwrap();
        assert_eq!(limits.timeout, Some(Duration::from_secs(5_400)));
        assert!(serde_json::from_str::<Limits>(r#"{"timeout": 30}"#).is_err());
        assert!(serde_json::from_str::<Limits>(r#"{"max_agent": 30}"#).is_err());
    }
}
