//! How bytes get to the hub and back. Everything above it is the same in virtual time, where the hub's router
//! stands in for the network.

use std::time::Duration;

use async_trait::async_trait;

/// The most that an answer may weigh. What is larger is not read: the hub is untrusted.
pub const MAX_ANSWER_BYTES: usize = 8 * 1024 * 1024;

/// One request.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Request {
    /// Path below the hub's base URL, beginning with a slash.
    pub path: String,
    /// JSON to `POST`; none for a `GET`.
    pub body: Option<Vec<u8>>,
    /// Sent as `Idempotency-Key`.
    pub idempotency_key: Option<String>,
}

/// One answer, whatever its status.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Reply {
    /// HTTP status.
    pub status: u16,
    /// `Retry-After`, where it was given in seconds.
    pub retry_after: Option<Duration>,
    /// `Location`, of a redirect that was not followed.
    pub location: Option<String>,
    /// At most [`MAX_ANSWER_BYTES`].
    pub body: Vec<u8>,
}

/// Why there is no answer.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum TransportError {
    /// No connection, or it broke.
    #[error("the hub cannot be reached: {0}")]
    Unreachable(String),
    /// More than [`MAX_ANSWER_BYTES`].
    #[error("the hub's answer is larger than {} MiB and was not read", MAX_ANSWER_BYTES / (1024 * 1024))]
    TooLarge,
}

/// Sends requests to one hub.
#[async_trait]
pub trait Transport: Send + Sync + 'static {
    /// The hub's base URL, without a closing slash: what reports are addressed to.
    fn base_url(&self) -> &str;

    /// Sends one request. The caller bounds the time.
    async fn send(&self, request: Request) -> Result<Reply, TransportError>;
}
