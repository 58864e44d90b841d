//! Cancels: looked for every 3 s, passed on once, reported as such (SPEC 1.6).

use super::harness::*;
use fleet::{Engine, Event, GraphError, Status, TokenUsage};
use serde_json::json;
use std::time::Duration;

#[tokio::test(start_paused = true)]
async fn a_run_is_looked_after_every_3_seconds() {
    let mut desktop = Desktop::new().await;
    desktop.ask();
    desktop.engine.plan(Plan::takes(11));
    desktop.start();
    desktop.until(20).await;
    assert_eq!(desktop.hub.times(Call::Check), [3, 6, 9]);
}

#[tokio::test(start_paused = true)]
async fn a_cancel_is_terminal_within_the_check_interval_whenever_it_is_asked_for() {
    for asked_at_ms in (200..9_000).step_by(400) {
        let mut desktop = Desktop::new().await;
        let id = desktop.ask();
        desktop.engine.plan(Plan::takes(3_600));
        desktop.start();
        desktop.until_ms(asked_at_ms).await;
        desktop.hub.request_cancel(id);
        while desktop.hub.status(id) == "running" {
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
        let took = desktop.clock.elapsed() - Duration::from_millis(asked_at_ms);
        assert!(took <= Duration::from_millis(3_020), "asked at {asked_at_ms} ms, terminal after {took:?}");
        assert_eq!(desktop.hub.status(id), "cancelled");
        assert_eq!(desktop.engine.cancels(), 1);
    }
}

#[tokio::test(start_paused = true)]
async fn a_run_that_takes_long_to_stop_is_cancelled_once() {
    let mut desktop = Desktop::new().await;
    let id = desktop.ask();
    desktop.engine.plan(Plan { stops_in: Some(Duration::from_secs(60)), ..Plan::takes(3_600) });
    desktop.start();
    desktop.until(1).await;
    desktop.hub.request_cancel(id);
    desktop.until(70).await;
    assert_eq!(desktop.engine.cancels(), 1);
    let report = desktop.hub.report(id);
    assert_eq!((&report["status"], &report["message"]), (&json!("cancelled"), &json!("cancelled on request")));
    assert_eq!(desktop.execution(id).await.status, "cancelled");
}

#[tokio::test(start_paused = true)]
async fn a_graph_that_finishes_between_flag_and_stop_is_reported_cancelled_and_kept_whole_here() {
    let mut desktop = Desktop::new().await;
    let id = desktop.ask();
    desktop.engine.plan(Plan { stops_in: None, ..Plan::takes(7).returns(json!({"sum": 3})) });
    desktop.start();
    desktop.until(5).await;
    desktop.hub.request_cancel(id);
    desktop.until(10).await;
    let report = desktop.hub.report(id);
    assert_eq!((&report["status"], report.get("result")), (&json!("cancelled"), None));
    let execution = desktop.execution(id).await;
    assert_eq!((execution.status.as_str(), execution.result), ("completed", Some(json!({"sum": 3}))));
}

#[tokio::test(start_paused = true)]
async fn a_cancel_after_the_last_look_changes_nothing() {
    let mut desktop = Desktop::new().await;
    let id = desktop.ask();
    desktop.engine.plan(Plan::takes(5));
    desktop.start();
    desktop.until(4).await;
    desktop.hub.request_cancel(id);
    desktop.until(10).await;
    assert_eq!((desktop.hub.status(id).as_str(), desktop.engine.cancels()), ("completed", 0));
}

#[tokio::test(start_paused = true)]
async fn a_check_that_fails_does_not_stop_the_run() {
    let failures = [
        Answer::status(500),
        Answer::status(401),
        Answer::status(404),
        Answer::Hang,
        Answer::Unreachable,
        Answer::TooLarge,
        Answer::Plain(200, "[]".to_owned()),
        Answer::Plain(200, r#"{"status": "running", "server_time": "2026-08-01T00:00:00Z"}"#.to_owned()),
    ];
    for answer in failures {
        let what = format!("{answer:?}");
        let mut desktop = Desktop::new().await;
        let id = desktop.ask();
        desktop.engine.plan(Plan::takes(100));
        desktop.hub.always(Call::Check, answer);
        desktop.start();
        desktop.wait(102).await;
        assert_eq!(desktop.hub.status(id), "completed", "{what}");
        assert!(desktop.hub.seen(Call::Check).len() >= 3, "{what}: one failure ended the looks");
        assert_eq!(desktop.engine.cancels(), 0, "{what}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_check_that_hangs_costs_its_timeout_and_then_the_cancel_is_seen() {
    let mut desktop = Desktop::new().await;
    let id = desktop.ask();
    desktop.engine.plan(Plan::takes(3_600));
    desktop.hub.once(Call::Check, Answer::Hang);
    desktop.start();
    desktop.until(4).await;
    desktop.hub.request_cancel(id);
    desktop.until(37).await;
    assert_eq!(desktop.hub.status(id), "cancelled");
}

#[tokio::test(start_paused = true)]
async fn checks_tell_how_the_run_goes() {
    let mut desktop = Desktop::new().await;
    desktop.ask();
    let tokens = TokenUsage { input_tokens: 700, output_tokens: 300, estimated: false };
    let events = vec![
        Event::PhaseStarted { title: "Read".to_owned() },
        Event::Progress { done: 2.0, total: 9.0, message: Some("a.txt".to_owned()) },
        Event::AgentFinished { agent: 1, tokens, cost: None, duration_ms: 5 },
    ];
    desktop.engine.plan(Plan { events: events.clone(), ..Plan::takes(5) });
    desktop.start();
    desktop.until(6).await;
    let told = desktop.hub.seen(Call::Check)[0].body();
    let expected = json!({"phase": "Read", "message": "a.txt", "done": 2, "total": 9, "total_tokens": 1_000});
    assert_eq!(told, expected);

    let id = desktop.history().await[0].id;
    let kept = desktop.store.read(move |connection| crate::store::executions::events(connection, id)).await.unwrap();
    assert_eq!(kept[1..].iter().map(|recorded| recorded.event.clone()).collect::<Vec<_>>(), events);
}

#[tokio::test(start_paused = true)]
async fn the_owner_s_own_cancel_is_told_as_his() {
    let mut desktop = Desktop::new().await;
    let id = desktop.ask();
    desktop.engine.plan(Plan::takes(3_600));
    desktop.start();
    desktop.until(2).await;
    assert!(desktop.engine.cancel(desktop.engine.runs()[0].execution));
    desktop.until(3).await;
    assert_eq!(desktop.hub.report(id)["status"], "cancelled");
    assert_eq!(desktop.hub.report(id)["message"], "the run was cancelled");
}

#[tokio::test(start_paused = true)]
async fn a_failed_run_is_reported_with_its_place_and_the_next_one_runs() {
    let mut desktop = Desktop::new().await;
    let (bad, good) = (desktop.ask(), desktop.ask());
    let error = GraphError {
        file: Some("digest.js".to_owned()),
        line: Some(2),
        ..GraphError::new("TypeError", "", "語".repeat(5_000))
    };
    desktop.engine.plan(Plan { outcome: ended_by(Status::Failed, error), ..Plan::takes(1) });
    desktop.start();
    desktop.until(10).await;
    let report = desktop.hub.report(bad);
    let message = report["message"].as_str().unwrap();
    assert!(message.starts_with("digest.js:2: TypeError: 語") && message.encode_utf16().count() == 2_000, "{message}");
    assert_eq!((&report["status"], desktop.hub.status(good).as_str()), (&json!("failed"), "completed"));
}
