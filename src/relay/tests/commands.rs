//! Commands: in order, one at a time, once (SPEC 1.4, 1.5).

use super::harness::*;
use crate::command::State;
use crate::consent::NO_LONGER_SHARED;
use crate::store::{commands, graphs};
use protocol::{CommandId, GraphSessionId};
use serde_json::{Value, json};

#[tokio::test(start_paused = true)]
async fn five_commands_queued_together_finish_one_after_the_other() {
    let mut desktop = Desktop::new().await;
    let asked: Vec<_> = (0..5).map(|_| desktop.ask()).collect();
    (0..5).for_each(|_| desktop.engine.plan(Plan::takes(12)));
    desktop.start();
    desktop.until(70).await;
    assert_eq!(desktop.engine.began(), [0, 12, 24, 36, 48]);
    assert_eq!(desktop.engine.most_at_once(), 1);
    let ran: Vec<Value> = desktop.engine.runs().into_iter().map(|run| run.arguments["for"].clone()).collect();
    assert_eq!(json!(ran), json!(asked), "not in the order in which they were asked for");
    let reported: Vec<_> = desktop.hub.seen(Call::Complete).iter().map(|seen| seen.command.unwrap()).collect();
    assert_eq!(reported, asked);
}

#[tokio::test(start_paused = true)]
async fn what_was_queued_while_the_desktop_was_off_runs_in_order_when_it_is_back() {
    let mut desktop = Desktop::new().await;
    let asked: Vec<_> = (0..5).map(|_| desktop.ask()).collect();
    desktop.until(600).await;
    assert!(desktop.engine.runs().is_empty());
    desktop.start();
    desktop.until(630).await;
    assert_eq!(desktop.engine.began(), [600, 605, 610, 615, 620]);
    assert!(asked.iter().all(|id| desktop.hub.status(*id) == "completed"));
}

#[tokio::test(start_paused = true)]
async fn a_command_that_is_delivered_over_and_over_runs_once() {
    let mut desktop = Desktop::new().await;
    desktop.hub.be_forgetful();
    let id = desktop.ask();
    desktop.hub.queue(PROJECT, desktop.entry(id)); // twice in the same sync
    desktop.engine.plan(Plan::takes(45)); // and with every sync while it runs
    let relay = desktop.start();
    desktop.until(30).await;
    desktop.hub.change_entry(id, |entry| entry["arguments"] = json!({"amount": 1_000_000}));
    desktop.until(300).await; // and long after it was reported
    assert_eq!(desktop.engine.runs().len(), 1);
    assert_eq!(desktop.engine.runs()[0].arguments, json!({"for": id}));
    assert_eq!(desktop.hub.seen(Call::Complete).len(), 1);
    assert_eq!((desktop.state(id).await, relay.health().problem), (Some(State::Reported), None));
}

#[tokio::test(start_paused = true)]
async fn an_id_in_capital_letters_is_the_same_command() {
    let mut desktop = Desktop::new().await;
    desktop.hub.be_forgetful();
    let id = desktop.ask();
    desktop.start();
    desktop.until(15).await;
    desktop.hub.change_entry(id, |entry| entry["command_id"] = json!(id.to_string().to_uppercase()));
    desktop.until(60).await;
    assert_eq!(desktop.engine.runs().len(), 1);
}

#[tokio::test(start_paused = true)]
async fn nonsense_in_the_queue_runs_nothing_and_hides_nothing() {
    let mut desktop = Desktop::new().await;
    let entry = desktop.entry(CommandId::new());
    let nonsense = [Value::Null, json!(3), json!([]), json!({}), json!({"command_id": 7}), json!("run it")];
    nonsense.into_iter().for_each(|nonsense| desktop.hub.queue(PROJECT, nonsense));
    for id in
        ["", "1", "../../etc/passwd", "{0199c0de-0000-7000-8000-000000000001}", "0199c0de000070008000000000000001"]
    {
        let mut entry = entry.clone();
        entry["command_id"] = json!(id);
        desktop.hub.queue(PROJECT, entry);
    }
    let good = desktop.ask();
    desktop.start();
    desktop.until(70).await;
    assert_eq!(desktop.engine.runs().len(), 1);
    assert_eq!(desktop.hub.status(good), "completed");
    let refused = desktop.store.read(commands::refused).await.unwrap();
    assert_eq!(refused.len(), 5, "each kind of nonsense is told to the owner once: {refused:?}");
    assert_eq!(desktop.hub.times(Call::Sync), [0, 5, 20, 40, 60]);
}

