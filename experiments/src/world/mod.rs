//! One virtual world: a hub, a desktop that polls it, an assistant that is connected to it.

mod desktop;
mod engine;
mod moment;
mod wire;

use std::sync::Arc;
use std::time::Duration;

use hub::{Action, Hub, NewConnection, NewDevice, Scope};
use jiff::Timestamp;
use protocol::Clock;
use tokio::task::JoinHandle;
use tokio::time::{Instant, MissedTickBehavior};

pub(crate) use self::desktop::Desktop;
pub(crate) use self::engine::{Asked, Text};
pub(crate) use self::moment::{Kind, VirtualClock};
pub(crate) use self::wire::Loss;
use crate::assistant::Assistant;
use crate::failure::Failure;

/// The owner of the desktop, on whose behalf the assistant acts.
const OWNER: &str = "ada";

/// The reference's poll.
pub(crate) const POLL: Duration = Duration::from_secs(20);
/// As often as a serving hub settles what is overdue.
const SETTLE: Duration = Duration::from_secs(5);

/// In what a world may differ from the published one.
#[derive(Debug, Clone)]
pub(crate) struct Setup {
    /// Whether the desktop holds a request open at the hub.
    pub(crate) wake_channel: bool,
    /// How long the hub keeps a running command that its desktop no longer speaks of.
    pub(crate) lease: Duration,
}

impl Default for Setup {
    fn default() -> Self {
        Self { wake_channel: false, lease: hub::Settings::default().lease }
    }
}

/// The parts, each as real as virtual time allows.
pub(crate) struct World {
    pub(crate) assistant: Assistant,
    pub(crate) desktop: Desktop,
    clock: Arc<VirtualClock>,
    settling: JoinHandle<()>,
}

impl World {
    /// A world at time zero, with one Graph shared and the desktop polling: its first poll is at zero.
    pub(crate) async fn new(setup: Setup) -> Result<Self, Failure> {
        let clock = Arc::new(VirtualClock::default());
        let shared_clock: Arc<dyn Clock> = clock.clone();
        let settings = hub::Settings { lease: setup.lease, poll: POLL, ..hub::Settings::default() };
        let hub = Hub::new(hub::open_store("sqlite::memory:").await?, Arc::clone(&shared_clock), settings);

        let project = hub.admin().add_project("Reports").await?;
        hub.admin().add_member(&project.id, OWNER).await?;
        let device = NewDevice { name: "laptop".to_owned(), owner: OWNER.to_owned() };
        let (_, device_token) = hub.admin().add_device(device).await?;
        let (_, connection_token) = hub.admin().add_connection(connection()).await?;

        let wire = Arc::new(wire::Wire::new(hub.router(), device_token.to_string()));
        let mut desktop = Desktop::new(wire, shared_clock, setup.wake_channel).await?;
        let assistant = Assistant::new(hub.router(), connection_token.to_string(), desktop.session.clone());

        let settling = tokio::spawn(keep_settling(hub, clock.at(SETTLE, Kind::Settlement)));
        desktop.start();
        let world = Self { assistant, desktop, clock, settling };
        // Until the first sync is over, the hub knows of no Graph.
        world.wait(Duration::from_secs(1), Kind::Queue).await;
        Ok(world)
    }

    /// Since the world began.
    pub(crate) fn elapsed(&self) -> Duration {
        self.clock.elapsed()
    }

    /// The time of day.
    pub(crate) fn now(&self) -> Timestamp {
        self.clock.now()
    }

    /// Lets that much time pass, and as much more as it takes to the next millisecond for this kind of event.
    pub(crate) async fn wait(&self, time: Duration, kind: Kind) {
        tokio::time::sleep_until(self.clock.at(self.elapsed() + time, kind)).await;
    }

    /// Lets time pass until then.
    pub(crate) async fn wait_until(&self, elapsed: Duration, kind: Kind) {
        tokio::time::sleep_until(self.clock.at(elapsed, kind)).await;
    }
}

impl Drop for World {
    fn drop(&mut self) {
        self.settling.abort();
    }
}

fn connection() -> NewConnection {
    NewConnection {
        name: "assistant".to_owned(),
        owner: OWNER.to_owned(),
        projects: Vec::new(),
        scopes: vec![Scope::Read, Scope::Run],
        actions: vec![Action::Read, Action::Run],
    }
}

/// What [`hub::serve`] does beside serving.
async fn keep_settling(hub: Hub, first: Instant) {
    let mut ticks = tokio::time::interval_at(first, SETTLE);
    ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
    loop {
        ticks.tick().await;
        if let Err(error) = hub.settle().await {
            eprintln!("the hub could not settle: {error}");
        }
    }
}
