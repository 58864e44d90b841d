//! Mean, median, 95th percentile and maximum, as the published tables give them.

use std::fmt;
use std::time::Duration;

/// A sample of durations, in order.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Summary(Vec<Duration>);

impl FromIterator<Duration> for Summary {
    fn from_iter<I: IntoIterator<Item = Duration>>(all: I) -> Self {
        let mut all: Vec<_> = all.into_iter().collect();
        all.sort_unstable();
        Self(all)
    }
}

impl Summary {
    pub(crate) fn mean(&self) -> Duration {
        let count = u32::try_from(self.0.len()).unwrap_or(u32::MAX).max(1);
        self.0.iter().sum::<Duration>() / count
    }

    pub(crate) fn median(&self) -> Duration {
        self.percentile(50)
    }

    pub(crate) fn max(&self) -> Duration {
        self.percentile(100)
    }

    /// The least value that `percent` of the sample do not exceed; zero for an empty sample.
    pub(crate) fn percentile(&self, percent: usize) -> Duration {
        let rank = (self.0.len() * percent).div_ceil(100);
        self.0.get(rank.saturating_sub(1)).copied().unwrap_or_default()
    }
}

impl fmt::Display for Summary {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let [mean, median, p95, max] = [self.mean(), self.median(), self.percentile(95), self.max()].map(seconds);
        write!(f, "mean {mean}, median {median}, p95 {p95}, max {max} s")
    }
}

/// Seconds to a tenth, as published.
pub(crate) fn seconds(duration: Duration) -> String {
    format!("{:.1}", duration.as_secs_f64())
}

/// A count with its thousands apart.
pub(crate) fn count(n: usize) -> String {
    let digits = n.to_string();
    let mut text = String::new();
    for (at, digit) in digits.chars().enumerate() {
        if at > 0 && (digits.len() - at).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn percentiles_are_values_of_the_sample() {
        let all: Summary = (1..=20).rev().map(Duration::from_secs).collect();
        assert_eq!(all.to_string(), "mean 10.5, median 10.0, p95 19.0, max 20.0 s");
        let none: Summary = std::iter::empty().collect();
        assert_eq!(none.to_string(), "mean 0.0, median 0.0, p95 0.0, max 0.0 s");
    }

    #[test]
    fn counts_are_read_easily() {
        assert_eq!([0, 999, 1_000, 1_234_567].map(count), ["0", "999", "1,000", "1,234,567"]);
    }
}
