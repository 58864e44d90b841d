//! When the relay asks, and what it tells (SPEC 1.2).

use super::harness::*;
use crate::store::sharing;
use protocol::Project;
use serde_json::{Value, json};
use std::time::Duration;

#[tokio::test(start_paused = true)]
async fn the_relay_asks_every_20_seconds() {
    let mut desktop = Desktop::new().await;
    desktop.start();
    desktop.until(65).await;
    assert_eq!(desktop.hub.times(Call::Sync), [0, 20, 40, 60]);
}

#[tokio::test(start_paused = true)]
async fn what_the_owner_changes_is_told_at_once_and_the_schedule_stays() {
    let mut desktop = Desktop::new().await;
    desktop.start();
    desktop.until(5).await;
    let session = desktop.session();
    desktop.change(move |tx| sharing::unshare(tx, HUB, &project(PROJECT), &session)).await;
    desktop.until(25).await;
    assert_eq!(desktop.hub.times(Call::Sync), [0, 5, 20]);
    let told: Vec<_> = desktop.hub.seen(Call::Sync).iter().map(|sync| sync.body()["sessions"].clone()).collect();
    assert_eq!(told[0][0]["slug"], GRAPH);
    assert_eq!(told[1], json!([]), "the hub would go on offering what is no longer shared");
}

#[tokio::test(start_paused = true)]
async fn a_tick_during_a_busy_cycle_is_skipped_and_not_queued() {
    let mut desktop = Desktop::new().await;
    desktop.hub.once(Call::Sync, Answer::Late(Duration::from_secs(25)));
    desktop.start();
    desktop.until(65).await;
    assert_eq!(desktop.hub.times(Call::Sync), [0, 40, 60]);
}

#[tokio::test(start_paused = true)]
async fn a_change_during_a_busy_cycle_is_told_right_after_it() {
    let mut desktop = Desktop::new().await;
    desktop.hub.once(Call::Sync, Answer::Late(Duration::from_secs(7)));
    let relay = desktop.start();
    for second in [2, 3, 4] {
        desktop.until(second).await;
        relay.sharing_changed();
    }
    desktop.until(15).await;
    assert_eq!(desktop.hub.times(Call::Sync), [0, 7], "three changes are one more cycle");
}

#[tokio::test(start_paused = true)]
async fn reports_go_out_before_new_work_is_asked_for() {
    let mut desktop = Desktop::new().await;
    desktop.ask();
    desktop.engine.plan(Plan::takes(10));
    desktop.start();
    desktop.until(12).await;
    assert_eq!(desktop.hub.calls()[..2], [Call::Sync, Call::Start]);
    let since_the_end: Vec<_> = desktop.hub.calls().into_iter().filter(|call| *call != Call::Check).skip(2).collect();
    assert_eq!(since_the_end, [Call::Complete, Call::Sync]);
    assert_eq!(desktop.hub.times(Call::Sync), [0, 10], "a worker that falls idle asks at once");
}

#[tokio::test(start_paused = true)]
async fn each_project_that_is_on_has_its_own_sync_and_no_other_is_mentioned() {
    let mut desktop = Desktop::new().await;
    let projects: Vec<_> =
        ["a-on", "b-off"].map(|id| Project { id: project(id), name: format!("Project {id}") }).to_vec();
    desktop
        .change(move |tx| {
            sharing::remember_projects(tx, HUB, &projects)?;
            sharing::remember_projects(tx, "https://other.example", &projects)?;
            sharing::switch(tx, "https://other.example", &project("b-off"), true)?;
            sharing::switch(tx, HUB, &project("a-on"), true)
        })
        .await;
    desktop.start();
    desktop.until(1).await;
    let asked: Vec<Value> = desktop.hub.seen(Call::Sync).iter().map(|sync| sync.body()["project_id"].clone()).collect();
    assert_eq!(asked, ["a-on", PROJECT]);
}

#[tokio::test(start_paused = true)]
async fn with_no_project_on_nothing_is_sent_at_all() {
    let mut desktop = Desktop::new().await;
    desktop.change(|tx| sharing::switch(tx, HUB, &project(PROJECT), false)).await;
    desktop.start();
    desktop.until(65).await;
    assert_eq!(desktop.hub.calls(), []);
}

#[tokio::test(start_paused = true)]
async fn a_sync_tells_who_asks_and_what_is_shared_but_no_script() {
    let mut desktop = Desktop::new().await;
    desktop.start();
    desktop.until(1).await;
    let sync = &desktop.hub.seen(Call::Sync)[0];
    let expected = json!({
        "project_id": PROJECT,
        "device": {"id": "desktop-1", "name": "Ada's laptop", "version": env!("CARGO_PKG_VERSION"), "busy": false},
        "known": [],
        "sessions": [{
            "id": desktop.session(), "name": GRAPH, "description": "", "slug": GRAPH, "version": 1, "status": "ready",
        }],
        "accept": true,
    });
    assert_eq!(sync.body(), expected);
}

#[tokio::test(start_paused = true)]
async fn while_a_run_is_on_cycles_go_on_but_take_nothing() {
    let mut desktop = Desktop::new().await;
    let first = desktop.ask();
    desktop.engine.plan(Plan::takes(50));
    desktop.start();
    desktop.until(10).await;
    let second = desktop.ask();
    desktop.until(48).await;
    for sync in &desktop.hub.seen(Call::Sync)[1..] {
        let told = sync.body();
        assert_eq!(
            (&told["accept"], &told["device"]["busy"], &told["known"]),
            (&json!(false), &json!(true), &json!([first]))
        );
    }
    assert_eq!(desktop.hub.times(Call::Sync), [0, 20, 40]);
    assert_eq!(desktop.state(second).await, None);

    desktop.until(52).await;
    assert_eq!(desktop.engine.began(), [0, 50], "the worker fell idle, and the next command had to wait for a tick");
}

#[tokio::test(start_paused = true)]
async fn a_laptop_that_wakes_up_asks_within_seconds() {
    let mut desktop = Desktop::new().await;
    desktop.start();
    desktop.until(3).await;
    desktop.clock.sleep(Duration::from_secs(8 * 3600));
    desktop.until(39).await;
    assert_eq!(desktop.hub.times(Call::Sync), [0, 10, 20]);
}

#[tokio::test(start_paused = true)]
async fn health_tells_the_last_sync_and_the_hub_s_clock() {
    let mut desktop = Desktop::new().await;
    let theirs = "2027-01-01T00:00:00Z".parse::<jiff::Timestamp>().unwrap();
    desktop.hub.once(Call::Sync, Answer::Plain(200, json!({"commands": [], "server_time": theirs}).to_string()));
    let relay = desktop.start();
    desktop.until(1).await;
    let health = relay.health();
    let skew_ms = theirs.as_millisecond() - protocol::Clock::now_ms(&*desktop.clock);
    assert!((health.clock_skew_ms - skew_ms - 1_000).abs() <= 2, "{health:?}");
    assert!(health.last_sync_ms.is_some() && health.problem.is_none(), "{health:?}");
    desktop.until(21).await;
    assert_eq!(relay.health().clock_skew_ms, 0);
}
