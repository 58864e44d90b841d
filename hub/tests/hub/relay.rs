//! The relay API.

use std::time::Duration;

use axum::body::Body;
use http::{Request, StatusCode, header};
use serde_json::{Value, json};

use crate::world::{SESSION, World};

fn completed(result: Value) -> Value {
    json!({"execution_id": "0199c0de-0000-7000-8000-000000000001", "status": "completed", "result": result})
}

#[tokio::test]
async fn a_desktop_sees_the_projects_of_its_owner_only() {
    let world = World::new().await;
    let other = world.hub.admin().add_project("Secret").await.unwrap();
    world.hub.admin().add_member(&other.id, "bob").await.unwrap();
    let request = Request::get("/external-assistants/graph-relays/projects")
        .header(header::AUTHORIZATION, format!("Bearer {}", world.desktop))
        .body(Body::empty());
    let answer = world.send(request.unwrap()).await;
    assert_eq!(answer.body["projects"], json!([{"id": world.project.id, "name": "Reports"}]));
    assert!(answer.body["server_time"].is_string());

    let mut body = world.sync_body(&[], &[]);
    body["project_id"] = json!(other.id);
    let foreign = world.relay("sync", &body).await;
    body["project_id"] = json!("prj_none");
    let invented = world.relay("sync", &body).await;
    assert_eq!(foreign.status, StatusCode::NOT_FOUND);
    assert_eq!(foreign.body, invented.body, "a project that is not theirs must not be told from one that is not");
}

#[tokio::test]
async fn a_command_goes_through_its_life_and_every_step_may_be_repeated() {
    let world = World::new().await;
    world.sync(&[]).await;
    let id = world.queue("life-key").await;
    assert_eq!(world.sync(&[]).await, vec![id.clone()]);
    assert_eq!(world.sync(&[&id]).await, vec![id.clone()], "still queued until it is started");
    for _ in 0..2 {
        let start = world.step(&id, "start", json!({"attempt": 1})).await;
        assert_eq!((start.status, &start.body["status"]), (StatusCode::OK, &json!("running")));
    }
    assert!(world.sync(&[&id]).await.is_empty());
    let check = world.step(&id, "check", json!({"phase": "reading", "done": 1, "total": 3})).await;
    assert_eq!((&check.body["status"], &check.body["cancel_requested"]), (&json!("running"), &json!(false)));
    for _ in 0..2 {
        let complete = world.step(&id, "complete", completed(json!({"files": 3}))).await;
        assert_eq!((complete.status, &complete.body["status"]), (StatusCode::OK, &json!("completed")));
    }
    let other = world.step(&id, "complete", completed(json!({"files": 4}))).await;
    assert_eq!((other.status, &other.body["status"]), (StatusCode::CONFLICT, &json!("completed")));
    let late = world.step(&id, "start", json!({"attempt": 2})).await;
    assert_eq!((late.status, &late.body["status"]), (StatusCode::CONFLICT, &json!("completed")));
    let run = world.call("get_graph_run", json!({"command_id": id})).await;
    assert_eq!(run["result"], json!({"files": 3}), "the first report stands");
}

#[tokio::test]
async fn commands_of_another_desktop_do_not_exist() {
    let world = World::new().await;
    world.sync(&[]).await;
    let id = world.queue("other-key").await;
    let other = world.device("ada").await;
    for step in ["start", "check", "complete"] {
        let body = if step == "complete" { completed(json!(1)) } else { json!({"attempt": 1}) };
        let foreign = world.relay_as(&other, &format!("commands/{id}/{step}"), &body).await;
        let invented = "0199c0de-0000-7000-8000-00000000ffff";
        let invented = world.relay_as(&other, &format!("commands/{invented}/{step}"), &body).await;
        assert_eq!(foreign.status, StatusCode::NOT_FOUND, "{step}");
        assert_eq!(foreign.body, invented.body, "{step}");
    }
    assert_eq!(world.status(&id).await, "queued");
}

