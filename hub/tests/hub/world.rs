//! A hub in memory with one project, one desktop and one assistant, and the calls that each of them makes.

use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};
use std::time::Duration;

use axum::Router;
use axum::body::{Body, to_bytes};
use http::{HeaderMap, Request, StatusCode, header};
use hub::{Action, Hub, NewConnection, NewDevice, Scope, Settings};
use jiff::Timestamp;
use protocol::{Clock, Project};
use serde_json::{Value, json};
use tower::ServiceExt;

/// A clock that stands until it is moved.
#[derive(Debug)]
pub(crate) struct TestClock(AtomicI64);

impl Clock for TestClock {
    fn now(&self) -> Timestamp {
        Timestamp::from_millisecond(self.0.load(Ordering::Relaxed)).unwrap()
    }
}

/// An answer, read whole.
#[derive(Debug)]
pub(crate) struct Answer {
    pub(crate) status: StatusCode,
    pub(crate) headers: HeaderMap,
    pub(crate) body: Value,
}

/// The two eras of MCP.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Era {
    Handshake,
    Stateless,
}

pub(crate) const ERAS: [Era; 2] = [Era::Handshake, Era::Stateless];

pub(crate) const SESSION: &str = "gs_0123456789abcdef0123456789abcdef";

pub(crate) struct World {
    pub(crate) hub: Hub,
    pub(crate) router: Router,
    pub(crate) clock: Arc<TestClock>,
    pub(crate) project: Project,
    /// A token with all scopes and actions.
    pub(crate) assistant: String,
    pub(crate) desktop: String,
}

impl World {
    /// Ada with her laptop and her assistant, who may do everything; nothing is shared yet.
    pub(crate) async fn new() -> Self {
        Self::with(Settings::default()).await
    }

    pub(crate) async fn with(settings: Settings) -> Self {
        let clock = Arc::new(TestClock(AtomicI64::new(1_700_000_000_000)));
        let store = hub::open_store("sqlite::memory:").await.unwrap();
        let hub = Hub::new(store, Arc::clone(&clock) as Arc<dyn Clock>, settings);
        let project = hub.admin().add_project("Reports").await.unwrap();
        hub.admin().add_member(&project.id, "ada").await.unwrap();
        let router = hub.router();
        let mut world = Self { hub, router, clock, project, assistant: String::new(), desktop: String::new() };
        world.assistant = world.connection("ada", Scope::ALL, Action::ALL).await;
        world.desktop = world.device("ada").await;
        world
    }

    pub(crate) fn pass(&self, time: Duration) {
        self.clock.0.fetch_add(i64::try_from(time.as_millis()).unwrap(), Ordering::Relaxed);
    }

    pub(crate) async fn connection(&self, owner: &str, scopes: &[Scope], actions: &[Action]) -> String {
        let new = NewConnection {
            name: "assistant".to_owned(),
            owner: owner.to_owned(),
            projects: vec![],
            scopes: scopes.to_vec(),
            actions: actions.to_vec(),
        };
        self.hub.admin().add_connection(new).await.unwrap().1.to_string()
    }

    pub(crate) async fn device(&self, owner: &str) -> String {
        let new = NewDevice { name: "laptop".to_owned(), owner: owner.to_owned() };
        self.hub.admin().add_device(new).await.unwrap().1.to_string()
    }

    pub(crate) async fn send(&self, request: Request<Body>) -> Answer {
        let response = self.router.clone().oneshot(request).await.unwrap();
        let (parts, body) = response.into_parts();
        let bytes = to_bytes(body, usize::MAX).await.unwrap();
        Answer { status: parts.status, body: read(&parts.headers, &bytes), headers: parts.headers }
    }

    /// A relay call with a JSON body and a device token.
    pub(crate) async fn relay_as(&self, token: &str, path: &str, body: &Value) -> Answer {
        let request = Request::post(format!("/external-assistants/graph-relays/{path}"))
            .header(header::AUTHORIZATION, format!("Bearer {token}"))
            .body(Body::from(body.to_string()));
        self.send(request.unwrap()).await
    }

    pub(crate) async fn relay(&self, path: &str, body: &Value) -> Answer {
        self.relay_as(&self.desktop, path, body).await
    }

    pub(crate) fn sync_body(&self, known: &[&str], sessions: &[&str]) -> Value {
        let session = |id: &&str| {
            json!({"id": id, "name": "digest", "description": "Reads a folder", "slug": "digest", "version": 1,
                "status": "ready"})
        };
        json!({
            "project_id": self.project.id,
            "device": {"id": "laptop-1", "name": "laptop", "version": "0.1.0", "busy": false},
            "known": known,
            "sessions": sessions.iter().map(session).collect::<Vec<_>>(),
            "accept": true,
        })
    }

