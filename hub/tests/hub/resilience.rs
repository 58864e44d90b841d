//! What must not bring the hub down, and what a restart must not cost.

use std::sync::Arc;

use axum::body::Body;
use http::{Request, StatusCode, header};
use hub::{Hub, NewDevice, Settings};
use protocol::SystemClock;
use serde_json::json;
use tokio::io::{AsyncBufReadExt, AsyncReadExt, AsyncWriteExt, BufReader};
use tokio::net::{TcpListener, TcpStream};

use crate::world::{Era, World};

#[tokio::test]
async fn bad_requests_are_refused_and_the_hub_serves_on() {
    let world = World::new().await;
    let deep = format!("{}{}", "[".repeat(50_000), "]".repeat(50_000));
    let bodies = ["", "{", "null", "[]", "[1]", "\u{0}", "{\"jsonrpc\":\"2.0\"}", deep.as_str()];
    for path in ["/mcp", "/external-assistants/graph-relays/sync", "/external-assistants/graph-relays/wait"] {
        for body in bodies {
            for token in [&world.assistant, &world.desktop] {
                let request = Request::post(path)
                    .header(header::CONTENT_TYPE, "application/json")
                    .header(header::ACCEPT, "application/json, text/event-stream")
                    .header(header::AUTHORIZATION, format!("Bearer {token}"))
                    .body(Body::from(body.to_owned()));
                let status = world.send(request.unwrap()).await.status;
                assert!(status.is_client_error(), "{path} {} answered {status}", &body[..body.len().min(20)]);
            }
        }
    }
    let large = world.mcp(Era::Handshake, Some(&world.assistant), "tools/call", json!("x".repeat(2_000_000))).await;
    assert_eq!(large.status, StatusCode::PAYLOAD_TOO_LARGE);
    let health = world.send(Request::get("/healthz").body(Body::empty()).unwrap()).await;
    assert_eq!(health.status, StatusCode::OK);
}

#[tokio::test]
async fn a_foreign_host_or_page_is_refused_everywhere() {
    let world = World::new().await;
    for path in ["/", "/healthz", "/mcp", "/.well-known/oauth-protected-resource"] {
        for (name, value) in [(header::HOST, "evil.example"), (header::ORIGIN, "https://evil.example")] {
            let request = Request::get(path).header(name, value).body(Body::empty());
            let answer = world.send(request.unwrap()).await;
            assert_eq!((answer.status, &answer.body["error"]["code"]), (StatusCode::FORBIDDEN, &json!("forbidden")));
        }
    }
}

#[tokio::test]
async fn a_restart_keeps_tokens_commands_and_results() {
    let folder = tempfile::tempdir().unwrap();
    let url = format!("sqlite:{}", folder.path().join("hub.db").display());
    let hub = || async { Hub::new(hub::open_store(&url).await.unwrap(), Arc::new(SystemClock), Settings::default()) };
    let first = hub().await;
    let project = first.admin().add_project("Reports").await.unwrap();
    first.admin().add_member(&project.id, "ada").await.unwrap();
    let new = NewDevice { name: "laptop".to_owned(), owner: "ada".to_owned() };
    let (device, token) = first.admin().add_device(new).await.unwrap();
    drop(first);
    let again = hub().await;
    assert_eq!(again.admin().devices().await.unwrap(), vec![device]);
    let request = Request::get("/external-assistants/graph-relays/projects")
        .header(header::AUTHORIZATION, format!("Bearer {token}"))
        .body(Body::empty());
    let response = tower::ServiceExt::oneshot(again.router(), request.unwrap()).await.unwrap();
    assert_eq!(response.status(), StatusCode::OK);
    let bytes = std::fs::read(folder.path().join("hub.db")).unwrap();
    let secret = token.to_string();
    assert!(!bytes.windows(secret.len()).any(|window| window == secret.as_bytes()), "only its hash is stored");
}

#[tokio::test]
async fn the_server_answers_those_who_wait_before_it_stops() {
    let world = World::new().await;
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let (stop, stopped) = tokio::sync::oneshot::channel::<()>();
    let server = tokio::spawn(hub::serve(listener, world.hub.clone(), async {
        stopped.await.ok();
    }));
    let body = json!({"projects": [world.project.id], "timeout_s": 50}).to_string();
    let head = format!(
        "POST /external-assistants/graph-relays/wait HTTP/1.1\r\nHost: {address}\r\nAuthorization: Bearer {}\r\n\
         Expect: 100-continue\r\nContent-Length: {}\r\n\r\n",
        world.desktop,
        body.len()
    );
    let mut stream = BufReader::new(TcpStream::connect(address).await.unwrap());
    stream.write_all(head.as_bytes()).await.unwrap();
    let mut line = String::new();
    stream.read_line(&mut line).await.unwrap();
    assert!(line.contains("100 Continue"), "the handler is at work: {line}");
    stream.write_all(body.as_bytes()).await.unwrap();
    stop.send(()).unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).await.unwrap();
    server.await.unwrap().unwrap();
    assert!(answer.contains("\"wake\":false"), "{answer}");
}
