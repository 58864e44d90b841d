//! Five commands queued together: one desktop, one worker (SPEC 1.5).

use std::time::Duration;

use crate::assistant::{Seen, between};
use crate::draw::Draw;
use crate::failure::must;
use crate::stats::seconds;
use crate::world::{Asked, Setup, World};
use crate::{Failure, Plan, Table};

const COMMANDS: usize = 5;

pub(super) async fn table(plan: Plan) -> Result<Table, Failure> {
    let world = World::new(Setup::default()).await?;
    let mut draw = Draw::new(plan.seed, "five-at-once");
    let mut commands = Vec::new();
    for number in 1..=COMMANDS {
        let asked = Asked::lasting(draw.run_length());
        commands.push(world.assistant.run(&format!("together-{number}"), &asked).await?);
    }
    let mut seen = Vec::new();
    for command in &commands {
        seen.push(world.assistant.wait_for_end(command).await?);
    }
    must(world.desktop.runs().len() == COMMANDS, || "not every command ran once".to_owned())?;

    let queued = seen[0].queued_at;
    let mut table = Table::new("Five commands queued at once");
    for (number, seen) in (1..).zip(&seen) {
        let [started, ended] = [seen.started()?, seen.finished()?].map(|time| seconds(between(queued, time)));
        table = table.row(format!("command {number}"), "–", format!("+{started} s … +{ended} s"));
    }
    Ok(table
        .row("order", "one after the other", if in_order(&seen)? { "one after the other" } else { "mixed" })
        .row("runs that overlap", "0", world.desktop.overlaps().to_string())
        .row("longest gap between two runs", "–", format!("{} s", seconds(longest_gap(&seen)?))))
}

/// Whether each started when the one that was queued before it had ended.
fn in_order(seen: &[Seen]) -> Result<bool, Failure> {
    for pair in seen.windows(2) {
        if pair[1].started()? < pair[0].finished()? {
            return Ok(false);
        }
    }
    Ok(true)
}

fn longest_gap(seen: &[Seen]) -> Result<Duration, Failure> {
    let gaps = seen.windows(2).map(|pair| Ok(between(pair[0].finished()?, pair[1].started()?)));
    gaps.collect::<Result<Vec<_>, Failure>>().map(|gaps| gaps.into_iter().max().unwrap_or_default())
}
