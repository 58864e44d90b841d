//! The relay: it comes and fetches (SPEC 1).
//!
//! One task decides ([`dispatcher`]); it wakes on the poll interval, on what the owner changes, at the end of a run,
//! when the laptop wakes up, and when the hub's wake channel speaks. Cycles and the one worker run beside it, so
//! that neither a slow hub nor a long Graph holds up the other. All state that matters is in the store: whatever
//! moment the process dies at, the next one goes on from there.

mod command_run;
mod cycle;
pub mod dispatcher;
mod http;
mod hub;
pub mod progress;
#[cfg(test)]
mod tests;
pub mod transport;
mod wake;

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use futures::FutureExt;
use futures::future::{BoxFuture, OptionFuture};
use protocol::DeviceId;
use serde::{Deserialize, Serialize};
use tokio::sync::Notify;
use tokio::time::{Instant, MissedTickBehavior, interval};
use tokio_util::sync::CancellationToken;

use self::command_run::Taken;
use self::dispatcher::{Action, Dispatcher, Event};
pub use self::http::{HttpError, HttpTransport, base_url};
pub use self::hub::{HubClient, HubError, Start};
use self::wake::SleepWatch;
use crate::runner::Runner;
use crate::store::{StoreError, commands, executions};

/// The longest pause that a hub can ask for: one wrong number must not take the desktop off line for a day.
const LONGEST_PAUSE: Duration = Duration::from_secs(15 * 60);

/// How the relay is set up.
#[derive(Debug, Clone)]
pub struct Settings {
    /// This desktop.
    pub device: DeviceSettings,
    /// Between two polls.
    pub poll_interval: Duration,
    /// Between two looks at whether a run was cancelled.
    pub check_interval: Duration,
    /// Whether to hold a request open at the hub.
    pub wake_channel: bool,
}

/// How this desktop names itself.
#[derive(Debug, Clone)]
pub struct DeviceSettings {
    /// Made once, kept in the store.
    pub id: DeviceId,
    /// The owner's name for it.
    pub name: String,
}

/// How the relay stands with its hub, for `status`.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Health {
    /// When a sync was last answered.
    pub last_sync_ms: Option<i64>,
    /// What went wrong in the last cycle.
    pub problem: Option<String>,
    /// The hub's clock less ours, in milliseconds.
    pub clock_skew_ms: i64,
}

/// The relay. Shared by its loop and by the control socket.
pub struct Relay {
    /// Runs Graphs and keeps their history.
    pub runner: Runner,
    /// The hub.
    pub hub: HubClient,
    /// How it is set up.
    pub settings: Settings,
    nudge: Notify,
    sharing_changed: Notify,
    check_now: Notify,
    /// New commands came, or a cancel: what the wake channel told of has been taken.
    fetched: Notify,
    busy: AtomicBool,
    health: Mutex<Health>,
    /// Until when the hub wants no sync, and how it said so.
    left_alone: Mutex<Option<(Instant, HubError)>>,
}

impl Relay {
    /// A relay that does nothing until [`Relay::run`].
    pub fn new(runner: Runner, hub: HubClient, settings: Settings) -> Arc<Self> {
        Arc::new(Self {
            runner,
            hub,
            settings,
            nudge: Notify::new(),
            sharing_changed: Notify::new(),
            busy: AtomicBool::new(false),
            check_now: Notify::new(),
            fetched: Notify::new(),
            health: Mutex::default(),
            left_alone: Mutex::default(),
        })
    }

    /// Starts a cycle at once: the owner changed something that the hub should know.
    pub fn sharing_changed(&self) {
        self.sharing_changed.notify_one();
        self.nudge();
    }

    fn nudge(&self) {
        self.nudge.notify_one();
    }

    /// Whether a command is running.
    pub fn is_busy(&self) -> bool {
        self.busy.load(Ordering::Relaxed)
    }

    /// How it stands with the hub.
    pub fn health(&self) -> Health {
        let mut health = lock(&self.health).clone();
        health.clock_skew_ms = self.hub.skew_ms();
        health
    }

    /// Works until `stop` is cancelled, then ends the run that is on and writes down that it was cut off.
    ///
    /// # Errors
    /// [`StoreError`], only from the first look into the database; later ones are told in the log and tried again.
    pub async fn run(self: Arc<Self>, stop: CancellationToken) -> Result<(), StoreError> {
        self.settle_cut_off().await?;
        let wake_channel =
            if self.settings.wake_channel { self.listen().boxed() } else { std::future::pending().boxed() };
        tokio::select! {
            () = self.decide() => {}
            () = wake_channel => {}
            () = stop.cancelled() => {}
        }
        // The futures of the worker and of the cycle are gone by now, and with them the worker's process.
        self.settle_cut_off().await
    }

