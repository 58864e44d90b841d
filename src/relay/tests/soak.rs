//! Bad days, by chance and from fixed seeds: whatever comes together, nothing runs twice and everything is told.

use super::harness::*;
use crate::command::State;
use crate::consent::NO_LONGER_SHARED;
use crate::store::executions::DAEMON_STOPPED;
use crate::store::sharing;
use protocol::CommandId;
use rand::rngs::StdRng;
use rand::{RngExt, SeedableRng};
use serde_json::json;
use std::time::Duration;

#[tokio::test(start_paused = true)]
async fn on_bad_days_nothing_runs_twice_and_every_command_has_its_end() {
    for seed in 0..12 {
        let mut chance = StdRng::seed_from_u64(seed);
        let mut desktop = Desktop::new().await;
        if seed % 2 == 1 {
            desktop = desktop.with_wake_channel();
        }
        if seed % 3 == 2 {
            desktop.hub.be_forgetful();
        }
        desktop.hub.be_moody(seed);
        let asked = bad_day(&mut desktop, &mut chance).await;

        desktop.hub.heal();
        desktop.change(|tx| sharing::switch(tx, HUB, &project(PROJECT), true)).await;
        if !desktop.is_alive() {
            desktop.start();
        }
        desktop.wait(1_500).await;
        assert!(desktop.is_alive(), "seed {seed}: the daemon ended");
        assert_eq!(desktop.engine.most_at_once(), 1, "seed {seed}");
        for id in asked {
            assert_has_its_end(&desktop, id, &format!("seed {seed}, {id}")).await;
        }
        assert_eq!(desktop.outbox().await, outbox::Stats::default(), "seed {seed}");
    }
}

/// Half an hour in which everybody does something every few seconds. Gives back what was asked for.
async fn bad_day(desktop: &mut Desktop, chance: &mut StdRng) -> Vec<CommandId> {
    let mut asked = Vec::new();
    desktop.start();
    while desktop.clock.elapsed() < Duration::from_secs(1_800) {
        tokio::time::sleep(Duration::from_millis(chance.random_range(1..30_000))).await;
        match chance.random_range(0..12) {
            0..4 => {
                desktop.engine.plan(Plan::takes(chance.random_range(0..30)));
                asked.push(desktop.ask());
            }
            4..6 if !asked.is_empty() => desktop.hub.request_cancel(asked[chance.random_range(0..asked.len())]),
            6 => {
                let on = chance.random_bool(0.7);
                desktop.change(move |tx| sharing::switch(tx, HUB, &project(PROJECT), on)).await;
            }
            7 => desktop.clock.sleep(Duration::from_secs(chance.random_range(1..600))),
            8 if desktop.is_alive() => desktop.kill().await,
            9 if desktop.is_alive() => desktop.stop().await,
            _ if !desktop.is_alive() => drop(desktop.start()),
            _ => {}
        }
    }
    asked
}

async fn assert_has_its_end(desktop: &Desktop, id: CommandId, what: &str) {
    let runs = desktop.engine.runs().iter().filter(|run| run.arguments["for"] == json!(id)).count();
    assert!(runs <= 1, "{what}: ran {runs} times");
    let (state, status, report) = (desktop.state(id).await, desktop.hub.status(id), desktop.hub.report(id));
    match status.as_str() {
        "completed" => assert_eq!(runs, 1, "{what}"),
        "failed" => assert_eq!(report["message"], DAEMON_STOPPED, "{what}"),
        "cancelled" if runs == 0 => {
            assert!(report.is_null() || report["message"] == NO_LONGER_SHARED, "{what}: {report}");
        }
        "cancelled" => assert_eq!(report["message"], "cancelled on request", "{what}"),
        other => panic!("{what}: it is {other} for ever, and {state:?} here"),
    }
    let is_over = match state {
        // A report of no run may have met a command that was cancelled at the hub meanwhile.
        Some(State::Reported) => !report.is_null() || runs == 0,
        Some(State::Dropped) | None => report.is_null() && runs == 0,
        Some(_) => false,
    };
    assert!(is_over, "{what}: {state:?} here, {status} at the hub, {report}");
}
