//! The wake channel: work is fetched as soon as it is there, and the hub is not asked in a loop.

use super::harness::*;
use crate::store::sharing;
use serde_json::json;

/// Requests of any kind in one minute that a hub which has nothing new may cost at most.
const CALM: usize = 40;

#[tokio::test(start_paused = true)]
async fn a_command_is_fetched_at_once() {
    let mut desktop = Desktop::new().await.with_wake_channel();
    desktop.start();
    desktop.until(7).await;
    let first = desktop.ask();
    desktop.until_ms(7_001).await;
    assert_eq!((desktop.engine.began(), desktop.hub.status(first).as_str()), (vec![7], "running"));

    desktop.until(9).await;
    let second = desktop.ask();
    desktop.until(18).await;
    assert_eq!((desktop.engine.began(), desktop.hub.status(second).as_str()), (vec![7, 12], "completed"));
}

#[tokio::test(start_paused = true)]
async fn a_cancel_is_seen_at_once() {
    let mut desktop = Desktop::new().await.with_wake_channel();
    let id = desktop.ask();
    desktop.engine.plan(Plan::takes(3_600));
    desktop.start();
    desktop.until_ms(4_000).await;
    desktop.hub.request_cancel(id);
    desktop.until_ms(4_010).await;
    assert_eq!((desktop.hub.status(id).as_str(), desktop.engine.cancels()), ("cancelled", 1));
}

#[tokio::test(start_paused = true)]
async fn an_idle_desktop_holds_one_request_open_and_asks_again_when_it_ends() {
    let mut desktop = Desktop::new().await.with_wake_channel();
    desktop.start();
    desktop.until(170).await;
    assert_eq!(desktop.hub.times(Call::Wait), [0, 50, 100, 150]);
    let expected = json!({"projects": [PROJECT], "timeout_s": 50});
    assert_eq!(desktop.hub.seen(Call::Wait)[0].body(), expected);
}

#[tokio::test(start_paused = true)]
async fn while_a_run_is_on_what_waits_at_the_hub_is_not_asked_for_in_a_loop() {
    let mut desktop = Desktop::new().await.with_wake_channel();
    desktop.ask();
    desktop.engine.plan(Plan::takes(3_600));
    desktop.start();
    desktop.until(2).await;
    desktop.ask(); // waits at the hub all the time
    let before = desktop.hub.calls().len();
    desktop.until(62).await;
    let calls: Vec<_> = desktop.hub.calls().into_iter().skip(before).filter(|call| *call != Call::Check).collect();
    assert!(calls.len() <= 8, "{calls:?}");
}

#[tokio::test(start_paused = true)]
async fn another_choice_of_projects_is_listened_for_at_once() {
    let mut desktop = Desktop::new().await.with_wake_channel();
    desktop.change(|tx| sharing::switch(tx, HUB, &project(PROJECT), false)).await;
    desktop.start();
    desktop.until(30).await;
    assert_eq!(desktop.hub.calls(), [], "no project is on, so there is nothing to listen for");
    desktop.change(|tx| sharing::switch(tx, HUB, &project(PROJECT), true)).await;
    desktop.until(31).await;
    assert_eq!(desktop.hub.times(Call::Wait), [30]);
    desktop.change(|tx| sharing::switch(tx, HUB, &project(PROJECT), false)).await;
    desktop.until(120).await;
    assert_eq!(desktop.hub.times(Call::Wait), [30], "the project is off, and still listened for");
}

#[tokio::test(start_paused = true)]
async fn a_hub_without_a_wake_channel_is_polled() {
    for answer in [Answer::status(404), Answer::Unreachable, Answer::Plain(200, "{}".to_owned()), Answer::Hang] {
        let what = format!("{answer:?}");
        let mut desktop = Desktop::new().await.with_wake_channel();
        desktop.hub.always(Call::Wait, answer);
        desktop.start();
        desktop.wait(5).await;
        let id = desktop.ask();
        desktop.wait(60).await;
        assert_eq!(desktop.hub.times(Call::Sync)[..2], [0, 20], "{what}");
        assert_eq!((desktop.engine.began(), desktop.hub.status(id).as_str()), (vec![20], "completed"), "{what}");
        assert!(desktop.hub.seen(Call::Wait).len() <= 4, "{what}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_hub_that_wakes_for_nothing_is_not_asked_in_a_loop() {
    for wake in [true, false] {
        let mut desktop = Desktop::new().await.with_wake_channel();
        desktop.hub.answer_every_wait_at_once(wake);
        desktop.start();
        desktop.wait(60).await;
        let calls = desktop.hub.calls().len();
        assert!(calls <= CALM, "wake: {wake}, {calls} requests in a minute");
    }
}

#[tokio::test(start_paused = true)]
async fn work_that_cannot_be_taken_now_is_not_asked_for_in_a_loop() {
    for call in [Call::Start, Call::Sync] {
        let mut desktop = Desktop::new().await.with_wake_channel();
        desktop.hub.always(call, Answer::status(500));
        let id = desktop.ask();
        desktop.start();
        desktop.wait(60).await;
        let calls = desktop.hub.calls().len();
        assert!(calls <= 2 * CALM, "{call:?} fails: {calls} requests in a minute");
        desktop.hub.heal();
        desktop.wait(26).await;
        assert_eq!(desktop.hub.status(id), "completed", "{call:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_cancel_that_takes_long_is_not_asked_about_in_a_loop() {
    let mut desktop = Desktop::new().await.with_wake_channel();
    let id = desktop.ask();
    desktop.engine.plan(Plan { stops_in: None, ..Plan::takes(120) });
    desktop.start();
    desktop.until(1).await;
    desktop.hub.request_cancel(id);
    let before = desktop.hub.calls().len();
    desktop.until(61).await;
    let calls = desktop.hub.calls().len() - before;
    assert!(calls <= CALM, "{calls} requests in a minute");
    assert_eq!(desktop.engine.cancels(), 1);
}

#[tokio::test(start_paused = true)]
async fn one_command_after_another_is_fetched_at_once_too() {
    let mut desktop = Desktop::new().await.with_wake_channel();
    desktop.start();
    for nth in 1..=20_u64 {
        desktop.until(nth * 10).await;
        let id = desktop.ask();
        desktop.until_ms(nth * 10_000 + 5).await;
        assert_eq!(desktop.hub.status(id), "running", "the {nth}th waited");
    }
}
