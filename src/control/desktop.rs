//! The desktop: everything that the owner can ask, in the daemon or in the command line's own process.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use fleet::{Fleet, WorkerCommand};
use protocol::{Clock, ExecutionId, SystemClock};
use tokio_util::sync::CancellationToken;

use super::message::{Failure, Reply, Request};
use super::views::{OutboxItem, RunView, StatusView};
use crate::config::Config;
use crate::paths::Paths;
use crate::relay::{
    DeviceSettings, Health, HttpError, HttpTransport, HubClient, Relay, Settings, base_url, settle_cut_off,
};
use crate::runner::Runner;
use crate::store::executions::{self, Recorded};
use crate::store::{Store, StoreError, commands, graphs, sharing};

/// Names the hidden subcommand in which a worker runs.
pub const WORKER_SUBCOMMAND: &str = "graph-worker";

/// How long a script's `finally` blocks may take after a cancel.
const CANCEL_GRACE: Duration = Duration::from_secs(5);

/// The open desktop.
pub struct Desktop {
    pub(super) runner: Runner,
    pub(super) fleet: Fleet,
    /// The configured hub's base URL.
    pub(super) hub: Option<String>,
    relay: Result<Arc<Relay>, NoRelay>,
    models: Vec<String>,
    config_file: PathBuf,
    is_daemon: bool,
}

/// Why the desktop cannot be opened.
#[derive(Debug, thiserror::Error)]
pub enum OpenError {
    /// The database is locked or too new, or something failed that says where.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// The file cannot be used as a database.
    #[error("cannot open {}: {source}", .path.display())]
    Database {
        /// Which file.
        path: PathBuf,
        /// What is wrong with it.
        source: StoreError,
    },
    /// The program cannot find itself.
    #[error("this program's own path cannot be found: {0}")]
    Program(io::Error),
}

/// Why no hub is served. What the owner does on this laptop alone works all the same.
#[derive(Debug, thiserror::Error)]
pub enum NoRelay {
    /// None is configured.
    #[error("no hub is configured")]
    NoHub,
    /// The hub's client cannot be made.
    #[error(transparent)]
    Http(#[from] HttpError),
    /// A hub is configured, and the credential for it is missing.
    #[error("cannot read the device token in {}: {source}", .path.display())]
    Token {
        /// Where it should be.
        path: PathBuf,
        /// What the system said.
        source: io::Error,
    },
    /// The file is there and holds nothing.
    #[error("the device token file {} is empty", .0.display())]
    EmptyToken(PathBuf),
}

impl NoRelay {
    /// What to do about it.
    pub fn hint(&self) -> &'static str {
        match self {
            Self::NoHub => {
                "set url under [hub] in config.toml, and put the device token into the file device-token beside it"
            }
            Self::Http(_) => "correct url under [hub] in config.toml, or the token file",
            Self::Token { .. } | Self::EmptyToken(_) => {
                "make a token at the hub (graph-relay hub device add NAME --owner YOU) and put it into that file"
            }
        }
    }
}

impl Desktop {
    /// Opens the database under its lock and sets up the engine and, where one is configured, the hub's client.
    /// Blocks while another process holds the lock, at most for `patience`.
    ///
    /// # Errors
    /// [`OpenError`].
    pub async fn open(paths: &Paths, config: &Config, holder: &str, patience: Duration) -> Result<Self, OpenError> {
        let database = paths.database();
        let opened = Store::open(&database, holder, patience, config.outbox_policy());
        let store = opened.map_err(|error| match error {
            StoreError::Sqlite(_) => OpenError::Database { path: database, source: error },
            error => error.into(),
        })?;
        let clock: Arc<dyn Clock> = Arc::new(SystemClock);
        let fleet = Fleet::new(fleet::Settings {
            worker: worker_command().map_err(OpenError::Program)?,
            models: config.models.clone(),
            default_model: config.default_model.clone(),
            ceiling: config.limits.clone(),
            cancel_grace: CANCEL_GRACE,
        });
        let runner = Runner { engine: Arc::new(fleet.clone()), store, clock, folders: config.folders.clone() };
        settle_cut_off(&runner).await?;
        let device = DeviceSettings { id: runner.store.device_id().await?, name: config.device_name().to_owned() };
        let relay = relay(paths, config, &runner, device);
        let hub = base_url(&config.hub.url).ok();
        let models = config.models.keys().cloned().collect();
        Ok(Self { runner, fleet, hub, relay, models, config_file: paths.config_file(), is_daemon: false })
    }

