//! `config.toml`: what the owner decided.
//!
//! Every key has a default, an unknown key is an error that names it, and `config.example.toml` shows each key
//! with its default (held to that by a test).

use std::collections::BTreeMap;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::time::Duration;

use fleet::{FolderGrant, Limits, ModelConfig};
use serde::Deserialize;

use crate::paths::Paths;

/// The whole file.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Config {
    /// The hub, and how to ask it.
    pub hub: HubConfig,
    /// How this laptop is called.
    pub device: DeviceConfig,
    /// The model that `agent()` uses where the script names none.
    pub default_model: Option<String>,
    /// Models by the names that scripts use.
    pub models: BTreeMap<String, ModelConfig>,
    /// Folders that Graphs may be given.
    pub folders: Vec<FolderGrant>,
    /// Ceilings for every run; a script or a command can only narrow them.
    pub limits: Limits,
    /// The caps of the outbox.
    pub outbox: OutboxConfig,
    /// What the daemon writes about itself.
    pub log: LogConfig,
}

/// `[hub]`
#[derive(Debug, Clone, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct HubConfig {
    /// Base URL; empty where the relay serves no hub.
    pub url: String,
    /// Holds the device token; empty for `device-token` beside this file.
    pub token_file: PathBuf,
    /// How often the relay asks.
    #[serde(with = "duration_text")]
    pub poll_interval: Duration,
    /// How often a running command is checked for a cancel.
    #[serde(with = "duration_text")]
    pub check_interval: Duration,
    /// How long any one request may take.
    #[serde(with = "duration_text")]
    pub request_timeout: Duration,
    /// Hold one request open at the hub, so that a command is picked up in a round trip.
    pub wake_channel: bool,
}

impl Default for HubConfig {
    fn default() -> Self {
        Self {
            url: String::new(),
            token_file: PathBuf::new(),
            poll_interval: Duration::from_secs(20),
            check_interval: Duration::from_secs(3),
            request_timeout: Duration::from_secs(30),
            wake_channel: false,
        }
    }
}

/// `[device]`
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct DeviceConfig {
    /// Shown to the owner's assistants; empty for `my desktop`.
    pub name: String,
}

/// `[outbox]`
#[derive(Debug, Clone, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct OutboxConfig {
    /// Reports kept at most; at the cap no new command is taken.
    pub max_rows: u32,
    /// Bytes of reports kept at most; at the cap no new command is taken.
    pub max_bytes: u64,
    /// After this long a report that could not be sent becomes a dead letter.
    #[serde(with = "duration_text")]
    pub max_age: Duration,
}

impl Default for OutboxConfig {
    fn default() -> Self {
        let policy = outbox::Policy::default();
        Self { max_rows: policy.max_rows, max_bytes: policy.max_bytes, max_age: policy.max_age }
    }
}

/// `[log]`
#[derive(Debug, Clone, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct LogConfig {
    /// `error`, `warn`, `info`, `debug` or `trace`, or a filter such as `graph_relay=debug,info`.
    pub level: String,
    /// Days for which the daemon's log files are kept.
    pub keep_days: u32,
}

impl Default for LogConfig {
    fn default() -> Self {
        Self { level: "info".to_owned(), keep_days: 14 }
    }
}

/// Why the file cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum ConfigError {
    /// The file is there but cannot be read.
    #[error("cannot read {path}: {source}")]
    Read {
        /// Which file.
        path: PathBuf,
        /// What the system said.
        source: io::Error,
    },
    /// Not TOML, an unknown key, or a value of the wrong kind; the cause names line and column.
    #[error("{path} is not a valid configuration\n{source}")]
    Parse {
        /// Which file.
        path: PathBuf,
        /// What is wrong, and where.
        source: Box<toml::de::Error>,
    },
    /// A value that parses but makes no sense.
    #[error("{path}: {problem}")]
    Value {
        /// Which file.
        path: PathBuf,
        /// The key and its rule.
        problem: String,
    },
}

impl Config {
    /// Reads the owner's file; a missing one means the defaults.
    ///
    /// # Errors
    /// [`ConfigError`], which says what is wrong and where.
    pub fn load(path: &Path) -> Result<Self, ConfigError> {
        match fs::read_to_string(path) {
            Ok(text) => Self::parse(&text, path),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(Self::default()),
            Err(source) => Err(ConfigError::Read { path: path.to_owned(), source }),
        }
    }

    fn parse(text: &str, path: &Path) -> Result<Self, ConfigError> {
        let config: Self = toml::from_str(text)
            .map_err(|source| ConfigError::Parse { path: path.to_owned(), source: Box::new(source) })?;
        match config.problem() {
            Some(problem) => Err(ConfigError::Value { path: path.to_owned(), problem }),
            None => Ok(config),
        }
    }

