//! How long to wait after a failure. Pure: no clock, no random numbers of its own.

use std::time::Duration;

use crate::Policy;

/// The longest `Retry-After` that is obeyed: a receiver's mistake must not park an item until it expires.
pub const MAX_RETRY_AFTER: Duration = Duration::from_secs(24 * 3600);

/// The wait after the `failures`-th failure in a row (counted from 1).
///
/// None after the first: the caller's next cycle is spacing enough, and most failures are one lost answer. From the
/// second on exponential with full jitter: `jitter`, from 0 to 1, chooses the point between no wait and the full
/// step, so that desktops which failed together do not come back together. `retry_after` is a minimum.
pub fn delay(failures: u32, retry_after: Option<Duration>, policy: &Policy, jitter: f64) -> Duration {
    let minimum = retry_after.unwrap_or_default().min(MAX_RETRY_AFTER);
    jittered(step(failures, policy), jitter).max(minimum)
}

fn step(failures: u32, policy: &Policy) -> Duration {
    let Some(doublings) = failures.checked_sub(2) else {
        return Duration::ZERO;
    };
    let factor = 2_u32.checked_pow(doublings).unwrap_or(u32::MAX);
    policy.base.saturating_mul(factor).min(policy.max_backoff)
}

fn jittered(step: Duration, jitter: f64) -> Duration {
    // A jitter that is no number would otherwise turn every wait into none.
    let jitter = if jitter.is_nan() { 1.0 } else { jitter.clamp(0.0, 1.0) };
    Duration::try_from_secs_f64(step.as_secs_f64() * jitter).unwrap_or(step).min(step)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const S: Duration = Duration::from_secs(1);

    #[test]
    fn the_steps_double_from_the_second_failure_up_to_the_longest() {
        let waits: Vec<u64> = (0..=9).map(|n| delay(n, None, &Policy::default(), 1.0).as_secs()).collect();
        assert_eq!(waits, [0, 0, 20, 40, 80, 160, 320, 640, 900, 900]);
    }

    #[test]
    fn retry_after_is_a_minimum_even_for_the_first_retry_and_has_an_end() {
        let policy = Policy::default();
        assert_eq!(delay(1, Some(7 * S), &policy, 0.0), 7 * S);
        assert_eq!(delay(3, Some(7 * S), &policy, 1.0), 40 * S);
        assert_eq!(delay(3, Some(Duration::MAX), &policy, 0.5), MAX_RETRY_AFTER);
    }

    fn any_duration() -> impl Strategy<Value = Duration> {
        prop_oneof![
            (0..5_000_000_u64).prop_map(Duration::from_millis),
            any::<u64>().prop_map(Duration::from_nanos),
            Just(Duration::MAX),
            Just(Duration::ZERO),
        ]
    }

    proptest! {
        #[test]
        fn a_wait_is_between_the_minimum_and_the_longest(
            failures: u32,
            jitter in proptest::num::f64::ANY,
            retry_after in proptest::option::of(any_duration()),
            base in any_duration(),
            max_backoff in any_duration(),
        ) {
            let policy = Policy { base, max_backoff, ..Policy::default() };
            let minimum = retry_after.unwrap_or_default().min(MAX_RETRY_AFTER);
            let wait = delay(failures, retry_after, &policy, jitter);
            prop_assert!(wait >= minimum && wait <= minimum.max(max_backoff));
            if failures <= 1 {
                prop_assert_eq!(wait, minimum);
            }
        }

        #[test]
        fn more_failures_or_more_jitter_never_shorten_the_wait(
            failures in 0..100_u32,
            a in 0.0..=1.0_f64,
            b in 0.0..=1.0_f64,
        ) {
            let policy = Policy::default();
            prop_assert!(delay(failures, None, &policy, a) <= delay(failures + 1, None, &policy, a));
            prop_assert!(delay(failures, None, &policy, a.min(b)) <= delay(failures, None, &policy, a.max(b)));
        }
    }
}
