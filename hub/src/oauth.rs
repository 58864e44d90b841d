//! The place of OAuth: what the hub tells of itself as a protected resource (RFC 9728), and how it challenges.
//!
//! Sign-in itself is not here yet. Tokens are made by the command line; the metadata names the hub as the
//! authorization server that it is going to be.

use axum::Json;
use axum::extract::State;
use http::HeaderValue;
use serde_json::{Value, json};

use crate::Hub;
use crate::model::{Scope, words};

/// The one list of scopes, wherever the hub lists scopes.
pub(crate) const BASE_SCOPES: &[Scope] = Scope::ALL;

/// Where the metadata of the whole hub stands; those of its endpoints follow with the endpoint's path.
pub(crate) const WELL_KNOWN: &str = "/.well-known/oauth-protected-resource";

/// An MCP endpoint: the same one under two paths.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Mount {
    /// The short path.
    Mcp,
    /// The path of the reference deployment.
    External,
}

impl Mount {
    pub(crate) const ALL: [Self; 2] = [Self::Mcp, Self::External];

    pub(crate) fn path(self) -> &'static str {
        match self {
            Self::Mcp => "/mcp",
            Self::External => "/api/v1/external-mcp",
        }
    }
}

/// Answers the metadata of one endpoint.
pub(crate) async fn metadata(State(hub): State<Hub>, mount: Mount) -> Json<Value> {
    let url = hub.public_url();
    Json(json!({
        "resource": format!("{url}{}", mount.path()),
        "resource_name": "graph-relay hub",
        "authorization_servers": [url],
        "scopes_supported": BASE_SCOPES.iter().map(|scope| scope.as_str()).collect::<Vec<_>>(),
        "bearer_methods_supported": ["header"],
    }))
}

/// Why a call is challenged.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Challenge {
    /// No token came.
    NoToken,
    /// The token is unknown or revoked.
    BadToken,
    /// The token is good for less than the call needs. Every scope that a new one should have: those that the call
    /// needs, and those that the old one had, so that signing in again loses nothing.
    MissingScope(Vec<Scope>),
}

impl Challenge {
    /// The value of `WWW-Authenticate`.
    pub(crate) fn header(&self, public_url: &str, mount: Mount) -> HeaderValue {
        let metadata = format!("resource_metadata=\"{public_url}{WELL_KNOWN}{}\"", mount.path());
        let text = match self {
            Self::NoToken => format!("Bearer {metadata}, scope=\"{}\"", words(BASE_SCOPES)),
            Self::BadToken => format!(
                "Bearer {metadata}, error=\"invalid_token\", error_description=\"the token is unknown or revoked\", \
                 scope=\"{}\"",
                words(BASE_SCOPES)
            ),
            Self::MissingScope(scopes) => {
                format!("Bearer {metadata}, error=\"insufficient_scope\", scope=\"{}\"", words(scopes))
            }
        };
        HeaderValue::try_from(text).unwrap_or_else(|_| HeaderValue::from_static("Bearer"))
    }
}