#[tokio::test]
async fn without_consent_a_queued_command_ends_without_a_start() {
    let world = World::new().await;
    world.sync(&[]).await;
    let id = world.queue("consent-key").await;
    let message = "Graph session is no longer shared with this project";
    let report = json!({"execution_id": null, "status": "cancelled", "message": message});
    assert_eq!(world.step(&id, "complete", report).await.status, StatusCode::OK);
    let run = world.call("get_graph_run", json!({"command_id": id})).await;
    assert_eq!((&run["status"], &run["message"]), (&json!("cancelled"), &json!(message)));
    assert_eq!(run["started_at"], Value::Null);
}

#[tokio::test]
async fn a_busy_desktop_is_handed_nothing_and_an_unshared_session_leaves_the_list() {
    let world = World::new().await;
    world.sync(&[]).await;
    world.queue("busy-key").await;
    let mut body = world.sync_body(&[], &[SESSION]);
    body["accept"] = json!(false);
    assert_eq!(world.relay("sync", &body).await.body["commands"], json!([]));
    world.relay("sync", &world.sync_body(&[], &[])).await;
    let list = world.call("list_graph_sessions", json!({})).await;
    assert_eq!(list, json!({"project_id": world.project.id, "sessions": []}));
}

#[tokio::test]
async fn another_member_cannot_claim_a_session_but_its_owner_may_move_it() {
    let world = World::new().await;
    world.sync(&[]).await;
    world.hub.admin().add_member(&world.project.id, "bob").await.unwrap();
    let thief = world.device("bob").await;
    let answer = world.relay_as(&thief, "sync", &world.sync_body(&[], &[SESSION])).await;
    assert_eq!((answer.status, &answer.body["error"]["code"]), (StatusCode::CONFLICT, &json!("session_elsewhere")));
    let new_laptop = world.device("ada").await;
    let answer = world.relay_as(&new_laptop, "sync", &world.sync_body(&[], &[SESSION])).await;
    assert_eq!(answer.status, StatusCode::OK);
    let id = world.queue("moved-key").await;
    let answer = world.relay_as(&new_laptop, "sync", &world.sync_body(&[], &[SESSION])).await;
    assert_eq!(answer.body["commands"][0]["command_id"], json!(id));
}

#[tokio::test]
async fn errors_are_closed_bodies_with_the_hubs_time() {
    let world = World::new().await;
    let sync = "sync";
    let cases = [
        (world.relay_as("grd_invented", sync, &json!({})).await, 401, "unauthorized"),
        (world.relay_as(&world.assistant, sync, &json!({})).await, 401, "unauthorized"),
        (world.relay(sync, &json!({"project_id": 1})).await, 422, "unprocessable"),
        (world.relay("nowhere", &json!({})).await, 404, "not_found"),
        (world.relay("projects", &json!({})).await, 405, "method_not_allowed"),
        (world.relay(sync, &json!("x".repeat(3_000_000))).await, 413, "too_large"),
        (world.relay("commands/none/start", &json!({"attempt": 1})).await, 404, "not_found"),
    ];
    for (answer, status, code) in cases {
        assert_eq!(answer.status.as_u16(), status, "{answer:?}");
        assert_eq!(answer.body["error"]["code"], json!(code));
        assert!(answer.body["server_time"].is_string(), "a wrong clock must not look like a wrong token");
        assert_eq!(answer.body.as_object().unwrap().len(), 2);
    }
    let request = Request::post("/external-assistants/graph-relays/sync")
        .header(header::AUTHORIZATION, format!("Bearer {}", world.desktop))
        .body(Body::from("{"));
    assert_eq!(world.send(request.unwrap()).await.status, StatusCode::BAD_REQUEST);
}

#[tokio::test]
async fn a_sync_carries_a_hundred_sessions_and_not_one_more() {
    let world = World::new().await;
    let ids: Vec<String> = (0..101).map(|n| format!("gs_{n:032x}")).collect();
    let ids: Vec<&str> = ids.iter().map(String::as_str).collect();
    let hundred = world.relay("sync", &world.sync_body(&[], &ids[..100])).await;
    assert_eq!(hundred.status, StatusCode::OK);
    let more = world.relay("sync", &world.sync_body(&[], &ids)).await;
    assert_eq!(more.status, StatusCode::UNPROCESSABLE_ENTITY);
    let list = world.call("list_graph_sessions", json!({"limit": 50})).await;
    assert_eq!(list["sessions"].as_array().unwrap().len(), 50);
    assert_eq!(list["sessions"][0]["graph_session_id"], json!(ids[0]));
}

