//! The owner's laptop: the real relay over a database in memory, with one Graph shared in one project.

use std::sync::Arc;
use std::time::Duration;

use fleet::Meta;
use graph_relay::relay::{DeviceSettings, HubClient, Relay, Settings};
use graph_relay::runner::Runner;
use graph_relay::store::graphs::{self, NewGraph};
use graph_relay::store::{Store, StoreError, sharing};
use protocol::{Clock, GraphSessionId};
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;

use super::POLL;
use super::engine::{Run, TimedEngine};
use super::wire::{Loss, Sent, Wire};
use crate::failure::Failure;

/// The reference's look at whether a run was cancelled.
const CHECK: Duration = Duration::from_secs(3);
/// The relay's own default.
const REQUEST_TIMEOUT: Duration = Duration::from_secs(30);

/// The engine runs no script; this is what the history will show.
const SCRIPT: &str = "return await sleep(args.run_ms)";

/// A laptop; off until [`Desktop::start`].
pub(crate) struct Desktop {
    /// The Graph that is shared.
    pub(crate) session: GraphSessionId,
    relay: Arc<Relay>,
    engine: TimedEngine,
    wire: Arc<Wire>,
    on: Option<(CancellationToken, JoinHandle<Result<(), StoreError>>)>,
}

impl Desktop {
    pub(super) async fn new(wire: Arc<Wire>, clock: Arc<dyn Clock>, wake_channel: bool) -> Result<Self, Failure> {
        let store = Store::in_memory(outbox::Policy::default())?;
        let engine = TimedEngine::default();
        let hub = HubClient::new(wire.clone(), clock.clone(), REQUEST_TIMEOUT);
        let device = DeviceSettings { id: store.device_id().await?, name: "laptop".to_owned() };
        let runner = Runner { engine: Arc::new(engine.clone()), store, clock, folders: Vec::new() };
        let settings = Settings { device, poll_interval: POLL, check_interval: CHECK, wake_channel };
        let relay = Relay::new(runner, hub, settings);
        let session = share_a_graph(&relay).await?;
        Ok(Self { session, relay, engine, wire, on: None })
    }

    /// Switches it on: it polls at once, then at every interval.
    pub(crate) fn start(&mut self) {
        let stop = CancellationToken::new();
        let running = tokio::spawn(Arc::clone(&self.relay).run(stop.clone()));
        self.on = Some((stop, running));
    }

    /// Switches it off, as a clean stop of the daemon does.
    pub(crate) async fn stop(&mut self) -> Result<(), Failure> {
        let Some((stop, running)) = self.on.take() else { return Ok(()) };
        stop.cancel();
        running.await.map_err(|error| Failure::broken(format!("the relay panicked: {error}")))??;
        Ok(())
    }

    /// Every run that its engine started.
    pub(crate) fn runs(&self) -> Vec<Run> {
        self.engine.runs()
    }

    /// How many runs began before the one before them had ended.
    pub(crate) fn overlaps(&self) -> usize {
        self.runs().windows(2).filter(|pair| pair[0].ended.is_none_or(|ended| ended > pair[1].started)).count()
    }

    /// The next completion report will be lost.
    pub(crate) fn lose_next_report(&self, loss: Loss) {
        self.wire.lose_next_report(loss);
    }

    /// Every completion report that it sent.
    pub(crate) fn reports(&self) -> Vec<Sent> {
        self.wire.reports()
    }
}

impl Drop for Desktop {
    fn drop(&mut self) {
        if let Some((_, running)) = &self.on {
            running.abort();
        }
    }
}

/// What an owner does on the command line: switch the project on, save a Graph, tick it for the project.
async fn share_a_graph(relay: &Relay) -> Result<GraphSessionId, Failure> {
    let projects = relay.hub.projects().await?.projects;
    let project = projects.first().map(|project| project.id.clone());
    let project = project.ok_or_else(|| Failure::broken("the desktop's owner is a member of no project"))?;
    let (hub, now_ms) = (relay.hub.base_url().to_owned(), relay.runner.clock.now_ms());
    let graph = NewGraph { file: "timed.js".to_owned(), source: SCRIPT.to_owned(), meta: Meta::default() };
    let saved = relay
        .runner
        .store
        .write(move |tx| {
            sharing::remember_projects(tx, &hub, &projects)?;
            sharing::switch(tx, &hub, &project, true)?;
            let saved = graphs::add(tx, "timed", &graph, now_ms)?;
            if let Some(saved) = &saved {
                sharing::share(tx, &hub, &project, &saved.session_id, now_ms)?;
            }
            Ok(saved)
        })
        .await?;
    Ok(saved.ok_or_else(|| Failure::broken("an empty database already has the Graph"))?.session_id)
}
