//! One backend, and one request to it.

use std::sync::OnceLock;
use std::time::Duration;

use reqwest::{Client, Response, StatusCode, header, redirect};
use serde_json::Value;
use tokio::sync::Semaphore;
use tokio::time::Instant;

use super::chat::{self, Reply};
use super::{ModelConfig, retry};
use crate::{GraphError, TokenUsage};

/// Longest answer.
const BODY_BYTES: usize = 8 * 1024 * 1024;
const CONNECT: Duration = Duration::from_secs(20);
/// What is shown of an error's body.
const SHOWN_UNITS: usize = 300;

/// An OpenAI-compatible backend.
pub(crate) struct Backend {
    name: String,
    config: ModelConfig,
    /// Requests under way, over all runs.
    places: Semaphore,
    /// Built with the first request: a Graph without agents needs no TLS.
    client: OnceLock<Result<Client, String>>,
}

/// A try that failed.
struct Failure {
    error: Box<GraphError>,
    /// Whether another try may help.
    passing: bool,
    retry_after: Option<Duration>,
}

impl Failure {
    fn lasting(code: &str, message: String) -> Self {
        Self { error: Box::new(GraphError::agent(code, message)), passing: false, retry_after: None }
    }

    fn passing(code: &str, message: String) -> Self {
        Self { error: Box::new(GraphError::agent(code, message).retryable()), passing: true, retry_after: None }
    }
}

impl Backend {
    pub(super) fn new(name: String, config: ModelConfig) -> Self {
        let places = Semaphore::new(config.max_concurrency.max(1) as usize);
        Self { name, config, places, client: OnceLock::new() }
    }

    /// The owner's name of it.
    pub(crate) fn name(&self) -> &str {
        &self.name
    }

    /// The provider's name of the model.
    pub(crate) fn model(&self) -> &str {
        &self.config.model
    }

    pub(crate) fn cost(&self, tokens: TokenUsage) -> Option<f64> {
        self.config.cost(tokens)
    }

    /// Sends one request, again after passing failures: 408, 409, 429, 5xx and broken connections.
    ///
    /// `on_retry` is told of each failed try that another one follows: its number, the pause, the error.
    pub(crate) async fn complete(
        &self,
        body: &Value,
        on_retry: &(dyn Fn(u32, Duration, &GraphError) + Sync),
    ) -> Result<Reply, GraphError> {
        let body = serde_json::to_vec(body).expect("a JSON value serializes");
        let begun = Instant::now();
        let mut attempt = 1;
        loop {
            let failure = match self.attempt(&body).await {
                Ok(reply) => return Ok(reply),
                Err(failure) => failure,
            };
            let pause = retry::delay(attempt, begun.elapsed(), failure.retry_after, rand::random());
            let Some(pause) = pause.filter(|_| failure.passing) else { return Err(*failure.error) };
            on_retry(attempt, pause, &failure.error);
            tokio::time::sleep(pause).await;
            attempt += 1;
        }
    }

    async fn attempt(&self, body: &[u8]) -> Result<Reply, Failure> {
        let client = self.client()?;
        // Held for one try only: a pause leaves the place to another agent.
        let _place = self.places.acquire().await.expect("the semaphore is never closed");
        let url = format!("{}/chat/completions", self.config.base_url.trim_end_matches('/'));
        let mut request = client
            .post(url)
            .timeout(self.config.timeout)
            .header(header::CONTENT_TYPE, "application/json")
            .body(body.to_vec());
        if let Some(key) = self.config.key() {
            request = request.bearer_auth(key.expose());
        }
        let response = request.send().await.map_err(|error| self.transport(&error))?;
        let status = response.status();
        let retry_after = response.headers().get(header::RETRY_AFTER).and_then(|value| value.to_str().ok());
        let retry_after = retry::retry_after(retry_after);
        let answer = self.read(response).await?;
        if status.is_success() {
            return chat::parse(&answer, body.len()).map_err(|error| Failure {
                error: Box::new(error),
                passing: false,
                retry_after: None,
            });
        }
        Err(Failure { retry_after, ..self.refused(status, &answer) })
    }

    fn client(&self) -> Result<&Client, Failure> {
        let client = self.client.get_or_init(|| build_client(&self.config.base_url));
        client.as_ref().map_err(|error| Failure::lasting("backend_unavailable", error.clone()))
    }

    async fn read(&self, mut response: Response) -> Result<Vec<u8>, Failure> {
        let mut body = Vec::new();
        while let Some(chunk) = response.chunk().await.map_err(|error| self.transport(&error))? {
            if body.len() + chunk.len() > BODY_BYTES {
                let message = format!("the model '{}' answered with more than {BODY_BYTES} bytes", self.name);
                return Err(Failure::lasting("backend_unavailable", message));
            }
            body.extend_from_slice(&chunk);
        }
        Ok(body)
    }

    fn transport(&self, error: &reqwest::Error) -> Failure {
        let name = &self.name;
        if error.is_timeout() && !error.is_connect() {
            let limit = humantime::format_duration(self.config.timeout);
            return Failure::lasting("timeout", format!("the model '{name}' did not answer within {limit}"));
        }
        if error.is_builder() {
            let message = format!("models.{name}: base_url '{}' is no URL", self.config.base_url);
            return Failure::lasting("backend_unavailable", message);
        }
        // The outer error names the URL only; the cause says what happened.
        let mut cause: &dyn std::error::Error = error;
        while let Some(source) = cause.source() {
            cause = source;
        }
        let message = format!("the model '{name}' at {} cannot be reached: {cause}", self.config.base_url);
        Failure::passing("backend_unavailable", message)
    }

    fn refused(&self, status: StatusCode, body: &[u8]) -> Failure {
        let mut shown = String::from_utf8_lossy(&body[..body.len().min(4 * SHOWN_UNITS)]).into_owned();
        crate::text::cut_utf16(&mut shown, SHOWN_UNITS);
        let name = &self.name;
        let message = format!("the model '{name}' answered {status}: {shown}");
        match status.as_u16() {
            429 => Failure::passing("rate_limited", message),
            408 | 409 | 500..=599 => Failure::passing("backend_unavailable", message),
            401 | 403 => Failure::lasting("auth", format!("{message} (check api_key of [models.{name}])")),
            413 => Failure::lasting("context_overflow", message),
            400 | 422 if shown.contains("context") => Failure::lasting("context_overflow", message),
            300..=399 => Failure::lasting("backend_unavailable", format!("{message} (redirects are not followed)")),
            _ => Failure::lasting("backend_unavailable", message),
        }
    }
}

fn build_client(base_url: &str) -> Result<Client, String> {
    if rustls::crypto::CryptoProvider::get_default().is_none() {
        // Another thread may have been faster, which is as good.
        let _ = rustls::crypto::ring::default_provider().install_default();
    }
    let mut builder = Client::builder().redirect(redirect::Policy::none()).connect_timeout(CONNECT);
    let loopback = reqwest::Url::parse(base_url).is_ok_and(|url| {
        url.host_str().is_some_and(|host| host == "localhost" || host.starts_with("127.") || host == "[::1]")
    });
    if loopback {
        builder = builder.no_proxy();
    }
    builder.build().map_err(|error| format!("the HTTP client cannot be built: {error}"))
}
