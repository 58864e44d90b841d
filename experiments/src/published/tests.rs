//! Whole tables of few samples. A figure that changes means that relay or hub behave otherwise than before.

use super::EXPERIMENTS;
use crate::{Plan, Table};

fn table(name: &str, samples: usize) -> Table {
    let experiment = EXPERIMENTS.iter().find(|one| one.name == name).unwrap();
    experiment.run(Plan { seed: 1, samples }).unwrap()
}

#[test]
fn pickup() {
    insta::assert_snapshot!(table("pickup", 12));
}

#[test]
fn five_at_once() {
    insta::assert_snapshot!(table("five-at-once", 1));
}

#[test]
fn cancel() {
    insta::assert_snapshot!(table("cancel", 20));
}

#[test]
fn idempotency() {
    insta::assert_snapshot!(table("idempotency", 20));
}

#[test]
fn desktop_off() {
    insta::assert_snapshot!(table("desktop-off", 1));
}

#[test]
fn lost_report() {
    insta::assert_snapshot!(table("lost-report", 1));
}

#[test]
fn largest_result() {
    insta::assert_snapshot!(table("largest-result", 1));
}

#[test]
fn watching() {
    insta::assert_snapshot!(table("watching", 6));
}

/// A reader who runs them must see the figures that are printed elsewhere, whatever else the machine is doing.
#[test]
fn a_seed_gives_the_same_tables_to_the_byte() {
    for (name, samples) in [("pickup", 4), ("cancel", 6), ("five-at-once", 1), ("idempotency", 4), ("watching", 2)] {
        assert_eq!(table(name, samples).to_string(), table(name, samples).to_string(), "{name}");
    }
}

#[test]
fn another_seed_draws_other_samples() {
    let experiment = &EXPERIMENTS[0];
    let [one, other] = [1, 2].map(|seed| experiment.run(Plan { seed, samples: 3 }).unwrap());
    assert_ne!(one.rows[0].here, other.rows[0].here);
}
