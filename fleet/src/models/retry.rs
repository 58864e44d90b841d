//! When a request that failed for a passing reason is tried again.

use std::time::Duration;

/// Tries of one request.
const TRIES: u32 = 5;
/// All tries of one request begin within this time.
const WITHIN: Duration = Duration::from_secs(120);
const FIRST: Duration = Duration::from_millis(500);
const FACTOR: u32 = 4;

/// How long to wait after a failed try, or `None` when that was the last one.
///
/// `attempt` counts from 1, `elapsed` from the start of the first try, `jitter` is from 0 to 1. What the backend asks
/// for in `Retry-After` is a minimum; one that asks for more than the time that is left is not tried again.
pub(super) fn delay(attempt: u32, elapsed: Duration, retry_after: Option<Duration>, jitter: f64) -> Option<Duration> {
    if attempt >= TRIES {
        return None;
    }
    let full = FIRST * FACTOR.pow(attempt - 1);
    let delay = full.mul_f64(0.5 + jitter.clamp(0.0, 1.0) / 2.0).max(retry_after.unwrap_or_default());
    (elapsed.saturating_add(delay) <= WITHIN).then_some(delay)
}

/// `Retry-After` in seconds; the other form, a date, is rare and taken for nothing.
pub(super) fn retry_after(header: Option<&str>) -> Option<Duration> {
    header?.trim().parse().ok().map(Duration::from_secs)
}

#[cfg(test)]
mod tests {
    use super::*;

    const NONE: Duration = Duration::ZERO;

    #[test]
    fn five_tries_within_two_minutes() {
        let mut elapsed = NONE;
        let mut tries = 1;
        while let Some(delay) = delay(tries, elapsed, None, 1.0) {
            elapsed += delay;
            tries += 1;
        }
        assert_eq!(tries, 5);
        assert!(elapsed <= WITHIN);
        assert_eq!(delay(2, Duration::from_secs(119), None, 1.0), None);
    }

    #[test]
    fn what_the_backend_asks_for_is_a_minimum() {
        assert_eq!(delay(1, NONE, Some(Duration::from_secs(30)), 0.5), Some(Duration::from_secs(30)));
        assert_eq!(delay(1, NONE, Some(Duration::from_secs(500)), 0.5), None);
        assert_eq!(delay(1, NONE, Some(NONE), 0.0), Some(FIRST / 2));
        assert_eq!(delay(1, Duration::from_secs(1), retry_after(Some("18446744073709551615")), 0.5), None);
        assert_eq!(retry_after(Some(" 7 ")), Some(Duration::from_secs(7)));
        assert_eq!(retry_after(Some("Wed, 21 Oct 2026 07:28:00 GMT")), None);
    }
}
