//! Asks the daemon; where none is running, the same desktop in this process.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use tokio_util::sync::CancellationToken;

use super::daemon::interrupt;
use super::error::CliError;
use crate::config::Config;
use crate::control::{Desktop, OpenError, Reply, Request, client};
use crate::paths::Paths;
use crate::store::StoreError;
use crate::store::executions::Recorded;

/// How long a command waits for another one that has the database.
const PATIENCE: Duration = Duration::from_secs(3);

/// Asks, and shows nothing on the way.
pub(super) async fn ask(request: Request) -> Result<Reply, CliError> {
    ask_telling(request, Arc::new(|_| {})).await
}

/// Asks, telling the events that come before the answer. Ctrl-C cancels the run that was asked for; a second one
/// ends this process.
pub(super) async fn ask_telling(
    request: Request,
    tell: Arc<dyn Fn(Recorded) + Send + Sync>,
) -> Result<Reply, CliError> {
    let paths = Paths::from_environment()?;
    let execution = Arc::new(Mutex::new(None));
    let (seen, cancel) = (Arc::clone(&execution), CancellationToken::new());
    let tell = move |recorded: Recorded| {
        if let fleet::Event::FleetStarted { execution_id, .. } = &recorded.event {
            *seen.lock().unwrap_or_else(PoisonError::into_inner) = Some(*execution_id);
        }
        tell(recorded);
    };
    let interrupts = async {
        loop {
            interrupt().await;
            if cancel.is_cancelled() {
                return CliError::new(super::error::CANCELLED, "stopped");
            }
            cancel.cancel();
            let id = *execution.lock().unwrap_or_else(PoisonError::into_inner);
            if let Some(id) = id {
                // In the daemon; in this process the token does it. If it fails, the second Ctrl-C remains.
                let _ = client::ask(&paths, &Request::Cancel { id: id.to_string() }, &|_| {}).await;
            }
        }
    };
    tokio::select! {
        reply = answer(&paths, request, &tell, &cancel) => reply,
        stopped = interrupts => Err(stopped),
    }
}

async fn answer(
    paths: &Paths,
    request: Request,
    tell: &(dyn Fn(Recorded) + Send + Sync),
    cancel: &CancellationToken,
) -> Result<Reply, CliError> {
    if let Some(reply) = client::ask(paths, &request, tell).await? {
        return Ok(reply?);
    }
    paths.create()?;
    let config = Config::load(&paths.config_file())?;
    let holder = std::env::args().nth(1).map_or_else(|| "graph-relay".to_owned(), |word| format!("graph-relay {word}"));
    match Desktop::open(paths, &config, &holder, PATIENCE).await {
        Ok(desktop) => Ok(desktop.handle(request, tell, cancel).await?),
        // The database may belong to a daemon that was just starting and listens by now.
        Err(OpenError::Store(locked @ StoreError::Locked { .. })) => match client::ask(paths, &request, tell).await? {
            Some(reply) => Ok(reply?),
            None => Err(locked.into()),
        },
        Err(error) => Err(error.into()),
    }
}