    /// The same desktop, answering as the daemon.
    #[must_use]
    pub fn as_daemon(mut self) -> Self {
        self.is_daemon = true;
        self
    }

    /// The relay, where a hub can be served.
    ///
    /// # Errors
    /// [`NoRelay`].
    pub fn relay(&self) -> Result<&Arc<Relay>, &NoRelay> {
        self.relay.as_ref()
    }

    /// Does what the owner asks. `gone` is cancelled when nobody waits for the answer any more.
    ///
    /// # Errors
    /// [`Failure`], to be shown to the owner.
    pub async fn handle(
        &self,
        request: Request,
        tell: &(dyn Fn(Recorded) + Send + Sync),
        gone: &CancellationToken,
    ) -> Result<Reply, Failure> {
        match request {
            Request::Status => self.status().await.map(Reply::Status),
            Request::GraphSave { slug, file, source, update } => self.save_graph(slug, file, source, update).await,
            Request::GraphRename { slug, new_slug } => self.rename_graph(slug, new_slug).await,
            Request::GraphList => self.list_graphs().await,
            Request::GraphShow { slug, version } => self.show_graph(slug, version).await,
            Request::GraphRun { target, arguments, limits, read } => {
                self.run_graph(target, arguments, limits, read, tell, gone).await
            }
            Request::ProjectList => self.list_projects().await,
            Request::ProjectSwitch { project, on } => self.switch_project(project, on).await,
            Request::Share { graph, project, shared } => self.share(graph, project, shared).await,
            Request::History { limit } => self.history(limit).await,
            Request::HistoryShow { id } => self.show_run(id).await,
            Request::Cancel { id } => self.cancel(id).await,
            Request::OutboxList => self.list_outbox().await,
            Request::OutboxRetry { id } => self.retry_letter(id).await,
            Request::OutboxDrop { id } => self.drop_letter(id).await,
        }
    }

    async fn status(&self) -> Result<StatusView, Failure> {
        let (hub, models, config_file) = (self.hub.clone(), self.models.clone(), self.config_file.clone());
        let health = match &self.relay {
            Ok(relay) => Some(relay.health()).filter(|_| self.is_daemon),
            Err(NoRelay::NoHub) => None,
            Err(error) => Some(Health { problem: Some(error.to_string()), ..Health::default() }),
        };
        let is_daemon = self.is_daemon;
        let view = self.runner.store.read(move |connection| {
            let projects = hub.as_deref().map(|hub| sharing::projects(connection, hub)).transpose()?;
            let outbox = outbox::stats(connection)?;
            Ok(StatusView {
                version: env!("CARGO_PKG_VERSION").to_owned(),
                daemon: is_daemon.then(std::process::id),
                config_file,
                hub,
                health,
                projects_on: projects.iter().flatten().filter(|project| project.is_on).count(),
                graphs: graphs::count(connection)?,
                waiting: commands::waiting(connection)?,
                running: executions::running(connection)?.into_iter().map(RunView::short).collect(),
                outbox_waiting: outbox.waiting,
                outbox_dead: outbox.dead,
                refused: commands::refused(connection)?,
                models,
            })
        });
        Ok(view.await?)
    }

    async fn history(&self, limit: u32) -> Result<Reply, Failure> {
        let runs = self.runner.store.read(move |connection| executions::latest(connection, limit)).await?;
        Ok(Reply::Runs(runs.into_iter().map(RunView::short).collect()))
    }

    async fn show_run(&self, id: String) -> Result<Reply, Failure> {
        let id = self.find_run(id).await?;
        let found = self
            .runner
            .store
            .read(move |connection| Ok((executions::get(connection, id)?, executions::events(connection, id)?)));
        match found.await? {
            (Some(execution), events) => Ok(Reply::Run(Box::new(RunView { execution, events }))),
            (None, _) => Err(Failure::not_found(format!("there is no run {id}"))),
        }
    }

    async fn cancel(&self, id: String) -> Result<Reply, Failure> {
        let id = self.find_run(id).await?;
        if self.runner.engine.cancel(id.as_uuid()) {
            return Ok(Reply::Cancelling(id));
        }
        Err(Failure::invalid(format!("run {id} is over"))
            .hint(format!("see how it ended: graph-relay history show {id}")))
    }

