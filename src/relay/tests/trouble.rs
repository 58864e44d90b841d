//! A hub that misbehaves costs time, never the daemon, never a command.

use super::harness::*;
use serde_json::json;
use std::time::Duration;

/// One bad answer to a sync, then a hub that works: the next tick brings and runs the command.
async fn survives(what: &str, answer: Answer, told: &str) {
    let mut desktop = Desktop::new().await;
    let id = desktop.ask();
    desktop.hub.once(Call::Sync, answer);
    let relay = desktop.start();
    desktop.wait(1).await;
    let problem = relay.health().problem.unwrap_or_default();
    assert!(problem.contains(told), "{what}: the owner reads `{problem}`");
    assert!(problem.len() < 500, "{what}: the owner reads {} bytes", problem.len());
    desktop.wait(30).await;
    assert_eq!(desktop.hub.times(Call::Sync)[..2], [0, 20], "{what}");
    assert_eq!(desktop.hub.status(id), "completed", "{what}");
    assert_eq!(relay.health().problem, None, "{what}: over, but still told");
    assert!(desktop.is_alive(), "{what}");
}

#[tokio::test(start_paused = true)]
async fn an_answer_that_makes_no_sense_is_told_and_asked_for_again() {
    let flood = format!(r#"{{"commands": "{}", "server_time": 1}}"#, "x".repeat(1_000_000));
    let answers = [
        "",
        "<!doctype html><title>Sign in to Wi-Fi</title>",
        "[]",
        "null",
        r#"{"commands": 3, "server_time": "2026-08-01T00:00:00Z"}"#,
        r#"{"commands": []}"#,
        r#"{"commands": [], "server_time": "soon"}"#,
        r#"{"commands": [{"command_id": "0199c0de"#,
        "\u{feff}{}",
        &flood,
    ];
    for body in answers {
        survives(&body[..body.len().min(60)], Answer::Plain(200, body.to_owned()), "makes no sense").await;
    }
}

#[tokio::test(start_paused = true)]
async fn a_status_that_is_no_success_is_told_and_asked_for_again() {
    for (status, told) in [
        (401, "does not accept this desktop's token"),
        (403, "does not accept this desktop's token"),
        (400, "the hub refused (400)"),
        (404, "the hub refused (404)"),
        (304, "the hub refused (304)"),
        (429, "the hub answered 429"),
        (500, "the hub answered 500"),
        (503, "the hub answered 503"),
    ] {
        survives(&status.to_string(), Answer::status(status), told).await;
    }
    survives("a redirect", Answer::Redirect("https://elsewhere.example/"), "redirects to `https://elsewhere").await;
    survives("too large", Answer::TooLarge, "larger than 8 MiB").await;
    survives("no connection", Answer::Unreachable, "cannot be reached").await;
}

#[tokio::test(start_paused = true)]
async fn a_hub_that_never_answers_is_given_up_after_the_timeout() {
    let mut desktop = Desktop::new().await;
    let id = desktop.ask();
    desktop.hub.once(Call::Sync, Answer::Hang);
    let relay = desktop.start();
    desktop.until(31).await;
    assert_eq!(relay.health().problem.as_deref(), Some("the hub did not answer within 30s"));
    desktop.until(50).await;
    assert_eq!(desktop.hub.times(Call::Sync)[..2], [0, 40], "the ticks go on");
    assert_eq!(desktop.hub.status(id), "completed");
}

#[tokio::test(start_paused = true)]
async fn a_hub_that_wants_to_be_left_alone_is() {
    let mut desktop = Desktop::new().await;
    desktop.hub.once(Call::Sync, Answer::RetryAfter(429, 70));
    let relay = desktop.start();
    desktop.until(30).await;
    relay.sharing_changed();
    desktop.until(65).await;
    assert!(relay.health().problem.unwrap().contains("429"), "a hub that is left alone is not a hub that works");
    desktop.until(105).await;
    assert_eq!(desktop.hub.times(Call::Sync), [0, 80, 100]);
    assert_eq!(relay.health().problem, None);
}

#[tokio::test(start_paused = true)]
async fn a_hub_cannot_send_the_desktop_away_for_good() {
    let mut desktop = Desktop::new().await;
    desktop.hub.once(Call::Sync, Answer::RetryAfter(503, u64::MAX));
    desktop.start();
    desktop.until(3_700).await;
    assert!(desktop.hub.times(Call::Sync).len() > 1, "one number from the hub has taken the desktop off line");
}

#[tokio::test(start_paused = true)]
async fn trouble_with_one_project_does_not_keep_another_waiting() {
    let mut desktop = Desktop::new().await;
    let first = protocol::Project { id: project("a-first"), name: "First".to_owned() };
    desktop
        .change(move |tx| {
            crate::store::sharing::remember_projects(tx, HUB, &[first])?;
            crate::store::sharing::switch(tx, HUB, &project("a-first"), true)
        })
        .await;
    let id = desktop.ask();
    desktop.hub.once(Call::Sync, Answer::status(404)); // a-first was deleted at the hub
    desktop.start();
    desktop.until(6).await;
    assert_eq!(desktop.hub.status(id), "completed");
}

#[tokio::test(start_paused = true)]
async fn a_hub_cannot_fill_the_disk_with_arguments() {
    let mut desktop = Desktop::new().await;
    let id = protocol::CommandId::new();
    let mut entry = desktop.entry(id);
    entry["arguments"] = json!({"text": "x".repeat(1_000_000)});
    desktop.hub.queue(PROJECT, entry);
    desktop.start();
    desktop.until(2).await;
    assert_eq!(desktop.hub.report(id)["status"], "failed");
    let kept: i64 = desktop
        .store
        .read(|connection| {
            let sql = "SELECT sum(length(arguments) + length(slug) + length(coalesce(problem, ''))) FROM commands";
            Ok(connection.query_row(sql, [], |row| row.get(0))?)
        })
        .await
        .unwrap();
    assert!(kept < 3_000, "{kept} bytes of it are kept");
}

#[tokio::test(start_paused = true)]
async fn an_evening_of_every_kind_of_trouble_ends_with_every_command_reported_once() {
    let mut desktop = Desktop::new().await;
    let asked: Vec<_> = (0..6).map(|_| desktop.ask()).collect();
    for call in [Call::Sync, Call::Start, Call::Check, Call::Complete] {
        for answer in [
            Answer::DoneThenBroken,
            Answer::status(500),
            Answer::DoneThenHang,
            Answer::Plain(200, "<html>".to_owned()),
            Answer::Hang,
            Answer::RetryAfter(429, 30),
            Answer::Late(Duration::from_secs(29)),
            Answer::Unreachable,
            Answer::TooLarge,
        ] {
            desktop.hub.once(call, answer);
        }
    }
    desktop.start();
    desktop.until(3_600).await;
    assert_eq!(desktop.engine.runs().len(), asked.len());
    for id in asked {
        assert_eq!(
            (desktop.hub.status(id).as_str(), desktop.hub.report(id)["result"]["ok"].as_bool()),
            ("completed", Some(true))
        );
    }
    assert_eq!(desktop.outbox().await, outbox::Stats::default());
}
