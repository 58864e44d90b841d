//! An assistant: it knows nothing but the hub's MCP endpoint and its token.

use std::time::Duration;

use axum::Router;
use axum::body::Body;
use http::{Request, header};
use jiff::Timestamp;
use protocol::{CommandStatus, GraphSessionId};
use serde::Deserialize;
use serde_json::{Value, json};
use tower::ServiceExt;

use crate::failure::Failure;
use crate::world::Asked;

/// The stateless era of MCP: each request says what it needs.
const VERSION: &str = "2026-07-28";

/// How long the hub may hold one look: as long as it allows.
const WAIT_S: u64 = 45;

/// The answer to a run that was asked for.
#[derive(Debug, Clone, Deserialize)]
pub(crate) struct Queued {
    pub(crate) command_id: String,
    /// When to look, as the hub advises.
    pub(crate) retry_after_s: Option<u64>,
}

/// A run, as `get_graph_run` shows it.
#[derive(Debug, Clone, Deserialize)]
pub(crate) struct Seen {
    pub(crate) status: CommandStatus,
    pub(crate) queued_at: Timestamp,
    pub(crate) started_at: Option<Timestamp>,
    pub(crate) finished_at: Option<Timestamp>,
    pub(crate) message: Option<String>,
    pub(crate) result: Option<Value>,
    pub(crate) result_truncated: bool,
    pub(crate) retry_after_s: Option<u64>,
}

/// The answer to a cancel.
#[derive(Debug, Clone, Copy, Deserialize)]
pub(crate) struct Cancelled {
    pub(crate) status: CommandStatus,
}

/// An MCP client with one connection's token.
pub(crate) struct Assistant {
    router: Router,
    token: String,
    session: GraphSessionId,
}

impl Assistant {
    pub(crate) fn new(router: Router, token: String, session: GraphSessionId) -> Self {
        Self { router, token, session }
    }

    /// Queues a run.
    pub(crate) async fn queue(&self, key: &str, asked: &Asked) -> Result<Queued, Failure> {
        let arguments = json!({"graph_session_id": self.session, "idempotency_key": key, "arguments": asked});
        self.call("run_graph_session", arguments).await
    }

    /// Queues a run; its command id.
    pub(crate) async fn run(&self, key: &str, asked: &Asked) -> Result<String, Failure> {
        Ok(self.queue(key, asked).await?.command_id)
    }

    /// Looks at a run.
    pub(crate) async fn look(&self, command: &str) -> Result<Seen, Failure> {
        self.call("get_graph_run", json!({"command_id": command})).await
    }

    /// Looks, and lets the hub hold the answer until the run is over or the hub has waited long enough.
    pub(crate) async fn hold(&self, command: &str) -> Result<Seen, Failure> {
        self.call("get_graph_run", json!({"command_id": command, "wait_s": WAIT_S})).await
    }

    /// Looks until the run is over.
    pub(crate) async fn wait_for_end(&self, command: &str) -> Result<Seen, Failure> {
        loop {
            let seen = self.hold(command).await?;
            if seen.status.is_settled() {
                return Ok(seen);
            }
        }
    }

    /// Calls a run off; what became of that at once.
    pub(crate) async fn cancel(&self, command: &str) -> Result<Cancelled, Failure> {
        self.call("cancel_graph_run", json!({"command_id": command})).await
    }

    async fn call<T: for<'a> Deserialize<'a>>(&self, tool: &'static str, arguments: Value) -> Result<T, Failure> {
        let said = |said: String| Failure::Tool { tool, said };
        let request = self.request(tool, &arguments).map_err(|error| said(error.to_string()))?;
        let Ok(response) = self.router.clone().oneshot(request).await;
        let body = axum::body::to_bytes(response.into_body(), usize::MAX).await;
        let body = body.map_err(|error| said(error.to_string()))?;
        let text = String::from_utf8_lossy(&body);
        let answer: Value = serde_json::from_str(last_message(&text)).unwrap_or_default();
        let result = &answer["result"];
        if result["isError"] != json!(false) {
            return Err(said(text.into_owned()));
        }
        T::deserialize(&result["structuredContent"]).map_err(|error| said(format!("{error}: {text}")))
    }

    fn request(&self, tool: &str, arguments: &Value) -> http::Result<Request<Body>> {
        let message = json!({
            "jsonrpc": "2.0",
            "id": 1,
            "method": "tools/call",
            "params": {
                "name": tool,
                "arguments": arguments,
                "_meta": {
                    "io.modelcontextprotocol/protocolVersion": VERSION,
                    "io.modelcontextprotocol/clientInfo": {"name": "experiments", "version": env!("CARGO_PKG_VERSION")},
                    "io.modelcontextprotocol/clientCapabilities": {},
                },
            },
        });
        Request::post("/mcp")
            .header(header::AUTHORIZATION, format!("Bearer {}", self.token))
            .header(header::CONTENT_TYPE, "application/json")
            .header(header::ACCEPT, "application/json, text/event-stream")
            .header("MCP-Protocol-Version", VERSION)
            .header("Mcp-Method", "tools/call")
            .header("Mcp-Name", tool)
            .body(Body::from(message.to_string()))
    }
}

/// Answers come as JSON or as an event stream, whose last message is the answer.
fn last_message(body: &str) -> &str {
    body.lines().filter_map(|line| line.strip_prefix("data:")).next_back().unwrap_or(body)
}

impl Seen {
    /// From queued to started.
    pub(crate) fn pickup(&self) -> Result<Duration, Failure> {
        Ok(between(self.queued_at, self.started()?))
    }

    pub(crate) fn started(&self) -> Result<Timestamp, Failure> {
        self.started_at.ok_or_else(|| Failure::broken(format!("a run that never started: {self:?}")))
    }

    pub(crate) fn finished(&self) -> Result<Timestamp, Failure> {
        self.finished_at.ok_or_else(|| Failure::broken(format!("a run that is not over: {self:?}")))
    }
}

/// Zero where the order is the other way round.
pub(crate) fn between(earlier: Timestamp, later: Timestamp) -> Duration {
    Duration::try_from(later.duration_since(earlier)).unwrap_or_default()
}
