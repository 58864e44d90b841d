//! The hub's HTTP face: which path leads where, and what holds for all of them.

mod auth;
mod body;
mod failure;
mod guard;
mod relay;

use axum::extract::State;
use axum::response::{IntoResponse, Response};
use axum::routing::get;
use axum::{Router, middleware};
use http::StatusCode;
use tower_http::catch_panic::CatchPanicLayer;
use tower_http::compression::CompressionLayer;
use tower_http::compression::predicate::{NotForContentType, Predicate, SizeAbove};

pub(crate) use self::auth::bearer;
pub(crate) use self::body::read as read_body;
pub(crate) use self::failure::Failure;
use crate::oauth::{self, Mount};
use crate::{Hub, mcp};

/// Smaller answers are not worth compressing: most syncs bring some hundred bytes.
const COMPRESS_ABOVE: u64 = 1024;

/// Everything that the hub serves.
pub(crate) fn router(hub: &Hub) -> Router {
    let compression = CompressionLayer::new()
        .compress_when(SizeAbove::new(COMPRESS_ABOVE).and(NotForContentType::const_new("text/event-stream")));
    let mut router = Router::new().route("/", get(front)).route("/healthz", get(health)).merge(relay::routes());
    for mount in Mount::ALL {
        let path = format!("{}{}", oauth::WELL_KNOWN, mount.path());
        router = router.route(&path, get(move |hub: State<Hub>| oauth::metadata(hub, mount)));
    }
    router
        .route(oauth::WELL_KNOWN, get(|hub: State<Hub>| oauth::metadata(hub, Mount::Mcp)))
        .merge(mcp::routes(hub))
        .fallback(async || Failure::not_found("there is nothing here"))
        .method_not_allowed_fallback(async || {
            Failure::new(StatusCode::METHOD_NOT_ALLOWED, "method_not_allowed", "this path takes another method")
        })
        .layer(compression)
        .layer(middleware::from_fn_with_state(hub.clone(), guard::check_host))
        .layer(CatchPanicLayer::custom(|_| Failure::internal().into_response()))
        .layer(middleware::from_fn_with_state(hub.clone(), failure::tell))
        .with_state(hub.clone())
}

async fn front() -> &'static str {
    "graph-relay hub\n\n\
     It queues runs of saved Graphs for the desktops that share them.\n\
     Assistants: connect an MCP client to /mcp on this host.\n\
     Desktops: link with `graph-relay` and a device token.\n"
}

/// Whether the store answers.
async fn health(State(hub): State<Hub>) -> Response {
    match hub.store().projects().await {
        Ok(_) => "ok\n".into_response(),
        Err(error) => Failure::from(error).into_response(),
    }
}
