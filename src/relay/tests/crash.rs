//! The daemon may end at any moment. What it was about to do is done once, and told once.

use super::harness::*;
use crate::command::State;
use crate::store::executions::DAEMON_STOPPED;
use protocol::CommandId;
use serde_json::json;
use std::collections::HashSet;
use std::future::Future;
use std::pin::pin;
use std::task::Poll;
use std::time::Duration;
use tokio_util::sync::CancellationToken;

/// The steps at which a command stands still in the database.
#[derive(Debug, Clone, Copy)]
enum Cut {
    Received,
    StartAnswered,
    Running,
    Finished,
    ReportAnswered,
}

#[derive(Debug, Clone, Copy)]
enum End {
    Stop,
    Kill,
}

impl Cut {
    const ALL: [Self; 5] = [Self::Received, Self::StartAnswered, Self::Running, Self::Finished, Self::ReportAnswered];

    /// Makes the hub hold the desktop at this step.
    fn hold(self, desktop: &Desktop) {
        match self {
            Self::Received => desktop.hub.once(Call::Start, Answer::Hang),
            Self::StartAnswered => desktop.hub.once(Call::Start, Answer::DoneThenHang),
            Self::Running => desktop.engine.plan(Plan::takes(3_600)),
            Self::Finished => desktop.hub.once(Call::Complete, Answer::Hang),
            Self::ReportAnswered => desktop.hub.once(Call::Complete, Answer::DoneThenHang),
        }
    }

    fn stands_at(self) -> State {
        match self {
            Self::Received | Self::StartAnswered => State::Received,
            Self::Running => State::Running,
            Self::Finished | Self::ReportAnswered => State::Finished,
        }
    }
}

#[tokio::test(start_paused = true)]
async fn a_daemon_that_ends_at_any_step_runs_nothing_twice_and_reports_everything() {
    for cut in Cut::ALL {
        for end in [End::Stop, End::Kill] {
            let what = format!("{cut:?}, {end:?}");
            let mut desktop = Desktop::new().await;
            let id = desktop.ask();
            cut.hold(&desktop);
            desktop.start();
            desktop.wait(10).await;
            assert_eq!(desktop.state(id).await, Some(cut.stands_at()), "{what}: cut somewhere else");
            match end {
                End::Stop => desktop.stop().await,
                End::Kill => desktop.kill().await,
            }
            desktop.wait(100).await;
            desktop.start();
            desktop.wait(60).await;

            let failed = matches!(cut, Cut::Running);
            let expected = if failed { ("failed", json!(DAEMON_STOPPED)) } else { ("completed", json!(null)) };
            let report = desktop.hub.report(id);
            assert_eq!((desktop.hub.status(id).as_str(), report["message"].clone()), expected, "{what}");
            let history = desktop.history().await;
            assert_eq!((history.len(), history[0].status.as_str()), (1, expected.0), "{what}");
            assert_eq!(report["execution_id"], json!(history[0].id), "{what}: the report names another run");
            assert_is_over(&desktop, &[id], &what).await;
        }
    }
}

/// Ends the daemon after each number of steps of its task: at every point where it could wait for anything.
#[tokio::test(start_paused = true)]
async fn a_daemon_killed_between_any_two_steps_runs_nothing_twice_and_reports_everything() {
    let mut met = HashSet::new();
    for steps in 1.. {
        let mut desktop = Desktop::new().await;
        // The number of steps varies a little with the threads of the database: each state lasts for many.
        desktop.hub.be_slow(Duration::from_secs(20));
        (0..2).for_each(|_| desktop.engine.plan(Plan::takes(20)));
        let asked = [desktop.ask(), desktop.ask()];
        let relay = desktop.relay().run(CancellationToken::new());
        let is_through = give_up_after(steps, &desktop, &asked, relay).await;
        desktop.wait(1).await; // what was on its way to the disk gets there
        met.insert(desktop.state(asked[1]).await);
        desktop.hub.be_slow(Duration::ZERO);
        desktop.start();
        desktop.wait(120).await;
        assert_is_over(&desktop, &asked, &format!("killed after {steps} steps")).await;
        if is_through {
            break;
        }
    }
    let states = [None, Some(State::Received), Some(State::Running), Some(State::Finished), Some(State::Reported)];
    assert_eq!(met, HashSet::from(states), "the kills have missed a part of the work");
}

