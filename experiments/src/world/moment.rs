//! Virtual time, and which of its milliseconds belongs to whom.
//!
//! Timers have a grain of one millisecond, and what falls into the same one happens in either order. So that an
//! experiment repeats to the byte, each kind of event keeps to its own millisecond of every hundredth of a second.
//! Polls and checks, which follow the desktop's start by whole seconds, keep to that of [`Kind::Desktop`].

use std::time::Duration;

use jiff::Timestamp;
use protocol::Clock;
use tokio::time::Instant;

/// Milliseconds from one event of a kind to the next possible one.
const GRAIN_MS: u64 = 10;

/// 2026-01-01T00:00:00Z, where every world begins.
const BEGINNING_MS: i64 = 1_767_225_600_000;

/// What happens.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Kind {
    /// The desktop is switched on or off.
    Desktop,
    /// The hub looks for what is overdue.
    Settlement,
    /// The assistant asks for a run.
    Queue,
    /// The assistant calls a run off.
    Cancel,
}

impl Kind {
    /// Its millisecond within the grain. A run that takes [`run_length`] ends on none of them: it starts on that of
    /// a poll, of a queueing or of another run's end.
    fn offset_ms(self) -> u64 {
        match self {
            Self::Desktop => 0,
            Self::Settlement => 1,
            Self::Queue => 3,
            Self::Cancel => 7,
        }
    }
}

/// The length of a run in milliseconds, so that it ends in a millisecond of its own.
pub(crate) fn run_length(drawn: Duration) -> u64 {
    whole_grains(drawn) + GRAIN_MS / 2
}

fn whole_grains(time: Duration) -> u64 {
    let ms = u64::try_from(time.as_millis()).unwrap_or(u64::MAX);
    ms - ms % GRAIN_MS
}

/// The clock of a world: it goes with tokio's.
#[derive(Debug)]
pub(crate) struct VirtualClock(Instant);

impl Default for VirtualClock {
    fn default() -> Self {
        Self(Instant::now())
    }
}

impl VirtualClock {
    pub(crate) fn elapsed(&self) -> Duration {
        self.0.elapsed()
    }

    /// The first instant at or after `elapsed` that belongs to the kind.
    pub(crate) fn at(&self, elapsed: Duration, kind: Kind) -> Instant {
        let grains = Duration::from_millis(whole_grains(elapsed));
        let offset = Duration::from_millis(kind.offset_ms());
        let grain = Duration::from_millis(GRAIN_MS);
        self.0 + if grains + offset >= elapsed { grains + offset } else { grains + offset + grain }
    }
}

impl Clock for VirtualClock {
    fn now(&self) -> Timestamp {
        let elapsed = i64::try_from(self.elapsed().as_millis()).unwrap_or(i64::MAX);
        // Past the year 9999 it stands still.
        Timestamp::from_millisecond(BEGINNING_MS.saturating_add(elapsed)).unwrap_or(Timestamp::MAX)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn each_kind_waits_for_its_own_millisecond() {
        let clock = VirtualClock::default();
        let at = |ms, kind| (clock.at(Duration::from_millis(ms), kind) - clock.0).as_millis();
        assert_eq!([0, 3, 4, 20_000].map(|ms| at(ms, Kind::Queue)), [3, 3, 13, 20_003]);
        assert_eq!([0, 1, 20_000].map(|ms| at(ms, Kind::Desktop)), [0, 10, 20_000]);
        assert_eq!([0, 4_999, 5_000].map(|ms| run_length(Duration::from_millis(ms))), [5, 4_995, 5_005]);
    }

    #[tokio::test(start_paused = true)]
    async fn the_time_of_day_goes_with_the_timers() {
        let clock = VirtualClock::default();
        tokio::time::sleep(Duration::from_secs(90)).await;
        assert_eq!(clock.now().to_string(), "2026-01-01T00:01:30Z");
    }
}