#[tokio::test]
async fn a_report_of_the_full_size_is_taken_and_a_larger_one_refused() {
    let world = World::new().await;
    world.sync(&[]).await;
    let id = world.queue("large-key").await;
    world.step(&id, "start", json!({"attempt": 1})).await;
    let larger = world.step(&id, "complete", completed(json!("字".repeat(100_001)))).await;
    assert_eq!(larger.status, StatusCode::UNPROCESSABLE_ENTITY);
    assert_eq!(world.status(&id).await, "running");
    let fits = "字".repeat(99_800);
    assert_eq!(world.step(&id, "complete", completed(json!(fits))).await.status, StatusCode::OK);
    let run = world.call("get_graph_run", json!({"command_id": id})).await;
    assert_eq!(run["result"], json!(fits));
}

#[tokio::test]
async fn a_report_that_can_never_be_read_is_refused_for_good() {
    let world = World::new().await;
    world.sync(&[]).await;
    let id = world.queue("deep-key").await;
    world.step(&id, "start", json!({"attempt": 1})).await;
    let deep = format!("{{\"status\":\"completed\",\"result\":{}{}}}", "[".repeat(200), "]".repeat(200));
    for (body, status) in [(deep.as_str(), 422), ("nonsense", 422), (&deep[..60], 400)] {
        let request = Request::post(format!("/external-assistants/graph-relays/commands/{id}/complete"))
            .header(header::AUTHORIZATION, format!("Bearer {}", world.desktop))
            .body(Body::from(body.to_owned()));
        assert_eq!(world.send(request.unwrap()).await.status.as_u16(), status, "{body}");
    }
}

#[tokio::test]
async fn a_truncated_result_is_said_to_be_so() {
    let world = World::new().await;
    world.sync(&[]).await;
    let id = world.queue("truncated-key").await;
    world.step(&id, "start", json!({"attempt": 1})).await;
    let execution = "0199c0de-0000-7000-8000-000000000001";
    let report = json!({"execution_id": execution, "status": "completed", "result_truncated": true});
    world.step(&id, "complete", report).await;
    let run = world.call("get_graph_run", json!({"command_id": id})).await;
    assert_eq!((&run["result_truncated"], run.get("result")), (&json!(true), None));
    assert!(run["message"].as_str().unwrap().contains(execution), "{run}");
}

#[tokio::test]
async fn a_large_answer_is_gzipped_for_those_who_ask() {
    let world = World::new().await;
    let ids: Vec<String> = (0..100).map(|n| format!("gs_{n:032x}")).collect();
    let ids: Vec<&str> = ids.iter().map(String::as_str).collect();
    world.relay("sync", &world.sync_body(&[], &ids)).await;
    for (n, id) in ids.iter().enumerate() {
        let arguments = json!({"graph_session_id": id, "idempotency_key": format!("gzip-key-{n}")});
        world.call("run_graph_session", arguments).await;
    }
    let request = Request::post("/external-assistants/graph-relays/sync")
        .header(header::AUTHORIZATION, format!("Bearer {}", world.desktop))
        .header(header::ACCEPT_ENCODING, "gzip")
        .body(Body::from(world.sync_body(&[], &ids).to_string()));
    let answer = world.send(request.unwrap()).await;
    assert_eq!(answer.headers[header::CONTENT_ENCODING], "gzip");
}

/// Gzip with one stored block, which any decoder reads (RFC 1951, 1952).
fn gzipped(data: &[u8]) -> Vec<u8> {
    let mut crc = u32::MAX;
    for byte in data {
        crc ^= u32::from(*byte);
        for _ in 0..8 {
            crc = if crc & 1 == 1 { (crc >> 1) ^ 0xEDB8_8320 } else { crc >> 1 };
        }
    }
    let length = u16::try_from(data.len()).unwrap();
    let mut file = vec![0x1f, 0x8b, 8, 0, 0, 0, 0, 0, 0, 255, 1];
    file.extend([length.to_le_bytes(), (!length).to_le_bytes()].concat());
    file.extend(data);
    file.extend([(!crc).to_le_bytes(), u32::from(length).to_le_bytes()].concat());
    file
}

