//! One completion report gets lost: with the outbox, and without.
//!
//! The run starts at a poll and ends between two polls, half a minute later. Its report is sent at once and lost.

use std::time::Duration;

use protocol::CommandStatus;

use crate::assistant::{Seen, between};
use crate::failure::must;
use crate::stats::seconds;
use crate::world::{Asked, Kind, Loss, POLL, Setup, World};
use crate::{Failure, Plan, Table};

const RUN: Duration = Duration::from_secs(30);
/// As good as no lease.
const FOR_EVER: Duration = Duration::from_secs(10 * 365 * 24 * 3600);
/// How long the assistant looks for the end of a run that has none.
const PATIENCE: Duration = Duration::from_secs(6 * 3600);

pub(super) async fn table(_: Plan) -> Result<Table, Failure> {
    let lost = settled(Loss::Request).await?;
    let unanswered = settled(Loss::Answer).await?;
    let forgotten = settled(Loss::Unnoticed).await?;
    let without_lease = never_settled().await?;
    let again = unanswered.sent.iter().map(|at| seconds(*at)).collect::<Vec<_>>().join(" s and ");
    Ok(Table::new("One completion report lost")
        .row("outbox on, the report lost", "completed, delivered 40 s after the start", lost.told())
        .row("outbox on, its answer lost", "–", format!("{}; sent after {again} s, taken once", unanswered.told()))
        .row("outbox off", "`running` for ever", forgotten.told())
        .row("outbox off, and a hub without leases", "`running` for ever", without_lease)
        .note("The run starts at a poll and takes 30 s. The second try is the next cycle, at the second poll after the start.")
        .note(
            "The relay cannot be run without its outbox. \"Off\" is a relay that sends and forgets: the report is lost, \
             and the relay is told that it arrived.",
        )
        .note(format!(
            "No run stays `running` here: once its lease of {} s is over and its desktop, which is online, does not \
             list it as known, the hub settles it ({}). The result is lost all the same; it stands in the desktop's \
             history alone. The last row takes the leases away.",
            hub::Settings::default().lease.as_secs(),
            forgotten.message(),
        )))
}

/// How it went, in times from the start.
struct Settled {
    seen: Seen,
    after: Duration,
    sent: Vec<Duration>,
}

impl Settled {
    fn told(&self) -> String {
        format!("{}, {} s after the start", self.seen.status.as_str(), seconds(self.after))
    }

    fn message(&self) -> &str {
        self.seen.message.as_deref().unwrap_or("no reason given")
    }
}

/// Loses the report and waits for the end of the command.
async fn settled(loss: Loss) -> Result<Settled, Failure> {
    let world = World::new(Setup::default()).await?;
    let command = lose_report(&world, loss).await?;
    let seen = world.assistant.wait_for_end(&command).await?;
    let after = between(seen.started()?, seen.finished()?);
    // Whatever the relay has still to send, it sends with one of the next polls.
    world.wait(3 * POLL, Kind::Queue).await;
    let started = world.desktop.runs().first().map(|run| run.started);
    let started = started.ok_or_else(|| Failure::broken("the command did not run"))?;
    let sent = world.desktop.reports().iter().map(|report| report.at - started).collect();
    Ok(Settled { seen, after, sent })
}

/// Loses the report, on a hub without leases, and looks again much later.
async fn never_settled() -> Result<String, Failure> {
    let world = World::new(Setup { lease: FOR_EVER, ..Setup::default() }).await?;
    let command = lose_report(&world, Loss::Unnoticed).await?;
    world.wait(PATIENCE, Kind::Queue).await;
    Ok(format!("still {} after 6 h", world.assistant.look(&command).await?.status.as_str()))
}

/// Queues a run whose first report will be lost, and waits until that has happened.
async fn lose_report(world: &World, loss: Loss) -> Result<String, Failure> {
    world.desktop.lose_next_report(loss);
    let command = world.assistant.run("lost-report", &Asked::lasting(RUN)).await?;
    let status = world.assistant.look(&command).await?.status;
    must(status == CommandStatus::Queued, || "the desktop was quicker than its poll".to_owned())?;
    world.wait(POLL + RUN, Kind::Queue).await;
    let reports = world.desktop.reports();
    must(reports.len() == 1 && reports[0].loss == Some(loss), || format!("other reports than one lost: {reports:?}"))?;
    Ok(command)
}
