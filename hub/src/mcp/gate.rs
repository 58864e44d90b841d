//! The first two checks of a tool call, before anything of its arguments is looked at: token, then scope.

use std::sync::Arc;

use http::{HeaderMap, StatusCode};
use rmcp::model::{CallToolResult, ContentBlock, MetaObject};
use serde_json::Value;

use super::tools;
use crate::Hub;
use crate::model::{Connection, Scope};
use crate::oauth::{Challenge, Mount};
use crate::store::StoreError;
use crate::token::TokenHash;
use crate::web::bearer;

/// The outcome; it travels with the request to the handler.
#[derive(Debug, Clone)]
pub(super) enum Gate {
    /// The caller, with a token that is good for the tool.
    Open(Arc<Connection>),
    /// Nobody, or somebody whose token is not good for it.
    Shut(Refusal),
}

/// Why a call is refused, in the words of SPEC 4.3 and 6.1.
#[derive(Debug, Clone)]
pub(super) struct Refusal {
    pub(super) challenge: Challenge,
    text: String,
    /// The `WWW-Authenticate` header, repeated in the result.
    header: String,
}

/// Looks at a call's token and at the scope of the tool. An unknown tool has no scope to miss: the handler says
/// that it is unknown.
pub(super) async fn decide(hub: &Hub, headers: &HeaderMap, tool: &str) -> Result<Gate, StoreError> {
    let Some(token) = bearer(headers) else {
        return Ok(shut(Challenge::NoToken, "this tool needs a token: sign in to the hub".to_owned()));
    };
    let Some(connection) = hub.store().connection_by_token(&TokenHash::of(token)).await? else {
        let text = "the token is unknown or revoked: sign in to the hub again".to_owned();
        return Ok(shut(Challenge::BadToken, text));
    };
    match tools::find(tool).map(|tool| tool.scope) {
        Some(scope) if !connection.scopes.contains(&scope) => {
            let mut wanted: Vec<Scope> = connection.scopes.clone();
            wanted.push(scope);
            wanted.sort_unstable();
            Ok(shut(Challenge::MissingScope(wanted), format!("token lacks {scope}")))
        }
        _ => Ok(Gate::Open(Arc::new(connection))),
    }
}

fn shut(challenge: Challenge, text: String) -> Gate {
    Gate::Shut(Refusal { challenge, text, header: String::new() })
}

impl Gate {
    /// Fills in the header text that the result repeats.
    pub(super) fn with_challenge(mut self, public_url: &str, mount: Mount) -> Self {
        if let Self::Shut(refusal) = &mut self {
            let header = refusal.challenge.header(public_url, mount);
            refusal.header = String::from_utf8_lossy(header.as_bytes()).into_owned();
        }
        self
    }
}

impl Refusal {
    pub(super) fn status(&self) -> StatusCode {
        match self.challenge {
            Challenge::NoToken | Challenge::BadToken => StatusCode::UNAUTHORIZED,
            Challenge::MissingScope(_) => StatusCode::FORBIDDEN,
        }
    }

    /// The tool result that says so.
    pub(super) fn result(&self) -> CallToolResult {
        let mut result = CallToolResult::error(vec![ContentBlock::text(self.text.clone())]);
        let mut meta = MetaObject::new();
        meta.0.insert("mcp/www_authenticate".to_owned(), Value::from(vec![self.header.clone()]));
        result.meta = Some(meta);
        result
    }
}
