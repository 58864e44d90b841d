//! Where a long-running process tells what it does: files for the daemon, and standard error.

use std::io::{self, IsTerminal};

use tracing_appender::rolling::{RollingFileAppender, Rotation};
use tracing_subscriber::layer::SubscriberExt;
use tracing_subscriber::util::SubscriberInitExt;
use tracing_subscriber::{EnvFilter, fmt};

use super::error::{CONFIG, CliError};
use crate::config::LogConfig;
use crate::paths::Paths;

/// Logs to a file a day in the log folder, and to standard error.
pub(super) fn to_files(paths: &Paths, config: &LogConfig) -> Result<(), CliError> {
    let files = RollingFileAppender::builder()
        .rotation(Rotation::DAILY)
        .filename_prefix("relay")
        .filename_suffix("log")
        .max_log_files(usize::try_from(config.keep_days.max(1)).unwrap_or(usize::MAX))
        .build(&paths.log_dir)
        .map_err(|error| CliError::new(CONFIG, format!("cannot write logs in {}: {error}", paths.log_dir.display())))?;
    tracing_subscriber::registry()
        .with(filter(&config.level)?)
        .with(fmt::layer().with_ansi(false).with_writer(files))
        .with(fmt::layer().with_ansi(io::stderr().is_terminal()).with_writer(io::stderr))
        .init();
    Ok(())
}

/// Logs to standard error.
pub(super) fn to_stderr(level: &str) -> Result<(), CliError> {
    let layer = fmt::layer().with_ansi(io::stderr().is_terminal()).with_writer(io::stderr);
    tracing_subscriber::registry().with(filter(level)?).with(layer).init();
    Ok(())
}

fn filter(level: &str) -> Result<EnvFilter, CliError> {
    EnvFilter::try_new(level)
        .map_err(|error| CliError::new(CONFIG, format!("log.level `{level}` is no level and no filter: {error}")))
}