    /// Ends the commands that were running. A run that the owner has started is none of the relay's.
    async fn settle_cut_off(&self) -> Result<(), StoreError> {
        let now_ms = self.runner.clock.now_ms();
        let commands = self.runner.store.write(move |tx| commands::settle_cut_off(tx, now_ms)).await?;
        tell_cut_off(commands);
        Ok(())
    }

    /// The loop. Never returns.
    async fn decide(&self) {
        let mut ticks = interval(self.settings.poll_interval);
        ticks.set_missed_tick_behavior(MissedTickBehavior::Skip);
        let mut sleep_watch = SleepWatch::new(Arc::clone(&self.runner.clock));
        let mut dispatcher = Dispatcher::default();
        let mut cycle: OptionFuture<BoxFuture<'_, Event>> = None.into();
        let mut worker: OptionFuture<BoxFuture<'_, Event>> = None.into();
        loop {
            let event = tokio::select! {
                _ = ticks.tick() => Event::Tick,
                () = self.nudge.notified() => Event::Nudge,
                () = sleep_watch.woke_up() => Event::Nudge,
                Some(ended) = &mut cycle => {
                    cycle = None.into();
                    ended
                }
                Some(ended) = &mut worker => {
                    worker = None.into();
                    self.busy.store(false, Ordering::Relaxed);
                    ended
                }
            };
            for action in dispatcher.on(event) {
                match action {
                    Action::Run => {
                        self.busy.store(true, Ordering::Relaxed);
                        worker = Some(self.work().boxed()).into();
                    }
                    Action::Cycle { accept } => cycle = Some(self.one_cycle(accept).boxed()).into(),
                }
            }
        }
    }

    async fn one_cycle(&self, accept: bool) -> Event {
        let (waiting, problem, synced) = match self.cycle(accept).await {
            Ok(report) => (report.waiting, report.problem.map(|error| error.to_string()), report.synced),
            Err(error) => (self.waiting().await, Some(error.to_string()), false),
        };
        let mut health = lock(&self.health);
        if problem != health.problem {
            match &problem {
                Some(problem) => tracing::warn!(problem, "the hub cannot be served now"),
                None => tracing::info!("the hub answers again"),
            }
        }
        health.problem = problem;
        if synced {
            health.last_sync_ms = Some(self.runner.clock.now_ms());
        }
        Event::CycleEnded { waiting }
    }

    async fn work(&self) -> Event {
        let hold = match self.run_next().await {
            Ok(Taken::Done) => false,
            Ok(Taken::Held | Taken::Nothing) => true,
            Err(error) => {
                tracing::error!(%error, "a command cannot be started; it waits");
                true
            }
        };
        Event::RunEnded { waiting: self.waiting().await, hold }
    }

    /// What a hub that was left has sent waits for its return: it is not for this worker.
    async fn count_waiting(&self) -> Result<u32, StoreError> {
        let hub = self.hub.base_url().to_owned();
        self.runner.store.read(move |connection| commands::waiting_from(connection, &hub)).await
    }

    /// A count that cannot be read is taken for none: the next cycle counts again.
    async fn waiting(&self) -> u32 {
        self.count_waiting().await.unwrap_or_else(|error| {
            tracing::error!(%error, "waiting commands cannot be counted");
            0
        })
    }
}

/// Ends what was running when an earlier process stopped. To be called by the process that holds the database's lock
/// and runs nothing yet: no worker outlives the process that spawned it.
///
/// # Errors
/// [`StoreError`].
pub async fn settle_cut_off(runner: &Runner) -> Result<(), StoreError> {
    let now_ms = runner.clock.now_ms();
    let runs = runner
        .store
        .write(move |tx| Ok(commands::settle_cut_off(tx, now_ms)? + executions::settle_cut_off(tx, now_ms)?.len()))
        .await?;
    tell_cut_off(runs);
    Ok(())
}

fn tell_cut_off(runs: usize) {
    if runs > 0 {
        tracing::warn!(runs, "runs were cut off by a stop; they are settled as failed");
    }
}

/// Nothing that can panic happens under these locks.
fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
