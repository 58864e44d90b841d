//! Consent is looked at when a command is about to run, and no earlier look counts (SPEC 1.3).

use super::harness::*;
use crate::command::State;
use crate::consent::NO_LONGER_SHARED;
use crate::store::{StoreError, graphs, sharing};
use protocol::{CommandId, GraphSessionId};
use rusqlite::Transaction;
use serde_json::json;
use std::time::Duration;

type Change = fn(&Transaction<'_>, &GraphSessionId) -> Result<bool, StoreError>;

/// Each of them alone withdraws consent.
const CHANGES: [(&str, Change); 3] = [
    ("the project is switched off", |tx, _| sharing::switch(tx, HUB, &project(PROJECT), false)),
    ("the tick is taken away", |tx, session| sharing::unshare(tx, HUB, &project(PROJECT), session)),
    ("the slug is another one", |tx, _| graphs::rename(tx, GRAPH, "invoices")),
];

async fn make(desktop: &Desktop, change: Change) {
    let session = desktop.session();
    assert!(desktop.change(move |tx| change(tx, &session)).await);
}

async fn assert_ended_without_a_run(desktop: &Desktop, id: CommandId, what: &str) {
    let expected = json!({"execution_id": null, "status": "cancelled", "message": NO_LONGER_SHARED});
    assert_eq!(desktop.hub.report(id), expected, "{what}");
    assert_eq!(desktop.state(id).await, Some(State::Reported), "{what}");
    assert!(desktop.engine.runs().iter().all(|run| run.arguments["for"] != json!(id)), "{what}: it ran");
}

#[tokio::test(start_paused = true)]
async fn a_command_that_waits_does_not_run_after_the_owner_changed_his_mind() {
    for (what, change) in CHANGES {
        let mut desktop = Desktop::new().await;
        let (running, waiting) = (desktop.ask(), desktop.ask());
        desktop.start();
        desktop.wait(2).await;
        make(&desktop, change).await;
        desktop.wait(10).await;
        assert_eq!(desktop.hub.status(running), "completed", "{what}: a run that is on is not touched");
        assert_ended_without_a_run(&desktop, waiting, what).await;
        assert_eq!(desktop.hub.seen(Call::Start).len(), 1, "{what}: the hub was asked for leave to start it");
    }
}

#[tokio::test(start_paused = true)]
async fn the_owner_may_change_his_mind_while_the_hub_is_asked_for_the_start() {
    for (what, change) in CHANGES {
        let mut desktop = Desktop::new().await;
        let id = desktop.ask();
        desktop.hub.once(Call::Start, Answer::Late(Duration::from_secs(4)));
        desktop.start();
        desktop.wait(2).await;
        make(&desktop, change).await;
        desktop.wait(10).await;
        assert_ended_without_a_run(&desktop, id, what).await;
        assert!(desktop.history().await.is_empty(), "{what}: nothing ran, so there is no history");
    }
}

#[tokio::test(start_paused = true)]
async fn a_session_that_was_never_ticked_does_not_run_whatever_the_hub_sends() {
    let mut desktop = Desktop::new().await;
    let private = desktop.change(|tx| save(tx, "private", "return 2")).await;
    let id = CommandId::new();
    let mut entry = desktop.entry(id);
    entry["graph_session_id"] = json!(private.session_id);
    entry["slug"] = json!("private");
    desktop.hub.queue(PROJECT, entry);
    desktop.start();
    desktop.until(2).await;
    assert_ended_without_a_run(&desktop, id, "never ticked").await;
}

#[tokio::test(start_paused = true)]
async fn consent_given_again_counts_for_what_is_asked_later() {
    let mut desktop = Desktop::new().await;
    desktop.change(|tx| sharing::switch(tx, HUB, &project(PROJECT), false)).await;
    desktop.start();
    let id = desktop.ask();
    desktop.until(30).await;
    assert_eq!(desktop.hub.status(id), "queued", "a project that is off is not asked for");
    desktop.change(|tx| sharing::switch(tx, HUB, &project(PROJECT), true)).await;
    desktop.until(36).await;
    assert_eq!((desktop.hub.status(id).as_str(), desktop.engine.began()), ("completed", vec![30]));
}