    fn problem(&self) -> Option<String> {
        let hub = &self.hub;
        if !hub.url.is_empty()
            && let Err(problem) = check_hub_url(&hub.url)
        {
            return Some(format!("hub.url {problem}"));
        }
        let least = [
            ("hub.poll_interval", hub.poll_interval, Duration::from_secs(1)),
            ("hub.check_interval", hub.check_interval, Duration::from_millis(500)),
            ("hub.request_timeout", hub.request_timeout, Duration::from_secs(1)),
        ];
        for (key, value, least) in least {
            if value < least {
                let least = humantime::format_duration(least);
                return Some(format!("{key} must be at least {least}"));
            }
        }
        if let Some(folder) = self.folders.iter().find(|folder| !folder.path.is_absolute()) {
            return Some(format!("folders: path `{}` must be absolute", folder.path.display()));
        }
        if let Some(problem) = self.limits_problem().or_else(|| self.models_problem()) {
            return Some(problem);
        }
        match &self.default_model {
            Some(name) if !self.models.contains_key(name) => {
                Some(format!("default_model names `{name}`, but there is no [models.{name}]"))
            }
            _ => None,
        }
    }

    /// A ceiling beyond the engine's own would silently be another one than the owner wrote.
    fn limits_problem(&self) -> Option<String> {
        let (asked, given) = (&self.limits, self.limits.as_ceiling());
        let differs = [
            ("max_concurrency", asked.max_concurrency.is_some_and(|n| n != given.max_concurrency), "from 1 to 16"),
            ("max_agents", asked.max_agents.is_some_and(|n| n != given.max_agents), "at most 1000"),
            ("timeout", asked.timeout.is_some_and(|time| time != given.timeout), "at most 24h"),
            ("memory_mb", asked.memory_mb.is_some_and(|mb| mb != given.memory_mb), "from 32 to 4096"),
        ];
        let (key, _, rule) = differs.into_iter().find(|(_, differs, _)| *differs)?;
        Some(format!("limits.{key} must be {rule}"))
    }

    fn models_problem(&self) -> Option<String> {
        let is_http = |url: &str| reqwest::Url::parse(url).is_ok_and(|url| matches!(url.scheme(), "http" | "https"));
        self.models.iter().find_map(|(name, model)| {
            if !is_http(&model.base_url) {
                return Some(format!(
                    "models.{name}.base_url must be an http or https URL such as http://127.0.0.1:8080/v1"
                ));
            }
            (model.model.is_empty()).then(|| format!("models.{name}.model must be the server's name of the model"))
        })
    }

    /// The file that holds the device token.
    pub fn token_file(&self, paths: &Paths) -> PathBuf {
        if self.hub.token_file.as_os_str().is_empty() { paths.token_file() } else { self.hub.token_file.clone() }
    }

    /// What this laptop is called.
    pub fn device_name(&self) -> &str {
        if self.device.name.is_empty() { "my desktop" } else { &self.device.name }
    }

    /// The caps of the outbox, as its crate takes them.
    pub fn outbox_policy(&self) -> outbox::Policy {
        outbox::Policy {
            max_rows: self.outbox.max_rows,
            max_bytes: self.outbox.max_bytes,
            max_age: self.outbox.max_age,
            ..outbox::Policy::default()
        }
    }
}

/// A token must not travel in the clear: plain HTTP only within this machine.
fn check_hub_url(text: &str) -> Result<(), String> {
    let url = reqwest::Url::parse(text)
        .map_err(|error| format!("must be a URL such as https://hub.example.com, got `{text}`: {error}"))?;
    let host = url.host_str().unwrap_or_default();
    let loopback = matches!(host, "localhost" | "127.0.0.1" | "[::1]");
    match url.scheme() {
        "https" => Ok(()),
        "http" if loopback => Ok(()),
        "http" => Err(format!("must be https, as `{host}` is not this machine")),
        other => Err(format!("must be an https URL, got the scheme `{other}`")),
    }
}

/// Durations as people write them: `20s`, `1h 30m`.
mod duration_text {
    use std::time::Duration;

    use serde::{Deserialize, Deserializer, de};

