//! Wall-clock time, behind a trait so that tests and experiments can run both halves in virtual time.

use jiff::Timestamp;

/// The time of day. Timers are not here: those are tokio's, which a test can pause.
pub trait Clock: Send + Sync + 'static {
    /// The current wall-clock time.
    fn now(&self) -> Timestamp;

    /// Milliseconds since the Unix epoch, the form in which both databases keep time.
    fn now_ms(&self) -> i64 {
        self.now().as_millisecond()
    }
}

/// The operating system's clock.
#[derive(Debug, Clone, Copy, Default)]
pub struct SystemClock;

impl Clock for SystemClock {
    fn now(&self) -> Timestamp {
        Timestamp::now()
    }
}
