//! Requests that no honest client sends.

use axum::body::Body;
use http::{Request, StatusCode, header};
use serde_json::{Value, json};

use crate::world::{Era, SESSION, World};

fn post(token: &str, body: impl Into<Body>) -> Request<Body> {
    Request::post("/mcp")
        .header(header::CONTENT_TYPE, "application/json")
        .header(header::ACCEPT, "application/json, text/event-stream")
        .header("MCP-Protocol-Version", "2025-11-25")
        .header(header::AUTHORIZATION, format!("Bearer {token}"))
        .body(body.into())
        .unwrap()
}

fn run_call(key: &str) -> Value {
    let arguments = json!({"graph_session_id": SESSION, "idempotency_key": key});
    json!({"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": {"name": "run_graph_session", "arguments": arguments}})
}

/// A token for reading only must not start a run, whatever form the request has.
#[tokio::test]
async fn no_form_of_a_request_gets_past_the_scope() {
    use hub::{Action, Scope};
    let world = World::new().await;
    world.sync(&[]).await;
    let reader = world.connection("ada", &[Scope::Read], Action::ALL).await;
    let call = run_call("key-of-no-run");
    let text = call.to_string();
    let bodies = [
        text.clone(),
        json!([call]).to_string(),
        json!([{"jsonrpc": "2.0", "id": 1, "method": "tools/list"}, call]).to_string(),
        text.replacen("\"method\"", "\"method\":\"tools/list\",\"method\"", 1),
        text.replacen("\"method\":\"tools/call\"", "\"method\":\"tools/call\",\"method\":\"tools/list\"", 1),
        text.replacen("\"name\"", "\"name\":\"get_graph_run\",\"name\"", 1),
        text.replacen("\"name\":\"run_graph_session\"", "\"name\":\"run_graph_session\",\"name\":\"get_graph_run\"", 1),
        text.replacen("tools/call", "tools\\u002fcall", 1),
        text.replacen("run_graph_session", "run_graph_sessio\\u006e", 1),
        text.replacen("\"id\":1,", "", 1),
        text.replacen("\"id\":1", "\"id\":null", 1),
        text.replacen("\"id\":1", "\"id\":\"x\"", 1),
        text.replacen("\"id\":1", "\"id\":1e400", 1),
        text.replacen("\"id\":1", &format!("\"id\":\"{}\"", "x".repeat(500_000)), 1),
        text.replacen("\"id\":1", "\"id\":123456789012345678901234567890", 1),
        text.replacen("\"id\":1", "\"id\":[1]", 1),
        format!("\u{feff}{text}"),
        format!("{text}{text}"),
        format!("{}{text}{}", "[".repeat(100_000), "]".repeat(100_000)),
    ];
    for body in bodies {
        let shown: String = body.chars().take(150).collect();
        let answer = world.send(post(&reader, body)).await;
        assert_ne!(answer.body["result"]["isError"], json!(false), "{shown}: {answer:?}");
        assert!(answer.status.as_u16() < 500, "{shown}: {answer:?}");
    }
    // The same with headers of the stateless era that name a harmless call.
    for (method, name) in [("tools/list", ""), ("tools/call", "get_graph_run"), ("initialize", "run_graph_session")] {
        let mut request =
            world.mcp_request(Era::Stateless, "/mcp", Some(&reader), "tools/call", call["params"].clone());
        request.headers_mut().insert("Mcp-Method", method.parse().unwrap());
        request.headers_mut().insert("Mcp-Name", name.parse().unwrap());
        let answer = world.send(request).await;
        assert_ne!(answer.body["result"]["isError"], json!(false), "{method} {name}: {answer:?}");
    }
    assert!(world.sync(&[]).await.is_empty(), "something was queued");
}

#[tokio::test]
async fn two_credentials_are_none() {
    let world = World::new().await;
    for tokens in [[&world.assistant, &world.assistant], [&world.assistant, &world.desktop]] {
        let mut request = post(tokens[0], run_call("two-tokens").to_string());
        request.headers_mut().append(header::AUTHORIZATION, format!("Bearer {}", tokens[1]).parse().unwrap());
        assert_eq!(world.send(request).await.status, StatusCode::UNAUTHORIZED);
    }
    let request = Request::get("/external-assistants/graph-relays/projects")
        .header(header::AUTHORIZATION, format!("Bearer {}", world.desktop))
        .header(header::AUTHORIZATION, format!("Bearer {}", world.desktop))
        .body(Body::empty());
    assert_eq!(world.send(request.unwrap()).await.status, StatusCode::UNAUTHORIZED);
}

/// The credentials of one side are nothing on the other.
#[tokio::test]
async fn a_token_is_good_for_its_own_side_only() {
    let world = World::new().await;
    let answer = world.relay_as(&world.assistant, "sync", &world.sync_body(&[], &[SESSION])).await;
    assert_eq!(answer.status, StatusCode::UNAUTHORIZED);
    let answer = world.send(post(&world.desktop, run_call("desktop-token").to_string())).await;
    assert_eq!(answer.status, StatusCode::UNAUTHORIZED);
}

#[tokio::test]
async fn a_desktop_cannot_touch_what_another_runs_nor_tell_it_from_nothing() {
    let world = World::new().await;
    world.sync(&[]).await;
    let id = world.queue("someone-elses").await;
    world.hub.admin().add_member(&world.project.id, "eve").await.unwrap();
    for thief in [world.device("eve").await, world.device("ada").await] {
        for (step, body) in [
            ("start", json!({"attempt": 1})),
            ("check", json!({})),
            ("complete", json!({"execution_id": null, "status": "completed", "result": "forged"})),
        ] {
            let foreign = world.relay_as(&thief, &format!("commands/{id}/{step}"), &body).await;
            let none = "0199c0de-0000-7000-8000-00000000ffff";
            let invented = world.relay_as(&thief, &format!("commands/{none}/{step}"), &body).await;
            assert_eq!((foreign.status, &foreign.body), (StatusCode::NOT_FOUND, &invented.body), "{step}");
        }
    }
    let eve = world.device("eve").await;
    let claimed = world.relay_as(&eve, "sync", &world.sync_body(&[&id], &[SESSION])).await;
    assert_eq!(claimed.status, StatusCode::CONFLICT, "{claimed:?}");
    assert_eq!(world.status(&id).await, "queued");
}

#[tokio::test]
async fn what_a_desktop_tells_cannot_flood_an_assistant() {
    let world = World::new().await;
    let mut sync = world.sync_body(&[], &[SESSION]);
    for field in ["name", "description", "status"] {
        sync["sessions"][0][field] = json!("é".repeat(200_000));
    }
    assert_eq!(world.relay("sync", &sync).await.status, StatusCode::OK);
    let listed = world.call("list_graph_sessions", json!({})).await;
    assert!(listed.to_string().len() < 10_000, "{} bytes", listed.to_string().len());

    let id = world.queue("flooded-run").await;
    world.step(&id, "start", json!({"attempt": 1})).await;
    let text = "é".repeat(200_000);
    let told = world.step(&id, "check", json!({"phase": text, "message": text, "waiting_for": text})).await;
    assert_eq!(told.status, StatusCode::OK);
    let run = world.call("get_graph_run", json!({"command_id": id})).await;
    assert!(run.to_string().len() < 10_000, "{} bytes", run.to_string().len());
}
