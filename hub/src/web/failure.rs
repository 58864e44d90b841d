//! Errors as callers see them: a closed body with a stable code, a public message and the hub's time.
//!
//! What went wrong inside is logged here, once, and not told.

use std::borrow::Cow;

use axum::extract::{Request, State};
use axum::middleware::Next;
use axum::response::{IntoResponse, Response};
use axum::{Json, body::Body};
use http::{HeaderValue, StatusCode, header};
use protocol::{ErrorBody, ErrorDetail};

use crate::Hub;
use crate::store::StoreError;

/// An answer that is an error.
#[derive(Debug, Clone)]
pub(crate) struct Failure {
    status: StatusCode,
    code: &'static str,
    message: Cow<'static, str>,
}

impl Failure {
    pub(crate) fn new(status: StatusCode, code: &'static str, message: impl Into<Cow<'static, str>>) -> Self {
        Self { status, code, message: message.into() }
    }

    pub(crate) fn not_found(message: impl Into<Cow<'static, str>>) -> Self {
        Self::new(StatusCode::NOT_FOUND, "not_found", message)
    }

    pub(crate) fn unauthorized(message: &'static str) -> Self {
        Self::new(StatusCode::UNAUTHORIZED, "unauthorized", message)
    }

    pub(crate) fn bad_request(message: impl Into<Cow<'static, str>>) -> Self {
        Self::new(StatusCode::BAD_REQUEST, "bad_request", message)
    }

    pub(crate) fn unprocessable(message: impl Into<Cow<'static, str>>) -> Self {
        Self::new(StatusCode::UNPROCESSABLE_ENTITY, "unprocessable", message)
    }

    pub(crate) fn too_large(limit: usize) -> Self {
        let message = format!("the body is larger than {limit} bytes");
        Self::new(StatusCode::PAYLOAD_TOO_LARGE, "too_large", message)
    }

    pub(crate) fn internal() -> Self {
        Self::new(StatusCode::INTERNAL_SERVER_ERROR, "internal", "the hub could not do this; try again later")
    }
}

impl From<StoreError> for Failure {
    fn from(error: StoreError) -> Self {
        tracing::error!(%error, "the store failed");
        Self::internal()
    }
}

/// Leaves the body to [`tell`], which knows the time.
impl IntoResponse for Failure {
    fn into_response(self) -> Response {
        let mut response = self.status.into_response();
        response.extensions_mut().insert(self);
        response
    }
}

/// Writes the body of every [`Failure`] that comes out of the router.
pub(super) async fn tell(State(hub): State<Hub>, request: Request, next: Next) -> Response {
    let mut response = next.run(request).await;
    let Some(failure) = response.extensions_mut().remove::<Failure>() else {
        return response;
    };
    let body = ErrorBody {
        error: ErrorDetail { code: failure.code.to_owned(), message: failure.message.into_owned() },
        server_time: hub.now(),
    };
    let (json, text) = Json(body).into_response().into_parts();
    response.headers_mut().extend(json.headers);
    response.headers_mut().remove(header::CONTENT_LENGTH);
    if failure.status == StatusCode::UNAUTHORIZED {
        response.headers_mut().insert(header::WWW_AUTHENTICATE, HeaderValue::from_static("Bearer"));
    }
    *response.body_mut() = Body::new(text);
    response
}
