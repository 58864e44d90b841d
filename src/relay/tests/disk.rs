//! A full disk makes the desktop wait; it loses nothing.

use super::harness::*;
use crate::command::State;
use protocol::CommandId;
use serde_json::json;

/// Lets the database grow by so many pages from now on.
async fn allow_pages(desktop: &Desktop, pages: i64) {
    desktop
        .store
        .read(move |connection| {
            let now: i64 = connection.pragma_query_value(None, "page_count", |row| row.get(0))?;
            Ok(connection.pragma_update(None, "max_page_count", now + pages)?)
        })
        .await
        .unwrap();
}

#[tokio::test(start_paused = true)]
async fn a_run_that_ends_on_a_full_disk_is_stored_and_reported_when_there_is_room() {
    let mut desktop = Desktop::new().await;
    let (id, next) = (desktop.ask(), desktop.ask());
    desktop.engine.plan(Plan::takes(5).returns(json!("x".repeat(90_000))));
    desktop.start();
    desktop.until(3).await;
    allow_pages(&desktop, 0).await;
    desktop.until(63).await;
    assert_eq!(
        desktop.state(id).await,
        Some(State::Running),
        "the end and its report are stored together or not at all"
    );
    assert_eq!(desktop.engine.runs().len(), 1, "new work was begun that could not be reported");
    assert!(desktop.is_alive());

    allow_pages(&desktop, 1_000_000).await;
    desktop.until(80).await;
    assert_eq!((desktop.hub.status(id).as_str(), desktop.hub.status(next).as_str()), ("completed", "completed"));
    assert_eq!(desktop.hub.report(id)["result"].as_str().map(str::len), Some(90_000));
}

#[tokio::test(start_paused = true)]
async fn a_command_that_cannot_be_stored_stays_at_the_hub() {
    let mut desktop = Desktop::new().await;
    let id = CommandId::new();
    let mut entry = desktop.entry(id);
    entry["arguments"] = json!({"text": "x".repeat(100_000)});
    desktop.hub.queue(PROJECT, entry);
    allow_pages(&desktop, 2).await;
    let relay = desktop.start();
    desktop.until(50).await;
    assert_eq!((desktop.state(id).await, desktop.hub.status(id).as_str()), (None, "queued"));
    assert!(relay.health().problem.unwrap().contains("full"), "the owner is not told");
    allow_pages(&desktop, 1_000_000).await;
    desktop.until(70).await;
    assert_eq!(desktop.hub.status(id), "completed");
}
