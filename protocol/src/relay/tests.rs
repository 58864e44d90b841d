//! What a desktop makes of what a hub sends, well-formed or not.

use serde_json::json;

use super::*;
use crate::CompletionStatus;

const ID: &str = "0199c0de-0000-7000-8000-000000000001";

fn entry() -> Value {
    json!({
        "command_id": ID,
        "graph_session_id": format!("gs_{}", "0a".repeat(16)),
        "slug": "digest",
        "arguments": {"folder": "notes", "depth": 2},
        "queued_at": "2026-01-02T03:04:05.678Z",
    })
}

fn with(field: &str, value: Value) -> Value {
    let mut entry = entry();
    entry[field] = value;
    entry
}

#[test]
fn a_queued_command_is_read_and_written_alike() {
    let command = QueuedCommand::parse(&entry()).unwrap();
    assert_eq!(command.command_id.channel(), format!("graph:external:{ID}"));
    assert_eq!(command.arguments["depth"], 2);
    assert_eq!(serde_json::to_value(&command).unwrap(), entry());
}

#[test]
fn a_field_that_a_newer_hub_adds_is_ignored() {
    assert_eq!(QueuedCommand::parse(&with("priority", json!(1))), QueuedCommand::parse(&entry()));
}

#[test]
fn without_a_uuid_there_is_no_command() {
    let bad_ids = [json!("42"), json!("../../etc/passwd"), json!(7), json!(null), json!(ID.replace('-', ""))];
    let entries = bad_ids.map(|id| with("command_id", id));
    for bad in entries.iter().chain(&[json!({}), json!([]), json!("x"), json!(null)]) {
        assert!(matches!(QueuedCommand::parse(bad), Err(BadCommand::Id(_))), "{bad}");
    }
}

#[test]
fn a_command_with_a_bad_body_keeps_its_id_so_that_it_can_be_ended() {
    let mut bad_entries = vec![
        with("graph_session_id", json!("gs_1")),
        with("arguments", json!([1])),
        with("arguments", json!(null)),
        with("slug", json!(5)),
        with("queued_at", json!("yesterday")),
    ];
    for field in ["graph_session_id", "slug", "arguments", "queued_at"] {
        let mut entry = entry();
        entry.as_object_mut().unwrap().remove(field);
        bad_entries.push(entry);
    }
    for bad in bad_entries {
        let error = QueuedCommand::parse(&bad).unwrap_err();
        let text = error.to_string();
        assert!(text.starts_with("the hub sent a malformed command: "), "{text}");
        assert!(matches!(error, BadCommand::Body { command_id, .. } if command_id.to_string() == ID));
    }
    let missing = QueuedCommand::parse(&json!({"command_id": ID})).unwrap_err();
    assert!(missing.to_string().contains("graph_session_id"), "{missing}");
}

#[test]
fn one_senseless_command_hides_no_other() {
    let answer = json!({"commands": [7, entry()], "server_time": "2026-01-02T03:04:05Z", "new": true});
    let answer: SyncResponse = serde_json::from_value(answer).unwrap();
    let good: Vec<_> = answer.commands.iter().filter_map(|entry| QueuedCommand::parse(entry).ok()).collect();
    assert_eq!(good.len(), 1);
}

#[test]
fn a_sync_answer_needs_only_the_time() {
    let answer: SyncResponse = serde_json::from_value(json!({"server_time": "2026-01-02T03:04:05Z"})).unwrap();
    assert_eq!((answer.commands.len(), answer.next_poll_s), (0, None));
    assert!(serde_json::from_value::<SyncResponse>(json!({"commands": []})).is_err());
}

#[test]
fn a_status_is_the_same_word_everywhere() {
    use CommandStatus as Command;
    let command = [Command::Queued, Command::Running, Command::Completed, Command::Failed, Command::Cancelled];
    let words = command.map(Command::as_str);
    assert_eq!(words, ["queued", "running", "completed", "failed", "cancelled"]);
    assert_eq!(json!(command), json!(words));
    assert_eq!(command.map(Command::is_settled), [false, false, true, true, true]);

    let completion = [CompletionStatus::Completed, CompletionStatus::Failed, CompletionStatus::Cancelled];
    assert_eq!(completion.map(CompletionStatus::as_str), words[2..]);
    assert_eq!(json!(completion), json!(words[2..]));
    assert_eq!(completion.map(Command::from), command[2..]);
}

#[test]
fn an_idle_check_is_an_empty_object() {
    assert_eq!(serde_json::to_value(CheckRequest::default()).unwrap(), json!({}));
}

#[test]
fn a_step_has_its_path() {
    let id = ID.parse().unwrap();
    assert_eq!(path::command(&id, "start"), format!("/external-assistants/graph-relays/commands/{ID}/start"));
}
