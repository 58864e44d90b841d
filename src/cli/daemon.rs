//! `graph-relay run`.

use std::process::ExitCode;
use std::sync::Arc;
use std::time::Duration;

use tokio_util::sync::CancellationToken;

use super::error::CliError;
use super::logs;
use crate::config::Config;
use crate::control::{Desktop, NoRelay, Server};
use crate::paths::Paths;

/// A command that is about to end may still hold the database.
const PATIENCE: Duration = Duration::from_secs(2);

pub(super) async fn run() -> Result<ExitCode, CliError> {
    let paths = Paths::from_environment()?;
    paths.create()?;
    let config = Config::load(&paths.config_file())?;
    logs::to_files(&paths, &config.log)?;
    let desktop = Arc::new(Desktop::open(&paths, &config, "graph-relay run", PATIENCE).await?.as_daemon());
    // Without a hub it serves the owner; with one that it cannot reach for want of a token it would only seem to work.
    match desktop.relay() {
        Ok(_) | Err(NoRelay::NoHub) => {}
        Err(error) => return Err(error.into()),
    }
    let server = Server::bind(&paths)
        .map_err(|error| CliError::internal(format!("cannot listen on {}: {error}", paths.socket().display())))?;
    let stop = CancellationToken::new();
    tell_start(&paths, &config);

    let relay = async {
        match desktop.relay() {
            Ok(relay) => Arc::clone(relay).run(stop.clone()).await,
            Err(_) => {
                stop.cancelled().await;
                Ok(())
            }
        }
    };
    let stopping = async {
        stop_asked().await;
        tracing::info!("stopping");
        stop.cancel();
    };
    tokio::select! {
        (ended, ()) = async { tokio::join!(relay, stopping) } => ended?,
        never = server.serve(Arc::clone(&desktop)) => match never {},
    }
    Ok(ExitCode::SUCCESS)
}

fn tell_start(paths: &Paths, config: &Config) {
    let (version, home) = (env!("CARGO_PKG_VERSION"), paths.state_dir.display());
    if config.hub.url.is_empty() {
        let file = paths.config_file();
        tracing::warn!(version, %home, config = %file.display(), "started without a hub: set url under [hub] to serve one");
    } else {
        let poll_s = config.hub.poll_interval.as_secs();
        tracing::info!(version, %home, hub = config.hub.url, poll_s, wake_channel = config.hub.wake_channel, "started");
    }
}

/// Returns when the system or the owner asks the process to stop.
#[cfg(unix)]
pub(super) async fn stop_asked() {
    use tokio::signal::unix::{SignalKind, signal};
    let Ok(mut terminate) = signal(SignalKind::terminate()) else { return interrupt().await };
    tokio::select! {
        _ = terminate.recv() => {}
        () = interrupt() => {}
    }
}

/// Returns when the system or the owner asks the process to stop.
#[cfg(not(unix))]
pub(super) async fn stop_asked() {
    interrupt().await;
}

/// Returns at Ctrl-C. Without a signal handler there is none to wait for: the system's own then ends the process.
pub(super) async fn interrupt() {
    if tokio::signal::ctrl_c().await.is_err() {
        std::future::pending::<()>().await;
    }
}
