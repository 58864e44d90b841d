//! The four Graph tools (SPEC 3).

use std::collections::HashSet;
use std::time::Duration;

use futures::future::join_all;
use hub::{Action, Scope};
use serde_json::{Value, json};

use crate::world::{ERAS, SESSION, World};

const FOREIGN: &str = "0199c0de-0000-7000-8000-00000000ffff";

fn run(key: &str) -> Value {
    json!({"graph_session_id": SESSION, "idempotency_key": key, "arguments": {"a": 1, "b": 2}})
}

#[tokio::test]
async fn twenty_parallel_calls_with_one_key_queue_one_run() {
    let world = World::new().await;
    world.sync(&[]).await;
    let calls = join_all((0..20).map(|_| world.call("run_graph_session", run("parallel-key")))).await;
    let ids: HashSet<&str> = calls.iter().map(|answer| answer["command_id"].as_str().unwrap()).collect();
    assert_eq!(ids.len(), 1);
    assert_eq!(calls.iter().filter(|answer| answer["repeated"] == json!(false)).count(), 1);
    assert_eq!(world.sync(&[]).await.len(), 1);
}

#[tokio::test]
async fn a_key_belongs_to_one_request_of_one_connection() {
    let world = World::new().await;
    world.sync(&[]).await;
    let first = world.call("run_graph_session", run("one-key-1")).await;
    let reordered = json!({"idempotency_key": "one-key-1", "arguments": {"b": 2, "a": 1}, "graph_session_id": SESSION});
    assert_eq!(world.call("run_graph_session", reordered).await["command_id"], first["command_id"]);
    let other = json!({"graph_session_id": SESSION, "idempotency_key": "one-key-1", "arguments": {"a": 2}});
    let text = world.refusal(&world.assistant, "run_graph_session", other).await;
    assert!(text.contains("`idempotency_key`: already used"), "{text}");
    let colleague = world.connection("ada", Scope::ALL, Action::ALL).await;
    let answer = world.call_as(&colleague, "run_graph_session", run("one-key-1")).await;
    assert_ne!(answer.body["result"]["structuredContent"]["command_id"], first["command_id"]);
}

#[tokio::test]
async fn a_repeated_key_is_answered_even_when_the_session_was_withdrawn_since() {
    let world = World::new().await;
    world.sync(&[]).await;
    let first = world.call("run_graph_session", run("withdrawn-key")).await;
    world.relay("sync", &world.sync_body(&[], &[])).await;
    assert_eq!(world.call("run_graph_session", run("withdrawn-key")).await["command_id"], first["command_id"]);
}

#[tokio::test]
async fn a_bad_call_is_refused_with_the_field_and_the_rule() {
    let world = World::new().await;
    world.sync(&[]).await;
    let with = |field: &str, value: Value| {
        let mut arguments = run("a-good-key");
        arguments[field] = value;
        arguments
    };
    let cases = [
        (with("idempotency_key", json!("k".repeat(7))), "`idempotency_key`: must have at least 8 characters"),
        (with("idempotency_key", json!("k".repeat(129))), "`idempotency_key`: must have at most 128 characters"),
        (with("goal", json!("x")), "`goal`: not a field of this tool"),
        (with("arguments", json!([])), "`arguments`: must be of type object"),
        (with("arguments", json!({"x": "y".repeat(262_144)})), "`arguments`: must have at most 262144 bytes"),
        (with("graph_session_id", json!("gs_none")), "`graph_session_id`: Graph session not found"),
        (json!({"graph_session_id": SESSION}), "`idempotency_key`: required"),
    ];
    for (arguments, expected) in cases {
        let text = world.refusal(&world.assistant, "run_graph_session", arguments).await;
        assert!(text.contains(expected), "{text}");
    }
    assert!(world.sync(&[]).await.is_empty(), "nothing was queued");
}

#[tokio::test]
async fn a_session_of_another_project_and_an_invented_one_are_refused_alike() {
    let world = World::new().await;
    world.sync(&[]).await;
    let other = world.hub.admin().add_project("Elsewhere").await.unwrap();
    world.hub.admin().add_member(&other.id, "bob").await.unwrap();
    let bob = world.connection("bob", Scope::ALL, Action::ALL).await;
    let foreign = world.refusal(&bob, "run_graph_session", run("bobs-key-1")).await;
    let mut invented = run("bobs-key-2");
    invented["graph_session_id"] = json!("gs_ffffffffffffffffffffffffffffffff");
    assert_eq!(foreign, world.refusal(&bob, "run_graph_session", invented).await);
}