#[tokio::test]
async fn a_gzipped_body_is_read_and_a_broken_one_refused() {
    let world = World::new().await;
    let sync = |body: Vec<u8>| {
        let request = Request::post("/external-assistants/graph-relays/sync")
            .header(header::AUTHORIZATION, format!("Bearer {}", world.desktop))
            .header(header::CONTENT_ENCODING, "gzip")
            .body(Body::from(body));
        world.send(request.unwrap())
    };
    let body = gzipped(world.sync_body(&[], &[SESSION]).to_string().as_bytes());
    assert_eq!(sync(body[..40].to_vec()).await.status, StatusCode::BAD_REQUEST);
    assert_eq!(sync(body).await.status, StatusCode::OK);
}

#[tokio::test(start_paused = true)]
async fn a_wait_ends_when_a_command_is_queued_or_a_cancel_asked_and_only_then() {
    let world = World::new().await;
    world.sync(&[]).await;
    let body = json!({"projects": [world.project.id], "timeout_s": 50});
    let idle = world.relay("wait", &body).await;
    assert_eq!(idle.body["wake"], json!(false));

    let (woken, id) = tokio::join!(world.relay("wait", &body), world.queue("wait-key"));
    assert_eq!(woken.body["wake"], json!(true));
    let again = world.relay("wait", &body).await;
    assert_eq!(again.body["wake"], json!(false), "a busy desktop must not spin on a command that it cannot take");

    world.step(&id, "start", json!({"attempt": 1})).await;
    let cancel = world.call("cancel_graph_run", json!({"command_id": id}));
    let (woken, _) = tokio::join!(world.relay("wait", &body), cancel);
    assert_eq!(woken.body["wake"], json!(true));

    world.queue("elsewhere-key").await;
    let elsewhere = json!({"projects": ["prj_other"], "timeout_s": 1});
    assert_eq!(world.relay("wait", &elsewhere).await.body["wake"], json!(false));
}

#[tokio::test]
async fn a_hub_that_was_restarted_looks_whether_something_is_waiting() {
    let world = World::new().await;
    world.sync(&[]).await;
    world.queue("restart-key").await;
    // The first wait that this process hears of, with the news already gone by.
    let body = json!({"projects": [world.project.id], "timeout_s": 50});
    assert_eq!(world.relay("wait", &body).await.body["wake"], json!(true));
}

#[tokio::test]
async fn a_run_that_the_desktop_lost_is_failed_after_a_lease_and_one_of_a_desktop_that_is_off_is_kept() {
    let world = World::new().await;
    world.sync(&[]).await;
    let id = world.queue("lost-key").await;
    world.step(&id, "start", json!({"attempt": 1})).await;
    world.pass(Duration::from_secs(3_600));
    world.hub.settle().await.unwrap();
    assert_eq!(world.status(&id).await, "running", "the desktop is off");
    for _ in 0..5 {
        world.sync(&[&id]).await;
        world.pass(Duration::from_secs(20));
    }
    assert_eq!(world.status(&id).await, "running", "it lists the run");
    for _ in 0..4 {
        world.sync(&[]).await;
        world.pass(Duration::from_secs(20));
    }
    let run = world.call("get_graph_run", json!({"command_id": id})).await;
    assert_eq!(run["message"], json!("the desktop no longer knows this run"));
    assert_eq!(world.step(&id, "complete", completed(json!(1))).await.status, StatusCode::CONFLICT);
}

#[tokio::test]
async fn a_command_that_waited_for_a_week_is_cancelled_and_says_why() {
    let world = World::new().await;
    world.sync(&[]).await;
    let id = world.queue("expired-key").await;
    world.pass(Duration::from_secs(7 * 24 * 3_600));
    world.hub.settle().await.unwrap();
    let run = world.call("get_graph_run", json!({"command_id": id})).await;
    assert_eq!(run["status"], json!("cancelled"));
    assert!(run["message"].as_str().unwrap().contains("longer than this hub"), "{run}");
    assert!(world.sync(&[]).await.is_empty());
}
