//! How often to look at a run: too often costs calls, too seldom finds its end late.

use std::future::Future;
use std::time::Duration;

use jiff::Timestamp;

use crate::assistant::{Queued, Seen, between};
use crate::draw::Draw;
use crate::stats::{Summary, count, seconds};
use crate::world::{Asked, Kind, POLL, Setup, World};
use crate::{Failure, Plan, Table};

const OFTEN: Duration = Duration::from_secs(2);

/// What one way of looking cost.
#[derive(Default)]
struct Watcher {
    calls: usize,
    late: Vec<Duration>,
}

pub(super) async fn table(plan: Plan) -> Result<Table, Failure> {
    let [often, advised, held] = watch(plan).await?;
    let here = |watcher: &Watcher| {
        let calls = watcher.calls as f64 / plan.samples as f64;
        let late: Summary = watcher.late.iter().copied().collect();
        format!("{calls:.1} calls, end noticed {} s late", seconds(late.mean()))
    };
    Ok(Table::new(format!("How often to look at a run, n = {}, means", count(plan.samples)))
        .row("every 2 s", "47 calls", here(&often))
        .row("after one pickup interval, then every 15 s", "hardly any loss", here(&advised))
        .row("one call held open until the end", "–", here(&held))
        .note("Run lengths: log-normal, median 60 s, at least 5 s. The three watch the same runs.")
        .note("The second follows `retry_after_s`, which the hub says in each answer. The third passes `wait_s` 45."))
}

async fn watch(plan: Plan) -> Result<[Watcher; 3], Failure> {
    let world = World::new(Setup::default()).await?;
    let mut draw = Draw::new(plan.seed, "watching");
    let mut watchers: [Watcher; 3] = Default::default();
    for sample in 0..plan.samples {
        world.wait(draw.up_to(2 * POLL), Kind::Queue).await;
        let asked = Asked::lasting(draw.run_length());
        let queued = world.assistant.queue(&format!("watched-{sample}"), &asked).await?;
        let [often, advised, held] = &mut watchers;
        futures::try_join!(
            often.until_over(&world, &queued, |_| world.wait(OFTEN, Kind::Queue)),
            advised.until_over(&world, &queued, |advice| world.wait(Duration::from_secs(advice), Kind::Queue)),
            held.hold(&world, &queued),
        )?;
    }
    Ok(watchers)
}

impl Watcher {
    /// Pauses, then looks, until the run is over. The pause may follow the hub's advice, in seconds.
    async fn until_over<P: Future<Output = ()>>(
        &mut self,
        world: &World,
        queued: &Queued,
        pause: impl Fn(u64) -> P,
    ) -> Result<(), Failure> {
        let mut advice = queued.retry_after_s;
        loop {
            pause(advice.unwrap_or_default()).await;
            let seen = world.assistant.look(&queued.command_id).await?;
            self.calls += 1;
            advice = seen.retry_after_s;
            if seen.status.is_settled() {
                return self.noticed(&seen, world.now());
            }
        }
    }

    /// Lets the hub hold each look.
    async fn hold(&mut self, world: &World, queued: &Queued) -> Result<(), Failure> {
        loop {
            let seen = world.assistant.hold(&queued.command_id).await?;
            self.calls += 1;
            if seen.status.is_settled() {
                return self.noticed(&seen, world.now());
            }
        }
    }

    fn noticed(&mut self, seen: &Seen, now: Timestamp) -> Result<(), Failure> {
        self.late.push(between(seen.finished()?, now));
        Ok(())
    }
}
