//! A desktop to tell stories about: one project that is on, one Graph shared with it, a hub, an engine, a clock.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use fleet::Meta;
use jiff::Timestamp;
use protocol::{Clock, CommandId, ExecutionId, GraphSessionId, Project, ProjectId};
use rusqlite::Transaction;
use serde_json::{Value, json};
use tokio::task::JoinHandle;
use tokio::time::{Instant, sleep, sleep_until};
use tokio_util::sync::CancellationToken;

pub(super) use super::fake_engine::{FakeEngine, Plan, ended_by};
pub(super) use super::fake_hub::{Answer, Call, FakeHub, HUB};
use crate::command::State;
use crate::relay::{DeviceSettings, HubClient, Relay, Settings};
use crate::runner::Runner;
use crate::store::graphs::{self, Graph, NewGraph};
use crate::store::{Store, StoreError, commands, executions, sharing};

/// The project that is on.
pub(super) const PROJECT: &str = "project-1";
/// The Graph that is shared with it.
pub(super) const GRAPH: &str = "digest";

/// A wall clock that goes with tokio's, plus what the test says was slept.
pub(super) struct VirtualClock {
    began: Instant,
    slept: Mutex<Duration>,
}

impl VirtualClock {
    /// Time since the test began, as timers count it.
    pub(super) fn elapsed(&self) -> Duration {
        self.began.elapsed()
    }

    /// The lid was closed: the wall clock went on, the timers did not.
    pub(super) fn sleep(&self, time: Duration) {
        *self.slept.lock().unwrap() += time;
    }
}

impl Clock for VirtualClock {
    fn now(&self) -> Timestamp {
        let began = Timestamp::from_second(1_785_000_000).unwrap();
        began + self.elapsed() + *self.slept.lock().unwrap()
    }
}

pub(super) struct Desktop {
    pub(super) store: Store,
    pub(super) hub: Arc<FakeHub>,
    pub(super) engine: Arc<FakeEngine>,
    pub(super) clock: Arc<VirtualClock>,
    pub(super) graph: Graph,
    wake_channel: bool,
    on: Option<On>,
}

struct On {
    relay: Arc<Relay>,
    stop: CancellationToken,
    task: JoinHandle<Result<(), StoreError>>,
}

impl Drop for On {
    fn drop(&mut self) {
        self.task.abort();
    }
}

impl Desktop {
    /// Switched off, with [`GRAPH`] shared with [`PROJECT`].
    pub(super) async fn new() -> Self {
        Self::with_outbox(outbox::Policy::default()).await
    }

    pub(super) async fn with_outbox(policy: outbox::Policy) -> Self {
        let clock = Arc::new(VirtualClock { began: Instant::now(), slept: Mutex::default() });
        let store = Store::in_memory(policy).unwrap();
        let graph = store
            .write(|tx| {
                let project = Project { id: project(PROJECT), name: "Ledger".to_owned() };
                sharing::remember_projects(tx, HUB, &[project])?;
                sharing::switch(tx, HUB, &self::project(PROJECT), true)?;
                let graph = save(tx, GRAPH, "return 1")?;
                sharing::share(tx, HUB, &self::project(PROJECT), &graph.session_id, 0)?;
                Ok(graph)
            })
            .await
            .unwrap();
        Self {
            store,
            hub: FakeHub::new(Arc::clone(&clock)),
            engine: FakeEngine::new(Arc::clone(&clock)),
            clock,
            graph,
            wake_channel: false,
            on: None,
        }
    }

    pub(super) fn with_wake_channel(mut self) -> Self {
        self.wake_channel = true;
        self
    }

    // The daemon.

    /// A relay on this desktop's store, that nothing has started yet.
    pub(super) fn relay(&self) -> Arc<Relay> {
        let runner = Runner {
            engine: self.engine.clone(),
            store: self.store.clone(),
            clock: self.clock.clone(),
            folders: Vec::new(),
        };
        let client = HubClient::new(self.hub.clone(), self.clock.clone(), Duration::from_secs(30));
        let settings = Settings {
            device: DeviceSettings { id: "desktop-1".parse().unwrap(), name: "Ada's laptop".to_owned() },
            poll_interval: Duration::from_secs(20),
            check_interval: Duration::from_secs(3),
            wake_channel: self.wake_channel,
        };
        Relay::new(runner, client, settings)
    }