#[tokio::test]
async fn a_foreign_run_and_an_invented_id_answer_alike() {
    let world = World::new().await;
    world.sync(&[]).await;
    let id = world.queue("private-key").await;
    let colleague = world.connection("ada", Scope::ALL, Action::ALL).await;
    for tool in ["get_graph_run", "cancel_graph_run"] {
        let mut answers = Vec::new();
        for id in [id.as_str(), FOREIGN, "no-uuid"] {
            answers.push(world.call_as(&colleague, tool, json!({"command_id": id})).await);
        }
        for answer in &answers {
            assert_eq!(answer.body, answers[0].body, "{tool}");
            assert_eq!(answer.headers, answers[0].headers, "{tool}");
            let text = &answer.body["result"]["content"][0]["text"];
            assert_eq!(text, &json!("Graph run not found or access removed"));
        }
    }
    assert_eq!(world.status(&id).await, "queued");
}

#[tokio::test]
async fn missing_grants_are_told_apart_from_missing_scopes() {
    let world = World::new().await;
    world.sync(&[]).await;
    let reader = world.connection("ada", Scope::ALL, &[Action::Read]).await;
    let text = world.refusal(&reader, "run_graph_session", run("granted-key")).await;
    assert_eq!(text, "the owner has not granted this connection `run` in any project");
    // The grant comes before the schema: what may not be done at all is not discussed in detail.
    let text = world.refusal(&reader, "run_graph_session", json!({})).await;
    assert!(text.contains("granted"), "{text}");
}

#[tokio::test]
async fn with_several_projects_the_caller_must_choose_and_is_told_from_what() {
    let world = World::new().await;
    let second = world.hub.admin().add_project("Second").await.unwrap();
    world.hub.admin().add_member(&second.id, "ada").await.unwrap();
    let both = world.connection("ada", Scope::ALL, Action::ALL).await;
    let text = world.refusal(&both, "list_graph_sessions", json!({})).await;
    for part in ["`project_id`: required", second.id.as_str(), "Second", world.project.id.as_str(), "Reports"] {
        assert!(text.contains(part), "{text}");
    }
    let text = world.refusal(&both, "list_graph_sessions", json!({"project_id": "prj_x", "limit": 0})).await;
    assert!(text.starts_with("`project_id`: project not found"), "the project comes before the schema: {text}");
    let answer = world.call_as(&both, "list_graph_sessions", json!({"project_id": second.id})).await;
    let expected = json!({"project_id": second.id, "sessions": []});
    assert_eq!(answer.body["result"]["structuredContent"], expected);
}

#[tokio::test]
async fn a_session_shared_with_two_projects_runs_in_one_where_the_connection_may() {
    let world = World::new().await;
    let second = world.hub.admin().add_project("Second").await.unwrap();
    world.hub.admin().add_member(&second.id, "ada").await.unwrap();
    world.sync(&[]).await;
    world.pass(Duration::from_secs(1));
    let mut body = world.sync_body(&[], &[SESSION]);
    body["project_id"] = json!(second.id);
    world.relay("sync", &body).await;
    let id = world.queue("where-key").await;
    let run = world.call("get_graph_run", json!({"command_id": id})).await;
    assert_eq!(run["project_id"], json!(world.project.id), "the assistant was granted only the first one");
}

#[tokio::test]
async fn the_queue_is_shown_and_a_queued_run_is_cancelled_at_once() {
    let world = World::new().await;
    world.sync(&[]).await;
    let (first, second) = (world.queue("position-1").await, world.queue("position-2").await);
    let run = world.call("get_graph_run", json!({"command_id": second})).await;
    assert_eq!((&run["queue_position"], &run["retry_after_s"]), (&json!(2), &json!(20)));
    assert_eq!(run["desktop_online"], json!(true));
    let answer = world.call("cancel_graph_run", json!({"command_id": first})).await;
    assert_eq!(answer, json!({"command_id": first, "status": "cancelled", "cancel_requested": false}));
    assert_eq!(world.sync(&[]).await, vec![second.clone()], "the cancelled one never starts");
    let run = world.call("get_graph_run", json!({"command_id": second})).await;
    assert_eq!(run["queue_position"], json!(1));
    world.pass(Duration::from_secs(60));
    let run = world.call("get_graph_run", json!({"command_id": second})).await;
    assert_eq!(run["desktop_online"], json!(false));
}

#[tokio::test]
async fn a_running_run_is_flagged_and_its_progress_shown() {
    let world = World::new().await;
    world.sync(&[]).await;
    let id = world.queue("running-key").await;
    world.step(&id, "start", json!({"attempt": 1})).await;
    let progress = json!({"phase": "reading", "message": "a.txt", "done": 1, "total": 3, "waiting_for": "approval"});
    world.step(&id, "check", progress.clone()).await;
    let run = world.call("get_graph_run", json!({"command_id": id})).await;
    assert_eq!((&run["progress"], &run["queue_position"]), (&progress, &Value::Null));
    let answer = world.call("cancel_graph_run", json!({"command_id": id})).await;
    assert_eq!((&answer["status"], &answer["cancel_requested"]), (&json!("running"), &json!(true)));
    let check = world.step(&id, "check", json!({})).await;
    assert_eq!(check.body["cancel_requested"], json!(true));
}

