//! `[models.NAME]`: one OpenAI-compatible chat-completions backend.

use std::fmt;
use std::time::Duration;

use serde::Deserialize;

/// A model that scripts can name. In TOML:
///
/// ```toml
/// [models.local]
/// base_url = "http://127.0.0.1:8080/v1"
/// model = "qwen3-8b"
/// max_concurrency = 1
/// timeout = "10m"
/// ```
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ModelConfig {
    /// Where `/chat/completions` hangs, for instance `http://127.0.0.1:8080/v1`.
    pub base_url: String,
    /// The provider's own name of the model.
    pub model: String,
    /// Sent as a bearer token.
    #[serde(default)]
    pub api_key: Option<Secret>,
    /// The environment variable that holds the key, read anew for each agent. Used when `api_key` is absent.
    #[serde(default)]
    pub api_key_env: Option<String>,
    /// Requests under way at once, over all runs. 1 by default: a local backend serves one at a time.
    #[serde(default = "one")]
    pub max_concurrency: u32,
    /// Price of a million input tokens, in the owner's currency.
    #[serde(default)]
    pub input_price_per_million: Option<f64>,
    /// Price of a million output tokens.
    #[serde(default)]
    pub output_price_per_million: Option<f64>,
    /// Longest that one request may take. 10 minutes by default.
    #[serde(default = "ten_minutes", with = "crate::text::duration")]
    pub timeout: Duration,
}

fn one() -> u32 {
    1
}

fn ten_minutes() -> Duration {
    Duration::from_secs(600)
}

impl ModelConfig {
    /// The key to send, if any is configured and set.
    pub(crate) fn key(&self) -> Option<Secret> {
        self.api_key.clone().or_else(|| self.api_key_env.as_ref().and_then(|name| std::env::var(name).ok()).map(Secret))
    }

    /// The cost of so many tokens, where both prices are configured.
    pub(crate) fn cost(&self, tokens: crate::TokenUsage) -> Option<f64> {
        let (input, output) = (self.input_price_per_million?, self.output_price_per_million?);
        Some((tokens.input_tokens as f64 * input + tokens.output_tokens as f64 * output) / 1e6)
    }
}

/// A key. Its `Debug` never shows it.
#[derive(Clone, PartialEq, Eq, Deserialize)]
#[serde(transparent)]
pub struct Secret(String);

impl Secret {
    /// The key itself, for the header it is sent in.
    pub fn expose(&self) -> &str {
        &self.0
    }
}

impl From<String> for Secret {
    fn from(key: String) -> Self {
        Self(key)
    }
}

impl fmt::Debug for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Secret(…)")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_key_never_reaches_a_log_by_debug() {
        let json = r#"{"base_url": "http://x/v1", "model": "m", "api_key": "sk-123", "timeout": "2m"}"#;
        let config: ModelConfig = serde_json::from_str(json).unwrap();
        assert!(!format!("{config:?}").contains("sk-123"));
        assert_eq!((config.max_concurrency, config.timeout), (1, Duration::from_secs(120)));
        assert_eq!(config.key().unwrap().expose(), "sk-123");
        assert!(serde_json::from_str::<ModelConfig>(r#"{"base_url": "", "model": "", "apikey": ""}"#).is_err());
    }
}