#[tokio::test(start_paused = true)]
async fn what_has_an_id_but_makes_no_sense_ends_as_failed_with_the_reason() {
    let mut desktop = Desktop::new().await;
    let broken = [
        ("arguments", json!([1, 2])),
        ("arguments", json!("amount=1")),
        ("arguments", Value::Null),
        ("graph_session_id", json!("gs_1")),
        ("slug", json!(7)),
        ("queued_at", json!("yesterday")),
    ];
    let asked: Vec<_> = broken
        .iter()
        .map(|(field, value)| {
            let id = CommandId::new();
            let mut entry = desktop.entry(id);
            entry[field] = value.clone();
            desktop.hub.queue(PROJECT, entry);
            id
        })
        .collect();
    desktop.start();
    desktop.until(1).await;
    assert!(desktop.engine.runs().is_empty());
    for (id, (field, _)) in asked.into_iter().zip(broken) {
        let report = desktop.hub.report(id);
        assert_eq!((&report["status"], &report["execution_id"]), (&json!("failed"), &Value::Null), "{field}");
        assert!(report["message"].as_str().unwrap().starts_with("the hub sent a malformed command"), "{report}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_session_that_is_not_on_this_desktop_is_not_shared() {
    let mut desktop = Desktop::new().await;
    let id = CommandId::new();
    let mut entry = desktop.entry(id);
    entry["graph_session_id"] = json!(GraphSessionId::generate());
    desktop.hub.queue(PROJECT, entry);
    desktop.start();
    desktop.until(1).await;
    let expected = json!({"execution_id": null, "status": "cancelled", "message": NO_LONGER_SHARED});
    assert_eq!(desktop.hub.report(id), expected);
    assert!(desktop.engine.runs().is_empty());
}

#[tokio::test(start_paused = true)]
async fn a_run_is_bound_to_the_project_that_asked_before_it_begins() {
    let mut desktop = Desktop::new().await;
    let id = desktop.ask();
    desktop.start();
    desktop.until(1).await;
    let execution = desktop.execution(id).await;
    assert_eq!((execution.status.as_str(), execution.channel), ("running", Some(format!("graph:external:{id}"))));
    assert_eq!((execution.graph.as_str(), execution.version), (GRAPH, Some(1)));
    let bound: (String, String, String) = desktop
        .store
        .read(|connection| {
            let sql = "SELECT channel, hub, project_id FROM bindings";
            Ok(connection.query_row(sql, [], |row| Ok((row.get(0)?, row.get(1)?, row.get(2)?)))?)
        })
        .await
        .unwrap();
    assert_eq!(bound, (id.channel(), HUB.to_owned(), PROJECT.to_owned()));
}

#[tokio::test(start_paused = true)]
async fn a_command_runs_the_version_that_is_the_latest_when_it_starts() {
    let mut desktop = Desktop::new().await;
    let (first, second) = (desktop.ask(), desktop.ask());
    desktop.start();
    desktop.until(2).await;
    let newer = graphs::NewGraph { file: "digest.js".into(), source: "return 2".into(), meta: fleet::Meta::default() };
    desktop.change(move |tx| graphs::update(tx, GRAPH, &newer, 0)).await;
    desktop.until(12).await;
    let sources: Vec<_> = desktop.engine.runs().into_iter().map(|run| run.source).collect();
    assert_eq!(sources, ["return 1", "return 2"]);
    assert_eq!((desktop.execution(first).await.version, desktop.execution(second).await.version), (Some(1), Some(2)));
}

#[tokio::test(start_paused = true)]
async fn a_command_of_a_hub_that_was_left_keeps_no_other_command_waiting() {
    let mut desktop = Desktop::new().await;
    let old = desktop.entry(CommandId::new());
    let origin = commands::Origin { hub: "https://old.example".to_owned(), project: project(PROJECT) };
    desktop.change(move |tx| commands::receive(tx, &origin, &[old], &outbox::Policy::default(), 0)).await;
    desktop.start();
    desktop.until(1).await;
    let id = desktop.ask();
    desktop.until(26).await;
    assert_eq!(desktop.hub.status(id), "completed");
}
