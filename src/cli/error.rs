//! From what went wrong to what the owner reads and what a script can test.
//!
//! | exit code | meaning |
//! |---|---|
//! | 0 | done |
//! | 1 | the Graph ran and failed |
//! | 2 | what was asked breaks a rule: bad arguments, a script with errors |
//! | 3 | there is no such Graph, run, project |
//! | 4 | the hub is missing, unreachable or refuses |
//! | 5 | another process has the database |
//! | 6 | the configuration or the token file cannot be used |
//! | 70 | trouble within: the disk, the database, a bug |
//! | 130 | the run was cancelled |

use std::process::ExitCode;

use super::print::say;
use crate::config::ConfigError;
use crate::control::client::ClientError;
use crate::control::{Failure, FailureKind, NoRelay, OpenError};
use crate::paths::PathsError;
use crate::store::StoreError;

/// The Graph ran and failed.
pub const GRAPH_FAILED: u8 = 1;
/// What was asked breaks a rule; also what the argument parser uses.
pub const INVALID: u8 = 2;
/// There is no such thing.
pub const NOT_FOUND: u8 = 3;
/// The hub is missing, unreachable or refuses.
pub const HUB: u8 = 4;
/// Another process has the database.
pub const IN_USE: u8 = 5;
/// The configuration or the token file cannot be used.
pub const CONFIG: u8 = 6;
/// Trouble within.
pub const INTERNAL: u8 = 70;
/// The run was cancelled.
pub const CANCELLED: u8 = 130;

/// For `--help`.
pub(super) const EXIT_CODES_HELP: &str = "\
Exit codes:
  0 done, 1 the Graph failed, 2 bad arguments or script, 3 not found, 4 hub trouble,
  5 database in use, 6 configuration, 70 internal trouble, 130 the run was cancelled

All files are kept below GRAPH_RELAY_HOME, or in the platform's own folders without it.";

/// A command that could not do what it was asked.
#[derive(Debug)]
pub struct CliError {
    message: String,
    hint: Option<String>,
    code: u8,
}

impl CliError {
    /// An error with its exit code.
    pub fn new(code: u8, message: impl Into<String>) -> Self {
        Self { message: message.into(), hint: None, code }
    }

    /// Trouble within.
    pub fn internal(message: impl Into<String>) -> Self {
        Self::new(INTERNAL, message)
    }

    /// The same, with what to do.
    #[must_use]
    pub fn hint(mut self, hint: impl Into<String>) -> Self {
        self.hint = Some(hint.into());
        self
    }

    /// Tells the owner, and gives the exit code.
    pub fn report(&self) -> ExitCode {
        say(format!("error: {}", self.message));
        if let Some(hint) = &self.hint {
            say(format!("hint: {hint}"));
        }
        ExitCode::from(self.code)
    }
}

impl From<Failure> for CliError {
    fn from(failure: Failure) -> Self {
        let code = match failure.kind {
            FailureKind::NotFound => NOT_FOUND,
            FailureKind::Invalid => INVALID,
            FailureKind::Hub => HUB,
            FailureKind::Internal => INTERNAL,
        };
        Self { message: failure.message, hint: failure.hint, code }
    }
}

impl From<ClientError> for CliError {
    fn from(error: ClientError) -> Self {
        let failed = Self::internal(error.to_string());
        match error {
            ClientError::Hangup => failed.hint("graph-relay history shows what became of a run"),
            _ => failed,
        }
    }
}

impl From<PathsError> for CliError {
    fn from(error: PathsError) -> Self {
        let failed = Self::new(CONFIG, error.to_string());
        match error {
            PathsError::Create { .. } => failed.hint("set GRAPH_RELAY_HOME to a folder that you can write to"),
            _ => failed,
        }
    }
}

impl From<ConfigError> for CliError {
    fn from(error: ConfigError) -> Self {
        Self::new(CONFIG, error.to_string()).hint("config.example.toml shows every key with its default")
    }
}

impl From<StoreError> for CliError {
    fn from(error: StoreError) -> Self {
        match error {
            StoreError::Locked { .. } => Self::new(IN_USE, error.to_string()).hint("wait until it is done, or stop it"),
            _ => Self::internal(error.to_string()),
        }
    }
}

impl From<OpenError> for CliError {
    fn from(error: OpenError) -> Self {
        match error {
            OpenError::Store(error) => error.into(),
            OpenError::Database { .. } => Self::internal(error.to_string()).hint(
                "see whether the disk has room; if the file is damaged, move it away: an empty one is made, without \
                 the Graphs and the history",
            ),
            OpenError::Program(_) => Self::internal(error.to_string()),
        }
    }
}

impl From<&NoRelay> for CliError {
    fn from(error: &NoRelay) -> Self {
        Self::new(CONFIG, error.to_string()).hint(error.hint())
    }
}

impl From<std::io::Error> for CliError {
    fn from(error: std::io::Error) -> Self {
        Self::internal(error.to_string())
    }
}
