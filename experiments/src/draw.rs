//! Chance, from a seed: how long runs take, when assistants act, what gets lost.

use std::f64::consts::TAU;
use std::time::Duration;

use rand::rngs::Xoshiro256PlusPlus;
use rand::{RngExt, SeedableRng};
use sha2::{Digest, Sha256};

/// The published distribution of run lengths: log-normal, with this median …
const MEDIAN_RUN: Duration = Duration::from_secs(60);
/// … and this least length. Its spread was not published;
const LEAST_RUN: Duration = Duration::from_secs(5);
/// this one gives two published figures: 107 of 2,000 runs over before their cancel (101 expected here), and 47 looks
/// per run at one every 2 s.
const SPREAD: f64 = 0.8;

/// One stream of random numbers. The generator is named, so that another version of the crate draws the same.
pub(crate) struct Draw(Xoshiro256PlusPlus);

impl Draw {
    /// Each part of an experiment has its own stream: a change of one part leaves the others' figures alone.
    pub(crate) fn new(seed: u64, part: &str) -> Self {
        Self(Xoshiro256PlusPlus::from_seed(Sha256::digest(format!("{seed}/{part}")).into()))
    }

    /// True with that probability.
    pub(crate) fn chance(&mut self, probability: f64) -> bool {
        self.0.random::<f64>() < probability
    }

    /// Uniform, from zero.
    pub(crate) fn up_to(&mut self, most: Duration) -> Duration {
        most.mul_f64(self.0.random())
    }

    /// How long a run takes.
    pub(crate) fn run_length(&mut self) -> Duration {
        // Box and Muller; 1 - u is never zero.
        let (u, v): (f64, f64) = (self.0.random(), self.0.random());
        let normal = (-2.0 * (1.0 - u).ln()).sqrt() * (TAU * v).cos();
        MEDIAN_RUN.mul_f64((SPREAD * normal).exp()).max(LEAST_RUN)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::stats::Summary;

    #[test]
    fn runs_are_as_long_as_the_published_ones() {
        let mut draw = Draw::new(1, "lengths");
        let lengths: Summary = (0..20_000).map(|_| draw.run_length()).collect();
        assert!((58.0..62.0).contains(&lengths.median().as_secs_f64()), "{lengths}");
        let mut again = Draw::new(1, "lengths");
        assert!((0..20_000).all(|_| again.run_length() >= LEAST_RUN));
    }

    #[test]
    fn a_stream_depends_on_its_seed_and_its_part_alone() {
        let first = |seed, part| Draw::new(seed, part).up_to(Duration::from_secs(1));
        assert_eq!(first(1, "a"), first(1, "a"));
        assert_ne!(first(1, "a"), first(2, "a"));
        assert_ne!(first(1, "a"), first(1, "b"));
    }
}