/// The Graph ended before its desktop looked. Who asked for a cancel is told that it is cancelled, whatever the desktop
/// says, and as often as it says so.
#[tokio::test]
async fn a_cancel_stands_when_the_graph_was_quicker_than_the_desktops_look() {
    let world = World::new().await;
    world.sync(&[]).await;
    let id = world.queue("quicker-key").await;
    world.step(&id, "start", json!({"attempt": 1})).await;
    world.call("cancel_graph_run", json!({"command_id": id})).await;
    let report = json!({"execution_id": FOREIGN, "status": "completed", "result": 3, "total_tokens": 7});
    for _ in 0..2 {
        let answer = world.step(&id, "complete", report.clone()).await;
        assert_eq!((answer.status.as_u16(), &answer.body["status"]), (200, &json!("cancelled")));
    }
    let run = world.call("get_graph_run", json!({"command_id": id})).await;
    assert_eq!((&run["status"], run.get("result"), &run["total_tokens"]), (&json!("cancelled"), None, &json!(7)));
    assert!(run["message"].as_str().unwrap().starts_with("cancelled on request"), "{run}");
}

#[tokio::test(start_paused = true)]
async fn the_headers_of_a_waiting_read_go_out_early() {
    let world = World::new().await;
    world.sync(&[]).await;
    let id = world.queue("headers-key").await;
    let params = json!({"name": "get_graph_run", "arguments": {"command_id": id, "wait_s": 45}});
    for era in ERAS {
        let request = world.mcp_request(era, "/mcp", Some(&world.assistant), "tools/call", params.clone());
        let began = tokio::time::Instant::now();
        let response = tower::ServiceExt::oneshot(world.router.clone(), request).await.unwrap();
        assert!(began.elapsed() <= Duration::from_secs(1), "{era:?}: a proxy would cut a silent call");
        let body = axum::body::to_bytes(response.into_body(), usize::MAX).await.unwrap();
        assert_eq!(began.elapsed().as_secs(), 45);
        assert!(String::from_utf8(body.to_vec()).unwrap().contains("\"status\":\"queued\""));
    }
}

#[tokio::test(start_paused = true)]
async fn a_waiting_read_returns_with_the_end_of_the_run() {
    let world = World::new().await;
    world.sync(&[]).await;
    let id = world.queue("awaited-key").await;
    let began = tokio::time::Instant::now();
    let run = world.call("get_graph_run", json!({"command_id": id, "wait_s": 45})).await;
    assert_eq!((&run["status"], began.elapsed().as_secs()), (&json!("queued"), 45), "nothing came of it in time");

    world.step(&id, "start", json!({"attempt": 1})).await;
    let report = json!({"execution_id": FOREIGN, "status": "completed", "result": [1], "total_tokens": 5,
        "reported_cost": 0.5, "agent_failures": 1});
    let (run, _) = tokio::join!(
        world.call("get_graph_run", json!({"command_id": id, "wait_s": 45})),
        world.step(&id, "complete", report)
    );
    assert_eq!((&run["status"], &run["result"]), (&json!("completed"), &json!([1])));
    assert_eq!((&run["total_tokens"], &run["reported_cost"]), (&json!(5), &json!(0.5)));
    assert_eq!((&run["agent_failures"], &run["retry_after_s"]), (&json!(1), &Value::Null));
    assert_eq!(began.elapsed().as_secs(), 45, "the second call did not wait");
}

#[tokio::test]
async fn a_revoked_connection_loses_its_access_and_its_runs_and_a_revoked_desktop_too() {
    let world = World::new().await;
    world.sync(&[]).await;
    let id = world.queue("revoked-key").await;
    let connection = world.hub.admin().connections().await.unwrap()[0].id.clone();
    world.hub.admin().revoke_connection(&connection).await.unwrap();
    let answer = world.call_as(&world.assistant, "get_graph_run", json!({"command_id": id})).await;
    assert_eq!(answer.status.as_u16(), 401);
    assert!(world.sync(&[]).await.is_empty(), "its queued commands are called off");
    let device = world.hub.admin().devices().await.unwrap()[0].id.to_string();
    world.hub.admin().revoke_device(&device).await.unwrap();
    assert_eq!(world.relay("sync", &world.sync_body(&[], &[])).await.status.as_u16(), 401);
}
