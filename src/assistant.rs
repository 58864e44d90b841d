//! A small MCP client over HTTP: what the demo, the tests and the experiments act as an assistant with.
//!
//! It speaks the stateless part of the protocol: one JSON-RPC request per POST, answered by JSON or by one
//! server-sent event.

use std::time::Duration;

use reqwest::header::{ACCEPT, AUTHORIZATION, CONTENT_TYPE};
use serde_json::{Value, json};

/// The protocol version that it asks for.
pub const PROTOCOL_VERSION: &str = "2025-11-25";

/// Longer than any call is held by the hub.
const TIMEOUT: Duration = Duration::from_secs(55);

/// An assistant that is signed in to a hub.
pub struct Assistant {
    client: reqwest::Client,
    endpoint: String,
    token: String,
}

/// Why a call brought nothing.
#[derive(Debug, thiserror::Error)]
pub enum AssistantError {
    /// No answer.
    #[error("the hub cannot be reached: {0}")]
    Http(#[from] reqwest::Error),
    /// An answer that is no JSON-RPC.
    #[error("the hub answered {status}, which is no MCP: {body}")]
    NoMcp {
        /// HTTP status.
        status: u16,
        /// The beginning of the body.
        body: String,
    },
    /// A JSON-RPC error.
    #[error("the hub refused the request: {0}")]
    Protocol(String),
    /// A tool that answered with an error.
    #[error("{tool} refused: {message}")]
    Tool {
        /// Which tool.
        tool: String,
        /// What it said.
        message: String,
    },
}

impl Assistant {
    /// An assistant with a connection's token. `base` is the hub's URL.
    ///
    /// # Errors
    /// [`AssistantError::Http`], if no HTTP client can be made.
    pub fn new(base: &str, token: &str) -> Result<Self, AssistantError> {
        let client = reqwest::Client::builder().timeout(TIMEOUT).build()?;
        let endpoint = format!("{}/mcp", base.trim_end_matches('/'));
        Ok(Self { client, endpoint, token: token.to_owned() })
    }

    /// Says hello; gives back what the server says of itself.
    ///
    /// # Errors
    /// [`AssistantError`].
    pub async fn initialize(&self) -> Result<Value, AssistantError> {
        let client = json!({"name": "graph-relay demo", "version": env!("CARGO_PKG_VERSION")});
        let params = json!({"protocolVersion": PROTOCOL_VERSION, "capabilities": {}, "clientInfo": client});
        self.request("initialize", params).await
    }

    /// The names of the tools.
    ///
    /// # Errors
    /// [`AssistantError`].
    pub async fn tools(&self) -> Result<Vec<String>, AssistantError> {
        let listed = self.request("tools/list", json!({})).await?;
        let tools = listed["tools"].as_array().cloned().unwrap_or_default();
        Ok(tools.iter().filter_map(|tool| tool["name"].as_str().map(str::to_owned)).collect())
    }

    /// Calls a tool and gives back its structured content.
    ///
    /// # Errors
    /// [`AssistantError`].
    pub async fn call(&self, tool: &str, arguments: Value) -> Result<Value, AssistantError> {
        let result = self.request("tools/call", json!({"name": tool, "arguments": arguments})).await?;
        if result["isError"] == json!(true) {
            let message = result["content"][0]["text"].as_str().unwrap_or("no reason given").to_owned();
            return Err(AssistantError::Tool { tool: tool.to_owned(), message });
        }
        Ok(result["structuredContent"].clone())
    }

    async fn request(&self, method: &str, params: Value) -> Result<Value, AssistantError> {
        let response = self
            .client
            .post(&self.endpoint)
            .header(AUTHORIZATION, format!("Bearer {}", self.token))
            .header(CONTENT_TYPE, "application/json")
            .header(ACCEPT, "application/json, text/event-stream")
            .header("MCP-Protocol-Version", PROTOCOL_VERSION)
            .body(json!({"jsonrpc": "2.0", "id": 1, "method": method, "params": params}).to_string())
            .send()
            .await?;
        let status = response.status().as_u16();
        let body = response.text().await?;
        let message =
            message(&body).ok_or_else(|| AssistantError::NoMcp { status, body: body.chars().take(200).collect() })?;
        match message.get("error") {
            Some(error) => Err(AssistantError::Protocol(error["message"].as_str().unwrap_or("no reason").to_owned())),
            None => Ok(message["result"].clone()),
        }
    }
}

/// The JSON-RPC message of a body that is JSON, or a stream of events of which the last one with data carries it.
fn message(body: &str) -> Option<Value> {
    let data = body.lines().filter_map(|line| line.strip_prefix("data:")).map(str::trim);
    let events = data.filter_map(|data| serde_json::from_str::<Value>(data).ok());
    let answers = |message: &Value| message.get("result").is_some() || message.get("error").is_some();
    serde_json::from_str(body).ok().into_iter().chain(events).rfind(answers)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn both_forms_of_an_answer_are_read() {
        let answer = json!({"jsonrpc": "2.0", "id": 1, "result": {"a": 1}});
        let progress = json!({"jsonrpc": "2.0", "method": "notifications/progress"});
        assert_eq!(message(&answer.to_string()).as_ref(), Some(&answer));
        let stream = format!(": hello\n\nid: 0\ndata:\n\ndata: {progress}\n\nevent: message\ndata: {answer}\n\n");
        assert_eq!(message(&stream).as_ref(), Some(&answer));
        assert_eq!(message("<html>"), None);
    }
}