    /// The run that an id, a command's id, or the unique end of either names.
    async fn find_run(&self, id: String) -> Result<ExecutionId, Failure> {
        let asked = id.clone();
        let found = self.runner.store.read(move |connection| executions::find(connection, &asked)).await?;
        match found.as_slice() {
            [one] => Ok(*one),
            [] => Err(Failure::not_found(format!("there is no run `{id}`")).hint(
                "graph-relay history lists the latest runs; give an id, or at least the last four characters of one",
            )),
            several => {
                Err(Failure::invalid(format!("`{id}` is the end of {} runs", several.len()))
                    .hint("give more of its end"))
            }
        }
    }

    async fn list_outbox(&self) -> Result<Reply, Failure> {
        let items = self.runner.store.read(|connection| {
            let mut items = outbox::list(connection)?;
            items.extend(outbox::dead_letters(connection)?);
            Ok(items)
        });
        Ok(Reply::Outbox(items.await?.into_iter().map(OutboxItem::from).collect()))
    }

    async fn retry_letter(&self, id: i64) -> Result<Reply, Failure> {
        let now_ms = self.runner.clock.now_ms();
        let found = self.runner.store.write(move |tx| Ok(outbox::retry_dead(tx, id, now_ms)?)).await?;
        self.tell_relay();
        letter_found(found, id, "will be sent again")
    }

    async fn drop_letter(&self, id: i64) -> Result<Reply, Failure> {
        let found = self.runner.store.write(move |tx| Ok(outbox::drop_dead(tx, id)?)).await?;
        letter_found(found, id, "is deleted; the run itself stays in the history")
    }

    /// Something changed that the hub should hear of before the next poll.
    pub(super) fn tell_relay(&self) {
        if let Ok(relay) = &self.relay {
            relay.sharing_changed();
        }
    }
}

fn letter_found(found: bool, id: i64, done: &str) -> Result<Reply, Failure> {
    if found {
        return Ok(Reply::Done(format!("dead letter {id} {done}")));
    }
    Err(Failure::not_found(format!("there is no dead letter {id}")).hint("graph-relay outbox list shows them"))
}

fn relay(paths: &Paths, config: &Config, runner: &Runner, device: DeviceSettings) -> Result<Arc<Relay>, NoRelay> {
    if config.hub.url.is_empty() {
        return Err(NoRelay::NoHub);
    }
    let transport = HttpTransport::new(&config.hub.url, &read_token(&config.token_file(paths))?)?;
    let hub = HubClient::new(Arc::new(transport), Arc::clone(&runner.clock), config.hub.request_timeout);
    let settings = Settings {
        device,
        poll_interval: config.hub.poll_interval,
        check_interval: config.hub.check_interval,
        wake_channel: config.hub.wake_channel,
    };
    Ok(Relay::new(runner.clone(), hub, settings))
}

/// Reads the token and, where others could read it too, takes that away from them.
fn read_token(path: &Path) -> Result<String, NoRelay> {
    let unreadable = |source| NoRelay::Token { path: path.to_owned(), source };
    let token = fs::read_to_string(path).map_err(unreadable)?;
    #[cfg(unix)]
    {
        use std::os::unix::fs::PermissionsExt;
        let mode = fs::metadata(path).map_err(unreadable)?.permissions().mode();
        if mode & 0o077 != 0 {
            fs::set_permissions(path, fs::Permissions::from_mode(0o600)).map_err(unreadable)?;
            tracing::warn!(path = %path.display(), "the token file could be read by others; now only by its owner");
        }
    }
    match token.trim() {
        "" => Err(NoRelay::EmptyToken(path.to_owned())),
        token => Ok(token.to_owned()),
    }
}

/// How this program is started as a worker.
///
/// # Errors
/// What the system says, when the program cannot find itself.
pub fn worker_command() -> io::Result<WorkerCommand> {
    // On Linux this names the very program that is running, even after an update has replaced its file.
    let program = if cfg!(target_os = "linux") { PathBuf::from("/proc/self/exe") } else { std::env::current_exe()? };
    Ok(WorkerCommand { program, args: vec![WORKER_SUBCOMMAND.into()] })
}
