//! Request bodies, bounded in size and time.

use std::time::Duration;

use axum::extract::{FromRequest, Request};
use http::StatusCode;
use serde::de::DeserializeOwned;

use super::Failure;
use crate::Hub;

/// The largest relay body, after decompression. A report has at most 100,000 UTF-16 units, which is some 600 kB when
/// each is written as an escape; 100 sessions are far less.
const MAX_BODY: usize = 2 * 1024 * 1024;
/// A body that comes slower than this is given up.
const TIMEOUT: Duration = Duration::from_secs(30);

/// A JSON body, bounded in size and time.
pub(super) struct Body<T>(pub(super) T);

/// A body that ends too early may come whole when it is sent again: 400. Any other that cannot be read will never be: 422,
/// which tells a desktop to stop trying.
impl<T: DeserializeOwned> FromRequest<Hub> for Body<T> {
    type Rejection = Failure;

    async fn from_request(request: Request, _: &Hub) -> Result<Self, Failure> {
        let bytes = read(request.into_body(), MAX_BODY).await?;
        serde_json::from_slice(&bytes).map(Self).map_err(|error| {
            if error.is_eof() {
                return Failure::bad_request(format!("the body ends too early: {error}"));
            }
            Failure::unprocessable(format!("the body is not understood: {error}"))
        })
    }
}

/// Reads a body whole, or says why not.
pub(crate) async fn read(body: axum::body::Body, limit: usize) -> Result<axum::body::Bytes, Failure> {
    match tokio::time::timeout(TIMEOUT, axum::body::to_bytes(body, limit)).await {
        Ok(Ok(bytes)) => Ok(bytes),
        Ok(Err(error)) if is_length_limit(&error) => Err(Failure::too_large(limit)),
        Ok(Err(_)) => Err(Failure::bad_request("the body could not be read")),
        Err(_) => Err(Failure::new(StatusCode::REQUEST_TIMEOUT, "timeout", "the body did not arrive in time")),
    }
}

fn is_length_limit(error: &axum::Error) -> bool {
    let mut cause: Option<&(dyn std::error::Error + 'static)> = Some(error);
    while let Some(error) = cause {
        if error.is::<http_body_util::LengthLimitError>() {
            return true;
        }
        cause = error.source();
    }
    false
}