    /// A sync that shares [`SESSION`]; the ids of the commands that came.
    pub(crate) async fn sync(&self, known: &[&str]) -> Vec<String> {
        let answer = self.relay("sync", &self.sync_body(known, &[SESSION])).await;
        assert_eq!(answer.status, StatusCode::OK, "{answer:?}");
        let commands = answer.body["commands"].as_array().unwrap();
        commands.iter().map(|command| command["command_id"].as_str().unwrap().to_owned()).collect()
    }

    /// A raw MCP message.
    pub(crate) fn mcp_request(
        &self,
        era: Era,
        path: &str,
        token: Option<&str>,
        method: &str,
        params: Value,
    ) -> Request<Body> {
        let mut params = params;
        let mut request = Request::post(path)
            .header(header::CONTENT_TYPE, "application/json")
            .header(header::ACCEPT, "application/json, text/event-stream");
        if let Some(token) = token {
            request = request.header(header::AUTHORIZATION, format!("Bearer {token}"));
        }
        match era {
            Era::Handshake => request = request.header("MCP-Protocol-Version", "2025-11-25"),
            Era::Stateless => {
                request = request.header("MCP-Protocol-Version", "2026-07-28").header("Mcp-Method", method);
                if let Some(name) = params.get("name").and_then(Value::as_str) {
                    request = request.header("Mcp-Name", name);
                }
                params["_meta"] = json!({
                    "io.modelcontextprotocol/protocolVersion": "2026-07-28",
                    "io.modelcontextprotocol/clientInfo": {"name": "test", "version": "1"},
                    "io.modelcontextprotocol/clientCapabilities": {},
                });
            }
        }
        let message = json!({"jsonrpc": "2.0", "id": 1, "method": method, "params": params});
        request.body(Body::from(message.to_string())).unwrap()
    }

    pub(crate) async fn mcp(&self, era: Era, token: Option<&str>, method: &str, params: Value) -> Answer {
        self.send(self.mcp_request(era, "/mcp", token, method, params)).await
    }

    /// A tool call of a connection.
    pub(crate) async fn call_as(&self, token: &str, tool: &str, arguments: Value) -> Answer {
        self.mcp(Era::Stateless, Some(token), "tools/call", json!({"name": tool, "arguments": arguments})).await
    }

    /// What a tool answers, which must not be an error.
    pub(crate) async fn call(&self, tool: &str, arguments: Value) -> Value {
        let answer = self.call_as(&self.assistant, tool, arguments).await;
        assert_eq!(answer.status, StatusCode::OK, "{answer:?}");
        let result = &answer.body["result"];
        assert_eq!(result["isError"], json!(false), "{result}");
        result["structuredContent"].clone()
    }

    /// What a tool says when it refuses.
    pub(crate) async fn refusal(&self, token: &str, tool: &str, arguments: Value) -> String {
        let answer = self.call_as(token, tool, arguments).await;
        assert_eq!(answer.body["result"]["isError"], json!(true), "{answer:?}");
        answer.body["result"]["content"][0]["text"].as_str().unwrap().to_owned()
    }

    /// Queues a run of [`SESSION`].
    pub(crate) async fn queue(&self, key: &str) -> String {
        let answer = self.call("run_graph_session", json!({"graph_session_id": SESSION, "idempotency_key": key})).await;
        answer["command_id"].as_str().unwrap().to_owned()
    }

    pub(crate) async fn status(&self, command: &str) -> String {
        let run = self.call("get_graph_run", json!({"command_id": command})).await;
        run["status"].as_str().unwrap().to_owned()
    }

    pub(crate) async fn step(&self, command: &str, step: &str, body: Value) -> Answer {
        self.relay(&format!("commands/{command}/{step}"), &body).await
    }
}

/// The JSON of a plain answer, the last message of an event stream, or the text.
fn read(headers: &HeaderMap, bytes: &[u8]) -> Value {
    let text = String::from_utf8_lossy(bytes);
    let is_stream = headers.get(header::CONTENT_TYPE).is_some_and(|kind| kind == "text/event-stream");
    let json = if is_stream {
        text.lines().filter_map(|line| line.strip_prefix("data:")).next_back().unwrap_or_default().to_owned()
    } else {
        text.to_string()
    };
    serde_json::from_str(&json).unwrap_or(Value::String(json))
}
