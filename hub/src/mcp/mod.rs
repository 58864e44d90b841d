//! The MCP endpoint: one stateless server under two paths, for both eras of the protocol.
//!
//! `rmcp` speaks the protocol: versions, headers, framing. This layer stands around it and does what has to be
//! seen in HTTP: it tells who is calling, lets everything but tool calls pass without a token, turns a refusal
//! into its status and challenge (SPEC 6.1), and puts `securitySchemes` on each tool, for which `rmcp` has no field.
//!
//! Refused calls go through `rmcp` as well. It checks the headers, so that a malformed request is told so before
//! anything is said about its token, and it gives the answer the shape of the caller's era.

mod gate;
mod handler;
mod schema;
mod stream;
mod tools;
mod view;
mod work;

use std::sync::Arc;

use axum::Router;
use axum::body::{Body, Bytes};
use axum::extract::Request;
use axum::response::{IntoResponse, Response};
use axum::routing::post;
use http::{HeaderValue, StatusCode, header};
use rmcp::transport::streamable_http_server::session::never::NeverSessionManager;
use rmcp::transport::streamable_http_server::{StreamableHttpServerConfig, StreamableHttpService};
use serde_json::Value;

use self::gate::{Gate, Refusal};
use self::handler::Handler;
use crate::Hub;
use crate::oauth::Mount;
use crate::web::{self, Failure};

/// The largest request body. The arguments of a run have their own, smaller limit.
const MAX_BODY: usize = 1024 * 1024;

type Service = StreamableHttpService<Handler, NeverSessionManager>;

/// What both mounts share.
struct Mcp {
    hub: Hub,
    /// For tool calls: server-sent events, so that progress can go out before the answer.
    streaming: Service,
    /// For everything that is answered at once, and for what this layer must rewrite: plain JSON.
    plain: Service,
}

/// The endpoint under both of its paths. Other methods than `POST` answer 405: there are no sessions to open or end.
pub(crate) fn routes(hub: &Hub) -> Router<Hub> {
    let service = |json: bool| {
        let handler = Handler::new(hub.clone());
        let config = StreamableHttpServerConfig::default()
            .with_legacy_session_mode(false)
            .with_json_response(json)
            .with_max_request_body_bytes(MAX_BODY)
            .with_sse_keep_alive(None)
            // The hub checks the host of every request, not only of these.
            .disable_allowed_hosts();
        StreamableHttpService::new(move || Ok(handler.clone()), Arc::default(), config)
    };
    let mcp = Arc::new(Mcp { hub: hub.clone(), streaming: service(false), plain: service(true) });
    let mut router = Router::new();
    for mount in Mount::ALL {
        let mcp = Arc::clone(&mcp);
        router = router.route(
            mount.path(),
            post(move |request: Request| {
                let mcp = Arc::clone(&mcp);
                async move { mcp.answer(mount, request).await }
            }),
        );
    }
    router
}

impl Mcp {
    async fn answer(&self, mount: Mount, request: Request) -> Response {
        let (mut parts, body) = request.into_parts();
        let body = match web::read_body(body, MAX_BODY).await {
            Ok(body) => body,
            Err(failure) => return failure.into_response(),
        };
        let call = Call::read(&body);
        let gate = match &call {
            Call::Tool(name) => match gate::decide(&self.hub, &parts.headers, name).await {
                Ok(gate) => Some(gate),
                Err(error) => return Failure::from(error).into_response(),
            },
            Call::ListTools | Call::Other => None,
        };
        let refusal = match &gate {
            Some(Gate::Shut(refusal)) => Some(refusal.clone()),
            _ => None,
        };
        let is_open = matches!(gate, Some(Gate::Open(_)));
        let service = if is_open { &self.streaming } else { &self.plain }.clone();
        if let Some(gate) = gate {
            parts.extensions.insert(gate.with_challenge(self.hub.public_url(), mount));
        }
        // rmcp wants a host even where it does not judge it.
        parts.headers.entry(header::HOST).or_insert(HeaderValue::from_static("localhost"));
        let request = Request::from_parts(parts, Body::from(body));
        let answer = async move { service.handle(request).await.map(Body::new) };
        if is_open {
            return stream::respond(answer).await;
        }
        let response = answer.await;
        match (refusal, call) {
            (Some(refusal), _) => self.refused(mount, &refusal, response),
            (None, Call::ListTools) => with_security_schemes(response).await,
            (None, _) => response,
        }
    }

    /// Gives a refusal its HTTP status and challenge. An answer that already is an error is about the request's
    /// own form and stands.
    fn refused(&self, mount: Mount, refusal: &Refusal, mut response: Response) -> Response {
        if response.status() == StatusCode::OK {
            *response.status_mut() = refusal.status();
            let challenge = refusal.challenge.header(self.hub.public_url(), mount);
            response.headers_mut().insert(header::WWW_AUTHENTICATE, challenge);
        }
        response
    }
}

/// What a body asks for, as far as this layer cares.
enum Call {
    Tool(String),
    ListTools,
    Other,
}

impl Call {
    fn read(body: &Bytes) -> Self {
        let Ok(message) = serde_json::from_slice::<Value>(body) else {
            return Self::Other;
        };
        match message.get("method").and_then(Value::as_str) {
            Some("tools/call") => {
                let name = message.pointer("/params/name").and_then(Value::as_str).unwrap_or_default();
                Self::Tool(name.to_owned())
            }
            Some("tools/list") => Self::ListTools,
            _ => Self::Other,
        }
    }
}

/// Repeats each tool's `_meta.securitySchemes` at its top level, where clients look for it.
async fn with_security_schemes(response: Response) -> Response {
    if response.status() != StatusCode::OK {
        return response;
    }
    let (mut parts, body) = response.into_parts();
    let Ok(bytes) = axum::body::to_bytes(body, usize::MAX).await else {
        return Failure::internal().into_response();
    };
    let Ok(mut message) = serde_json::from_slice::<Value>(&bytes) else {
        return Response::from_parts(parts, Body::from(bytes));
    };
    for tool in message.pointer_mut("/result/tools").and_then(Value::as_array_mut).into_iter().flatten() {
        if let Some(schemes) = tool.pointer("/_meta/securitySchemes").cloned()
            && let Some(tool) = tool.as_object_mut()
        {
            tool.insert("securitySchemes".to_owned(), schemes);
        }
    }
    parts.headers.remove(header::CONTENT_LENGTH);
    Response::from_parts(parts, Body::from(message.to_string()))
}
