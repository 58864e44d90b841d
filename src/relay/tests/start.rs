//! The hub's leave to start: asked for as often as it takes, obeyed when it is refused.

use super::harness::*;
use crate::command::State;
use serde_json::json;
use std::time::Duration;

/// What must hold for every answer that is no answer: it is asked again with the next cycle, and runs once.
async fn is_asked_again(what: &str, answer: Answer, again_at: u64) {
    let mut desktop = Desktop::new().await;
    let id = desktop.ask();
    desktop.hub.once(Call::Start, answer);
    desktop.start();
    desktop.wait(again_at + 10).await;
    assert_eq!(desktop.hub.times(Call::Start), [0, again_at], "{what}");
    for start in desktop.hub.seen(Call::Start) {
        assert_eq!((start.body(), start.command), (json!({"attempt": 1}), Some(id)), "{what}");
    }
    assert_eq!(desktop.engine.began(), [again_at], "{what}");
    assert_eq!(desktop.hub.status(id), "completed", "{what}");
}

#[tokio::test(start_paused = true)]
async fn a_lost_answer_is_asked_for_again_in_the_next_cycle_as_the_same_attempt() {
    is_asked_again("lost on the way back", Answer::DoneThenBroken, 20).await;
    is_asked_again("never got there", Answer::Unreachable, 20).await;
    is_asked_again("done, then silence", Answer::DoneThenHang, 40).await;
    is_asked_again("silence", Answer::Hang, 40).await;
    is_asked_again("no sense", Answer::Plain(200, "<html>".to_owned()), 20).await;
    for status in [400, 401, 429, 500, 503] {
        is_asked_again(&status.to_string(), Answer::status(status), 20).await;
    }
}

#[tokio::test(start_paused = true)]
async fn a_command_that_the_hub_has_ended_is_dropped_and_nothing_is_reported() {
    let settled = |status: &str| json!({"status": status, "server_time": "2026-08-01T00:00:00Z"}).to_string();
    let answers = [
        Answer::Plain(409, settled("cancelled")),
        Answer::status(404),
        Answer::status(410),
        Answer::status(422),
        Answer::Plain(200, settled("cancelled")),
        Answer::Plain(200, settled("failed")),
        Answer::Plain(200, settled("completed")),
    ];
    for answer in answers {
        let what = format!("{answer:?}");
        let mut desktop = Desktop::new().await;
        let dropped = desktop.ask();
        let next = desktop.ask();
        desktop.hub.always_for(dropped, Call::Start, answer);
        desktop.start();
        desktop.wait(60).await;
        assert_eq!(desktop.state(dropped).await, Some(State::Dropped), "{what}");
        assert_eq!(desktop.hub.status(next), "completed", "{what}: what was behind it still waits");
        assert_eq!((desktop.engine.runs().len(), desktop.hub.seen(Call::Complete).len()), (1, 1), "{what}");
        assert_eq!(desktop.hub.times(Call::Start), [0, 0], "{what}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_command_cancelled_while_it_waits_here_never_runs() {
    let mut desktop = Desktop::new().await;
    let (running, waiting) = (desktop.ask(), desktop.ask());
    desktop.start();
    desktop.until(2).await;
    desktop.hub.request_cancel(waiting);
    desktop.until(30).await;
    assert_eq!(
        (desktop.hub.status(running).as_str(), desktop.hub.status(waiting).as_str()),
        ("completed", "cancelled")
    );
    assert_eq!(desktop.state(waiting).await, Some(State::Dropped));
    assert_eq!(desktop.engine.runs().len(), 1);
}

#[tokio::test(start_paused = true)]
async fn a_start_that_keeps_failing_is_asked_for_with_each_cycle_and_not_more() {
    let mut desktop = Desktop::new().await;
    let id = desktop.ask();
    desktop.hub.always(Call::Start, Answer::status(503));
    desktop.start();
    desktop.until(119).await;
    assert_eq!(desktop.hub.times(Call::Start), [0, 20, 40, 60, 80, 100]);
    assert_eq!(desktop.hub.times(Call::Sync), [0, 20, 40, 60, 80, 100]);
    let held = desktop.hub.seen(Call::Sync).pop().unwrap().body();
    assert_eq!((&held["known"], &held["accept"]), (&json!([id]), &json!(false)));
    desktop.hub.heal();
    desktop.until(126).await;
    assert_eq!(desktop.hub.status(id), "completed");
}

#[tokio::test(start_paused = true)]
async fn nothing_runs_before_the_hub_has_agreed() {
    let mut desktop = Desktop::new().await;
    let id = desktop.ask();
    desktop.hub.once(Call::Start, Answer::Late(Duration::from_secs(9)));
    desktop.start();
    desktop.until(8).await;
    assert_eq!((desktop.state(id).await, desktop.engine.runs().len()), (Some(State::Received), 0));
    desktop.until(10).await;
    assert_eq!((desktop.state(id).await, desktop.engine.began()), (Some(State::Running), vec![9]));
}