    pub(super) fn deserialize<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Duration, D::Error> {
        let text = String::deserialize(deserializer)?;
        humantime::parse_duration(&text)
            .map_err(|error| de::Error::custom(format!("`{text}` is not a duration such as 20s or 1h 30m: {error}")))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(text: &str) -> Result<Config, ConfigError> {
        Config::parse(text, Path::new("config.toml"))
    }

    #[test]
    fn an_empty_file_means_the_defaults() {
        let config = parse("").unwrap();
        assert_eq!(config.hub.poll_interval, Duration::from_secs(20));
        assert_eq!(config.hub.check_interval, Duration::from_secs(3));
        assert!(config.folders.is_empty(), "nothing is granted until the owner grants it");
    }

    #[test]
    fn an_error_names_the_key_and_the_rule() {
        let cases = [
            ("[hub]\npol_interval = '5s'", "pol_interval"),
            ("[hub]\npoll_interval = 'soon'", "not a duration"),
            ("[hub]\npoll_interval = '10ms'", "hub.poll_interval must be at least 1s"),
            ("[hub]\nurl = 'http://hub.example.com'", "must be https"),
            ("[hub]\nurl = 'ftp://hub.example.com'", "https URL"),
            ("[[folders]]\npath = 'notes'\naccess = 'read'", "must be absolute"),
            ("[[folders]]\npath = '/notes'", "missing field `access`"),
            ("default_model = 'local'", "no [models.local]"),
            ("[hub]\nurl = 'hub.example.com'", "such as https://"),
            ("[limits]\nmax_concurrency = 99", "limits.max_concurrency must be from 1 to 16"),
            ("[limits]\nmemory_mb = 1", "limits.memory_mb must be from 32 to 4096"),
            ("[limits]\ntimeout = '2days'", "limits.timeout must be at most 24h"),
            ("[models.x]\nbase_url = 'nope'\nmodel = 'm'", "models.x.base_url must be"),
            ("[models.x]\nbase_url = 'http://127.0.0.1:1/v1'\nmodel = ''", "models.x.model must be"),
        ];
        for (text, expected) in cases {
            let error = parse(text).unwrap_err().to_string();
            assert!(error.contains(expected) && error.contains("config.toml"), "{text}: {error}");
        }
    }

    const EXAMPLE: &str = include_str!("../config.example.toml");

    /// The file is what people read to learn the keys: it must show each one, with the value it has without the file.
    #[test]
    fn the_example_shows_every_key_with_its_default() {
        let shown = parse(EXAMPLE).unwrap();
        // Limits are optional in the file; what counts is what they come to.
        assert_eq!(shown.limits.as_ceiling(), Limits::default().as_ceiling());
        let rest = |config: &Config| format!("{:?}", Config { limits: Limits::default(), ..config.clone() });
        assert_eq!(rest(&shown), rest(&Config::default()));
    }

    /// Every line that is commented out but for its explanation is a key too: with all of them in force the file
    /// still parses.
    #[test]
    fn the_examples_optional_keys_are_keys() {
        let in_force: String = EXAMPLE
            .lines()
            .map(|line| line.strip_prefix("# ").filter(|rest| is_toml(rest)).unwrap_or(line).to_owned() + "\n")
            .collect();
        let config = parse(&in_force).unwrap();
        assert_eq!(config.default_model.as_deref(), Some("local"));
        assert_eq!((config.folders.len(), config.models.len()), (1, 1));
        assert_eq!(config.limits.max_tokens, Some(200_000));
    }

    fn is_toml(line: &str) -> bool {
        line.starts_with('[') || line.split_once(" = ").is_some_and(|(key, _)| !key.contains(' '))
    }

    #[test]
    fn the_example_leaves_no_key_out() {
        let keys_of = |text: &str, table: &str| -> Vec<String> {
            let start = text.find(&format!("[{table}]")).unwrap();
            text[start..]
                .lines()
                .skip(1)
                .take_while(|line| !line.starts_with('['))
                .filter_map(|line| line.trim_start_matches("# ").split_once(" = "))
                .map(|(key, _)| key.to_owned())
                .collect()
        };
        for table in ["hub", "device", "limits", "outbox", "log", "models.local"] {
            let shown = keys_of(EXAMPLE, table);
            let unknown = format!("[{table}]\nno_such_key = 1\nbase_url = ''\nmodel = ''");
            let unknown = if table == "models.local" { unknown } else { format!("[{table}]\nno_such_key = 1") };
            let error = parse(&unknown).unwrap_err().to_string();
            let expected = error.split("expected ").nth(1).unwrap_or_else(|| panic!("{error}"));
            for key in expected.split('`').skip(1).step_by(2) {
                assert!(shown.iter().any(|shown| shown == key), "config.example.toml does not show {table}.{key}");
            }
        }
    }

    #[test]
    fn plain_http_is_for_this_machine_only() {
        for url in ["https://hub.example.com", "http://127.0.0.1:8787", "http://localhost:1", "http://[::1]:1"] {
            assert!(parse(&format!("[hub]\nurl = '{url}'")).is_ok(), "{url}");
        }
    }
}
