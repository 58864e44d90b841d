//! The transport over HTTPS.

use std::error::Error;
use std::time::Duration;

use async_trait::async_trait;
use reqwest::header::{AUTHORIZATION, CONTENT_TYPE, HeaderMap, HeaderValue, LOCATION, RETRY_AFTER};
use reqwest::{Client, Response, Url, redirect};

use super::transport::{MAX_ANSWER_BYTES, Reply, Request, Transport, TransportError};

/// A connection that is not there within this time will not come.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(10);

/// With a request under way, the connection is asked for a sign of life this often.
const PING: Duration = Duration::from_secs(15);

/// A connection that gives none within this time is dead.
const PONG: Duration = Duration::from_secs(10);

/// Speaks HTTP to one hub with one device token.
pub struct HttpTransport {
    client: Client,
    base: String,
}

/// Why no client could be made.
#[derive(Debug, thiserror::Error)]
pub enum HttpError {
    /// Not something to send a token to.
    #[error("the hub's URL `{0}` is not valid")]
    Url(String),
    /// It must fit into a header.
    #[error("the device token holds characters that a token cannot have")]
    Token,
    /// The system's certificates cannot be used, or the like.
    #[error("no HTTPS client can be made: {0}")]
    Client(#[from] reqwest::Error),
}

impl HttpTransport {
    /// A client for the hub at `base`.
    ///
    /// # Errors
    /// [`HttpError`].
    pub fn new(base: &str, token: &str) -> Result<Self, HttpError> {
        let base = base_url(base)?;
        let mut bearer = HeaderValue::from_str(&format!("Bearer {token}")).map_err(|_| HttpError::Token)?;
        bearer.set_sensitive(true);
        let client = Client::builder()
            .user_agent(concat!("graph-relay/", env!("CARGO_PKG_VERSION")))
            .default_headers(HeaderMap::from_iter([(AUTHORIZATION, bearer)]))
            // A redirect would carry the owner's results to wherever it points.
            .redirect(redirect::Policy::none())
            .connect_timeout(CONNECT_TIMEOUT)
            .pool_max_idle_per_host(2)
            // After a sleep or a change of network the connection may be dead without a word. HTTP/2 would go on using
            // it for minutes, until TCP gives up.
            .http2_keep_alive_interval(PING)
            .http2_keep_alive_timeout(PONG)
            .build()?;
        Ok(Self { client, base })
    }
}

/// A hub's URL in the one spelling by which the database and the outbox know it: without a closing slash.
///
/// # Errors
/// [`HttpError::Url`].
pub fn base_url(text: &str) -> Result<String, HttpError> {
    let url = Url::parse(text).map_err(|_| HttpError::Url(text.to_owned()))?;
    Ok(url.as_str().trim_end_matches('/').to_owned())
}

#[async_trait]
impl Transport for HttpTransport {
    fn base_url(&self) -> &str {
        &self.base
    }

    async fn send(&self, request: Request) -> Result<Reply, TransportError> {
        let url = format!("{}{}", self.base, request.path);
        let mut builder = match request.body {
            Some(body) => self.client.post(url).header(CONTENT_TYPE, "application/json").body(body),
            None => self.client.get(url),
        };
        if let Some(key) = request.idempotency_key {
            builder = builder.header("Idempotency-Key", key);
        }
        read(builder.send().await.map_err(unreachable)?).await
    }
}

async fn read(mut response: Response) -> Result<Reply, TransportError> {
    let header = |name| response.headers().get(name).and_then(|value: &HeaderValue| value.to_str().ok());
    let mut reply = Reply {
        status: response.status().as_u16(),
        retry_after: header(RETRY_AFTER).and_then(|text| text.trim().parse().ok()).map(Duration::from_secs),
        location: header(LOCATION).map(str::to_owned),
        body: Vec::new(),
    };
    // Counted as it comes: a length header can lie, and a small compressed answer can unfold.
    while let Some(chunk) = response.chunk().await.map_err(unreachable)? {
        if reply.body.len() + chunk.len() > MAX_ANSWER_BYTES {
            return Err(TransportError::TooLarge);
        }
        reply.body.extend_from_slice(&chunk);
    }
    Ok(reply)
}

/// The innermost cause: what a person can act on. The URL is left out, it is known.
fn unreachable(error: reqwest::Error) -> TransportError {
    let error = error.without_url();
    let mut cause: &dyn Error = &error;
    while let Some(inner) = cause.source() {
        cause = inner;
    }
    TransportError::Unreachable(cause.to_string())
}
