//! What may wake the relay before its interval is over.

use std::sync::Arc;
use std::time::Duration;

use jiff::Timestamp;
use protocol::Clock;
use tokio::time::{Instant, sleep};

use super::{HubError, LONGEST_PAUSE, Relay};
use crate::store::sharing;

/// How often the two clocks are compared.
const LOOK: Duration = Duration::from_secs(10);

/// The wall clock running ahead by more than this means that the laptop slept (or that its clock was set, after
/// which a cycle does no harm).
const SLEPT: Duration = Duration::from_secs(5);

/// After a failed wait the wake channel is left alone for this long.
const WAIT_RETRY: Duration = Duration::from_secs(20);

/// The pause after an answer. What woke us may still be there until the cycle or the check has taken it.
const TAKE: Duration = Duration::from_millis(10);

/// A hub that answers sooner than this without bringing anything is asked again after twice the pause.
const SOON: Duration = Duration::from_secs(5);

/// Notices that the laptop slept. Timers stand still meanwhile, the wall clock does not.
pub(super) struct SleepWatch {
    clock: Arc<dyn Clock>,
    seen: (Instant, Timestamp),
}

impl SleepWatch {
    pub(super) fn new(clock: Arc<dyn Clock>) -> Self {
        let seen = (Instant::now(), clock.now());
        Self { clock, seen }
    }

    /// Returns after the laptop woke up. Cancel-safe.
    pub(super) async fn woke_up(&mut self) {
        loop {
            sleep(LOOK).await;
            let now = (Instant::now(), self.clock.now());
            let timers = now.0.duration_since(self.seen.0);
            let wall = Duration::try_from(now.1.duration_since(self.seen.1)).unwrap_or_default();
            self.seen = now;
            if wall > timers + SLEPT {
                tracing::info!(slept_s = (wall - timers).as_secs(), "the laptop woke up");
                return;
            }
        }
    }
}

impl Relay {
    /// The wake channel: one request held open at the hub while a project is on. Never returns.
    pub(super) async fn listen(&self) {
        let mut pause = TAKE;
        loop {
            let asked = Instant::now();
            let answer = tokio::select! {
                answer = self.wait_once() => answer,
                // What is worth waking for has changed: ask anew.
                () = self.sharing_changed.notified() => continue,
            };
            match answer {
                Ok(wake) => {
                    if wake {
                        self.nudge();
                        self.check_now.notify_one();
                    }
                    if asked.elapsed() >= SOON {
                        pause = TAKE;
                    }
                    // There may be nothing to take, or no way to take it now (a failing sync, a full outbox): a hub
                    // that answers at once all the same is not asked in a loop.
                    tokio::select! {
                        () = sleep(pause) => pause = (pause * 2).min(WAIT_RETRY),
                        () = self.fetched.notified() => pause = TAKE,
                    }
                }
                Err(error) => {
                    tracing::debug!(%error, "the wake channel is closed; polls go on");
                    let wanted = error.retry_after().unwrap_or_default().min(LONGEST_PAUSE);
                    sleep(WAIT_RETRY.max(wanted)).await;
                }
            }
        }
    }

    async fn wait_once(&self) -> Result<bool, HubError> {
        let hub = self.hub.base_url().to_owned();
        let projects = match self.runner.store.read(move |connection| sharing::projects_on(connection, &hub)).await {
            Ok(projects) => projects,
            Err(error) => {
                tracing::error!(%error, "what is shared cannot be read; the wake channel waits");
                sleep(WAIT_RETRY).await;
                return Ok(false);
            }
        };
        if projects.is_empty() {
            return std::future::pending().await;
        }
        self.hub.wait(projects).await
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Mutex;

    use super::*;

    /// The wall clock goes with tokio's, plus what the test says was slept.
    struct Laptop {
        start: (Instant, Timestamp),
        slept: Mutex<Duration>,
    }

    impl Clock for Laptop {
        fn now(&self) -> Timestamp {
            self.start.1 + self.start.0.elapsed() + *self.slept.lock().unwrap()
        }
    }

    #[tokio::test(start_paused = true)]
    async fn a_laptop_that_slept_is_noticed_and_one_that_did_not_is_left_alone() {
        let laptop = Arc::new(Laptop { start: (Instant::now(), Timestamp::UNIX_EPOCH), slept: Mutex::default() });
        let mut watch = SleepWatch::new(laptop.clone());
        let hour = Duration::from_secs(3600);
        assert!(tokio::time::timeout(hour, watch.woke_up()).await.is_err(), "nothing happened, but it woke");

        *laptop.slept.lock().unwrap() = hour;
        tokio::time::timeout(LOOK * 2, watch.woke_up()).await.unwrap();
        assert!(tokio::time::timeout(hour, watch.woke_up()).await.is_err(), "one sleep woke twice");
    }
}
