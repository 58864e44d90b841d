//! A desktop that is off for ten minutes, with five commands waiting for it when it comes back.

use std::time::Duration;

use protocol::CommandStatus;

use crate::assistant::between;
use crate::stats::seconds;
use crate::world::{Asked, Kind, Setup, World};
use crate::{Failure, Plan, Table};

const OFF: Duration = Duration::from_secs(600);
const COMMANDS: u32 = 5;
/// Together the published 128 s, from the first start to the last end.
const RUN: Duration = Duration::from_millis(25_600);

pub(super) async fn table(_: Plan) -> Result<Table, Failure> {
    let mut world = World::new(Setup::default()).await?;
    world.wait(Duration::from_secs(60), Kind::Desktop).await;
    world.desktop.stop().await?;
    let off_at = world.elapsed();

    let mut commands = Vec::new();
    for number in 1..=COMMANDS {
        world.wait(OFF / (COMMANDS + 1), Kind::Queue).await;
        commands.push(world.assistant.run(&format!("meanwhile-{number}"), &Asked::lasting(RUN)).await?);
    }
    world.wait_until(off_at + OFF, Kind::Desktop).await;
    let mut queued = 0;
    for command in &commands {
        queued += usize::from(world.assistant.look(command).await?.status == CommandStatus::Queued);
    }
    let executed = world.desktop.runs().len();

    let on_at = world.now();
    world.desktop.start();
    let mut seen = Vec::new();
    for command in &commands {
        seen.push(world.assistant.wait_for_end(command).await?);
    }
    let completed = seen.iter().filter(|seen| seen.status == CommandStatus::Completed).count();
    let [first, last] =
        [seen[0].started()?, seen[seen.len() - 1].finished()?].map(|time| seconds(between(on_at, time)));
    Ok(Table::new("Desktop off for 600 s, with 5 commands queued")
        .row("while it is off", "all queued, 0 executed", format!("{queued} queued, {executed} executed"))
        .row("first start, from its return", "+3 s", format!("+{first} s"))
        .row("all completed, from its return", "+131 s", format!("{completed} completed by +{last} s"))
        .row("runs that overlap", "0", world.desktop.overlaps().to_string())
        .note("A desktop that comes back polls at once. Each run takes 25.6 s, in all the published 128 s."))
}
