//! How long a command waits for its desktop: an assistant asks at any moment, the desktop polls every 20 s.

use std::time::Duration;

use crate::assistant::between;
use crate::draw::Draw;
use crate::stats::{Summary, count};
use crate::world::{Asked, Kind, POLL, Setup, World};
use crate::{Failure, Plan, Table};

/// An idle desktop's next command waits as long whatever the last one took: short ones save real time.
const RUN: Duration = Duration::from_secs(5);
/// A busy desktop's have no spread to be sampled.
const BUSY_SHARE: usize = 4;

pub(super) async fn table(plan: Plan) -> Result<Table, Failure> {
    let polled = idle(plan, "polled", false).await?;
    let woken = idle(plan, "woken", true).await?;
    let busy_plan = Plan { samples: plan.samples.div_ceil(BUSY_SHARE), ..plan };
    let (at_once, at_next_poll) = busy(busy_plan).await?;
    Ok(Table::new(format!("Pickup wait, queued → started, n = {}", count(plan.samples)))
        .row("idle desktop, poll every 20 s", "mean 9.8, median 9.8, p95 18.9, max 20.0 s", polled.to_string())
        .row("idle desktop, wake channel on", "–", woken.to_string())
        .row(format!("busy desktop: end of its run → start, n = {}", busy_plan.samples), "–", at_once.to_string())
        .note(
            "Moments between two polls are equally likely, so that a mean over 2,000 lies between 9.75 and 10.25 s in 95 \
             of 100 samples; requests take no time here.",
        )
        .note("The wake channel is one request that the desktop holds open at the hub, which answers it at once.")
        .note(format!(
            "A command that was queued while another ran starts when that one ends, since the desktop asks as soon \
             as its worker is idle. Left to the next poll, these would have waited: {at_next_poll}."
        )))
}

/// Commands for a desktop that has nothing to do.
async fn idle(plan: Plan, part: &str, wake_channel: bool) -> Result<Summary, Failure> {
    let world = World::new(Setup { wake_channel, ..Setup::default() }).await?;
    let mut draw = Draw::new(plan.seed, &format!("pickup/{part}"));
    let mut waits = Vec::with_capacity(plan.samples);
    for sample in 0..plan.samples {
        world.wait(draw.up_to(2 * POLL), Kind::Queue).await;
        let command = world.assistant.run(&format!("pickup-{sample}"), &Asked::lasting(RUN)).await?;
        waits.push(world.assistant.wait_for_end(&command).await?.pickup()?);
    }
    Ok(waits.into_iter().collect())
}

/// Commands for a desktop that is running another one: from the end of that one to their start, and to the poll at
/// which they would have been found.
async fn busy(plan: Plan) -> Result<(Summary, Summary), Failure> {
    let world = World::new(Setup::default()).await?;
    let mut draw = Draw::new(plan.seed, "pickup/busy");
    let (mut waits, mut polls) = (Vec::new(), Vec::new());
    for sample in 0..plan.samples {
        world.wait(draw.up_to(2 * POLL), Kind::Queue).await;
        // It starts within one poll and is still on after two.
        let running = Asked::lasting(2 * POLL + draw.up_to(POLL));
        let running = world.assistant.run(&format!("running-{sample}"), &running).await?;
        world.wait(POLL + draw.up_to(POLL), Kind::Queue).await;
        let waiting = world.assistant.run(&format!("waiting-{sample}"), &Asked::lasting(RUN)).await?;
        let ended = world.assistant.wait_for_end(&running).await?.finished()?;
        polls.push(until_next_poll(world.elapsed()));
        let started = world.assistant.wait_for_end(&waiting).await?.started()?;
        waits.push(between(ended, started));
    }
    Ok((waits.into_iter().collect(), polls.into_iter().collect()))
}

/// The desktop's first poll is at zero.
fn until_next_poll(elapsed: Duration) -> Duration {
    let since = elapsed.as_millis() % POLL.as_millis();
    POLL.saturating_sub(Duration::from_millis(u64::try_from(since).unwrap_or_default()))
}
