//! A cancel at any moment of the first 40 s: before the desktop knows the command, while it runs, or too late.

use std::time::Duration;

use protocol::CommandStatus;

use crate::assistant::between;
use crate::draw::Draw;
use crate::failure::must;
use crate::stats::{Summary, count, seconds};
use crate::world::{Asked, Kind, POLL, Setup, World};
use crate::{Failure, Plan, Table};

/// The latest cancel, from the moment of queueing.
const LATEST: Duration = Duration::from_secs(40);

/// The wake channel's waits have no spread to be sampled.
const WOKEN_SHARE: usize = 4;

/// From the cancel to the end, by what the cancel met.
#[derive(Default)]
struct Outcomes {
    queued: Vec<Duration>,
    running: Vec<Duration>,
    over: usize,
}

pub(super) async fn table(plan: Plan) -> Result<Table, Failure> {
    let polled = cancel(plan, false).await?;
    let woken_plan = Plan { samples: plan.samples.div_ceil(WOKEN_SHARE), ..plan };
    let woken = cancel(woken_plan, true).await?;
    let queued: Summary = polled.queued.iter().copied().collect();
    let running: Summary = polled.running.iter().copied().collect();
    let at_once: Summary = woken.running.iter().copied().collect();
    Ok(Table::new(format!("Cancel at a random moment within 40 s, n = {}", count(plan.samples)))
        .row("still queued", "523", count(polled.queued.len()))
        .row("running", "1,370", count(polled.running.len()))
        .row("over already", "107", count(polled.over))
        .row("queued: cancel → terminal", "0.0 s", format!("max {} s", seconds(queued.max())))
        .row("running: cancel → terminal", "mean 2.0, p95 3.3, max 3.5 s", running.to_string())
        .row(format!("running, wake channel on, n = {}", woken_plan.samples), "–", at_once.to_string())
        .note(
            "As in the reference, a run takes 0.5 s to stop; the rest is the wait for the desktop's look every 3 s. \
             The wake channel makes it look at once.",
        )
        .note(
            "A cancel of a running command is a flag that the desktop reads. A Graph that ends before that, or between \
             the look and the stop, is `cancelled` all the same.",
        )
        .note(format!(
            "Run lengths: log-normal, median 60 s, at least 5 s. With the wake channel on, commands start at once, so \
             that {} met a run and {} came too late.",
            count(woken.running.len()),
            count(woken.over)
        )))
}

async fn cancel(plan: Plan, wake_channel: bool) -> Result<Outcomes, Failure> {
    let world = World::new(Setup { wake_channel, ..Setup::default() }).await?;
    let mut draw = Draw::new(plan.seed, &format!("cancel/{wake_channel}"));
    let mut outcomes = Outcomes::default();
    for sample in 0..plan.samples {
        world.wait(draw.up_to(2 * POLL), Kind::Queue).await;
        let command = world.assistant.run(&format!("cancel-{sample}"), &Asked::lasting(draw.run_length())).await?;
        world.wait(draw.up_to(LATEST), Kind::Cancel).await;
        let asked_at = world.now();
        let met = world.assistant.cancel(&command).await?.status;
        let seen = world.assistant.wait_for_end(&command).await?;
        let took = between(asked_at, seen.finished()?);
        match met {
            CommandStatus::Running => outcomes.running.push(took),
            CommandStatus::Cancelled => outcomes.queued.push(took),
            _ => outcomes.over += 1,
        }
        match (met, seen.status) {
            (CommandStatus::Running, end) => must_be(end, CommandStatus::Cancelled)?,
            (settled, end) => must_be(end, settled)?,
        }
    }
    let started = world.desktop.runs().len();
    must(started + outcomes.queued.len() == plan.samples, || "a Graph ran that was cancelled in the queue".to_owned())?;
    Ok(outcomes)
}

fn must_be(end: CommandStatus, expected: CommandStatus) -> Result<(), Failure> {
    must(end == expected, || format!("a cancelled command ended {}, not {}", end.as_str(), expected.as_str()))
}