    pub(super) fn start(&mut self) -> Arc<Relay> {
        let (relay, stop) = (self.relay(), CancellationToken::new());
        let task = tokio::spawn(Arc::clone(&relay).run(stop.clone()));
        self.on = Some(On { relay: Arc::clone(&relay), stop, task });
        relay
    }

    /// Asks the daemon to end, and waits for that.
    pub(super) async fn stop(&mut self) {
        let mut on = self.on.take().unwrap();
        on.stop.cancel();
        (&mut on.task).await.unwrap().unwrap();
    }

    /// Ends the daemon without a word, as `kill -9` does.
    pub(super) async fn kill(&mut self) {
        drop(self.on.take());
        // Virtual time moves on only when the database is done with what was on its way to the disk.
        sleep(Duration::from_millis(1)).await;
    }

    /// Whether the daemon is still there: a panic anywhere in it would have ended it.
    pub(super) fn is_alive(&self) -> bool {
        self.on.as_ref().is_some_and(|on| !on.task.is_finished())
    }

    // Time.

    /// Lets everything happen up to this second since the start of the test.
    pub(super) async fn until(&self, seconds: u64) {
        self.until_ms(seconds * 1_000).await;
    }

    pub(super) async fn until_ms(&self, ms: u64) {
        sleep_until(self.clock.began + Duration::from_millis(ms)).await;
    }

    /// Lets everything happen for so many seconds.
    pub(super) async fn wait(&self, seconds: u64) {
        sleep(Duration::from_secs(seconds)).await;
    }

    // The assistant.

    /// Queues a run of [`GRAPH`] at the hub.
    pub(super) fn ask(&self) -> CommandId {
        let id = CommandId::new();
        self.hub.queue(PROJECT, self.entry(id));
        id
    }

    /// A well-formed command for [`GRAPH`].
    pub(super) fn entry(&self, id: CommandId) -> Value {
        json!({
            "command_id": id, "graph_session_id": self.graph.session_id, "slug": GRAPH,
            "arguments": {"for": id}, "queued_at": self.clock.now(),
        })
    }

    // The owner.

    /// Changes the database, as the control socket does, and tells the relay.
    pub(super) async fn change<T: Send + 'static>(
        &self,
        change: impl FnOnce(&Transaction<'_>) -> Result<T, StoreError> + Send + 'static,
    ) -> T {
        let done = self.store.write(change).await.unwrap();
        if let Some(on) = &self.on {
            on.relay.sharing_changed();
        }
        done
    }

    pub(super) fn session(&self) -> GraphSessionId {
        self.graph.session_id.clone()
    }

    pub(super) async fn state(&self, id: CommandId) -> Option<State> {
        self.store.read(move |connection| commands::get(connection, id)).await.unwrap().map(|command| command.state)
    }

    pub(super) async fn execution(&self, id: CommandId) -> executions::Execution {
        self.store
            .read(move |connection| {
                let execution: ExecutionId = commands::get(connection, id)?.unwrap().execution.unwrap();
                Ok(executions::get(connection, execution)?.unwrap())
            })
            .await
            .unwrap()
    }

    pub(super) async fn history(&self) -> Vec<executions::Execution> {
        self.store.read(|connection| executions::latest(connection, 1_000)).await.unwrap()
    }

    pub(super) async fn outbox(&self) -> outbox::Stats {
        self.store.read(|connection| Ok(outbox::stats(connection)?)).await.unwrap()
    }
}

pub(super) fn project(id: &str) -> ProjectId {
    id.parse().unwrap()
}

/// Saves a Graph under a new slug.
pub(super) fn save(tx: &Transaction<'_>, slug: &str, source: &str) -> Result<Graph, StoreError> {
    let (file, source) = (format!("{slug}.js"), source.to_owned());
    Ok(graphs::add(tx, slug, &NewGraph { file, source, meta: Meta::default() }, 0)?.unwrap())
}
