//! Requests whose answers get lost, so that the assistant asks again: with the same key, or with a new one.

use std::collections::HashSet;
use std::time::Duration;

use crate::draw::Draw;
use crate::failure::must;
use crate::stats::count;
use crate::world::{Asked, Setup, World};
use crate::{Failure, Plan, Table};

/// The share of answers that get lost after the hub has acted.
const LOST: f64 = 0.3;

/// What became of all requests.
struct Outcome {
    calls: usize,
    runs: usize,
}

pub(super) async fn table(plan: Plan) -> Result<Table, Failure> {
    let same = request(plan, true).await?;
    let new = request(plan, false).await?;
    let here = |outcome: &Outcome| {
        let (runs, twice) = (count(outcome.runs), count(outcome.runs - plan.samples));
        format!("{runs} runs of {} calls, {twice} of them duplicates", count(outcome.calls))
    };
    Ok(Table::new(format!("Idempotency, {} requests, 30 % of the answers lost", count(plan.samples)))
        .row("same key on each try", "200 runs", here(&same))
        .row("a new key on each try", "duplicates", here(&new))
        .note("Runs are those that the desktop's engine started, once everything queued was over."))
}

async fn request(plan: Plan, same_key: bool) -> Result<Outcome, Failure> {
    let world = World::new(Setup::default()).await?;
    // Both variants lose the same answers.
    let mut draw = Draw::new(plan.seed, "idempotency");
    let asked = Asked::lasting(Duration::from_secs(5));
    let (mut commands, mut calls, mut answered) = (HashSet::new(), 0, None);
    for request in 0..plan.samples {
        for attempt in 1.. {
            let key = if same_key { format!("request-{request}") } else { format!("request-{request}-{attempt}") };
            let command = world.assistant.run(&key, &asked).await?;
            commands.insert(command.clone());
            calls += 1;
            if !draw.chance(LOST) {
                answered = Some(command);
                break;
            }
        }
    }
    // Commands run in the order in which they were queued, and the last one's answer arrived.
    if let Some(last) = answered {
        world.assistant.wait_for_end(&last).await?;
    }
    let runs = world.desktop.runs().len();
    must(runs == commands.len(), || format!("{} commands, but {runs} runs", commands.len()))?;
    Ok(Outcome { calls, runs })
}