/// Lets `relay` make so many steps. True if both commands were reported by then.
async fn give_up_after(steps: usize, desktop: &Desktop, asked: &[CommandId], relay: impl Future) -> bool {
    let mut relay = pin!(relay);
    let mut made = 0;
    let limit = std::future::poll_fn(|context| {
        made += 1;
        if made > steps { Poll::Ready(()) } else { relay.as_mut().poll(context).map(drop) }
    });
    let all_done = async {
        while asked.iter().any(|id| desktop.hub.status(*id) != "completed") {
            desktop.wait(1).await;
        }
        desktop.wait(30).await;
    };
    tokio::select! {
        biased;
        () = limit => false,
        () = all_done => true,
    }
}

async fn assert_is_over(desktop: &Desktop, asked: &[CommandId], what: &str) {
    let runs = desktop.engine.runs();
    for id in asked {
        assert_eq!(runs.iter().filter(|run| run.arguments["for"] == json!(id)).count().max(1), 1, "{what}: ran twice");
        assert_eq!(desktop.state(*id).await, Some(State::Reported), "{what}");
        let report = desktop.hub.report(*id);
        assert_eq!(report["status"], desktop.hub.status(*id), "{what}: settled without the report");
        let is_cut_off = report["status"] == "failed" && report["message"] == DAEMON_STOPPED;
        assert!(report["status"] == "completed" || is_cut_off, "{what}: {report}");
    }
    assert_eq!(desktop.outbox().await, outbox::Stats::default(), "{what}: a report is left");
    assert!(desktop.history().await.iter().all(|run| run.status != "running"), "{what}: a run seems to be on for ever");
}

/// Cuts the power at each request, before the hub has done it and after.
#[tokio::test(start_paused = true)]
async fn a_daemon_killed_at_any_request_runs_nothing_twice_and_reports_everything() {
    for done in [false, true] {
        for request in 0..10 {
            let mut desktop = Desktop::new().await;
            let asked = [desktop.ask(), desktop.ask()];
            desktop.hub.cut_at(request, done);
            desktop.start();
            tokio::select! {
                () = desktop.hub.cut.notified() => {}
                () = desktop.wait(30) => panic!("request {request} never came"),
            }
            desktop.kill().await;
            desktop.start();
            desktop.wait(60).await;
            assert_is_over(&desktop, &asked, &format!("killed at request {request}, done: {done}")).await;
        }
    }
}

#[tokio::test(start_paused = true)]
async fn a_stop_ends_the_run_that_is_on() {
    let mut desktop = Desktop::new().await;
    let id = desktop.ask();
    desktop.engine.plan(Plan::takes(3_600));
    desktop.start();
    desktop.until(5).await;
    desktop.stop().await;
    assert_eq!(desktop.state(id).await, Some(State::Finished));
    let execution = desktop.execution(id).await;
    assert_eq!((execution.status.as_str(), execution.error.unwrap().message.as_str()), ("failed", DAEMON_STOPPED));
    assert_eq!(desktop.engine.runs()[0].ended, None, "it was not killed");
    let requests = desktop.hub.calls().len();
    desktop.wait(100).await;
    assert_eq!(desktop.hub.calls().len(), requests, "a stopped daemon still asks");
}

#[tokio::test(start_paused = true)]
async fn a_run_that_the_owner_has_started_is_not_ended_by_the_relay_s_start() {
    let mut desktop = Desktop::new().await;
    let execution = crate::store::executions::NewExecution {
        id: protocol::ExecutionId::new(),
        channel: None,
        graph: GRAPH.to_owned(),
        saved: None,
        file: "digest.js".to_owned(),
        source: "return 1".to_owned(),
        arguments: json!({}),
    };
    desktop.change(move |tx| crate::store::executions::begin(tx, &execution, 0)).await;
    desktop.start();
    desktop.until(5).await;
    desktop.stop().await;
    assert_eq!(desktop.history().await[0].status, "running");
}
