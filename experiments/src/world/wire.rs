//! The network between desktop and hub: the desktop's requests go straight to the hub's router, unless they are
//! meant to be lost.

use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use async_trait::async_trait;
use axum::Router;
use axum::body::Body;
use graph_relay::relay::transport::{MAX_ANSWER_BYTES, Reply, Request, Transport, TransportError};
use http::header;
use protocol::{Clock, CompleteResponse, Completion, SystemClock};
use tokio::time::Instant;
use tower::ServiceExt;

/// What happens to a completion report.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Loss {
    /// The hub never sees it, the desktop sees the connection break.
    Request,
    /// The hub takes it, the desktop sees the connection break.
    Answer,
    /// The hub never sees it and the desktop takes it for delivered: what a relay does that sends and forgets.
    Unnoticed,
}

/// One report that the desktop sent.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Sent {
    pub(crate) at: Instant,
    pub(crate) loss: Option<Loss>,
}

/// A transport without a network: requests take no time.
pub(crate) struct Wire {
    router: Router,
    token: String,
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    lose_next: Option<Loss>,
    reports: Vec<Sent>,
}

impl Wire {
    pub(crate) fn new(router: Router, token: String) -> Self {
        Self { router, token, state: Mutex::default() }
    }

    /// The next completion report will be lost.
    pub(crate) fn lose_next_report(&self, loss: Loss) {
        self.state().lose_next = Some(loss);
    }

    /// Every completion report that was sent.
    pub(crate) fn reports(&self) -> Vec<Sent> {
        self.state().reports.clone()
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn note_report(&self) -> Option<Loss> {
        let mut state = self.state();
        let loss = state.lose_next.take();
        state.reports.push(Sent { at: Instant::now(), loss });
        loss
    }

    async fn pass_on(&self, request: Request) -> Result<Reply, TransportError> {
        let broken = |error: &dyn std::fmt::Display| TransportError::Unreachable(error.to_string());
        let mut builder = match &request.body {
            Some(_) => http::Request::post(&request.path).header(header::CONTENT_TYPE, "application/json"),
            None => http::Request::get(&request.path),
        };
        builder = builder.header(header::AUTHORIZATION, format!("Bearer {}", self.token));
        if let Some(key) = &request.idempotency_key {
            builder = builder.header("Idempotency-Key", key);
        }
        let request = builder.body(Body::from(request.body.unwrap_or_default())).map_err(|error| broken(&error))?;
        let Ok(response) = self.router.clone().oneshot(request).await;
        let (parts, body) = response.into_parts();
        let text = |name| parts.headers.get(name).and_then(|value| value.to_str().ok()).map(str::to_owned);
        Ok(Reply {
            status: parts.status.as_u16(),
            retry_after: text(header::RETRY_AFTER).and_then(|text| text.parse().ok()).map(Duration::from_secs),
            location: text(header::LOCATION),
            body: axum::body::to_bytes(body, MAX_ANSWER_BYTES).await.map_err(|_| TransportError::TooLarge)?.into(),
        })
    }
}

#[async_trait]
impl Transport for Wire {
    fn base_url(&self) -> &str {
        "http://localhost"
    }

    async fn send(&self, request: Request) -> Result<Reply, TransportError> {
        let lost = || TransportError::Unreachable("lost on purpose".to_owned());
        let loss = if request.path.ends_with("/complete") { self.note_report() } else { None };
        match loss {
            None => self.pass_on(request).await,
            Some(Loss::Request) => Err(lost()),
            Some(Loss::Answer) => {
                self.pass_on(request).await?;
                Err(lost())
            }
            Some(Loss::Unnoticed) => taken(&request),
        }
    }
}

/// The answer of a hub that took the report.
fn taken(report: &Request) -> Result<Reply, TransportError> {
    let unreadable = |error: serde_json::Error| TransportError::Unreachable(error.to_string());
    let completion: Completion =
        serde_json::from_slice(report.body.as_deref().unwrap_or_default()).map_err(unreadable)?;
    // The desktop only measures its clock by the time.
    let answer = CompleteResponse { status: completion.status.into(), server_time: SystemClock.now() };
    Ok(Reply { status: 200, body: serde_json::to_vec(&answer).map_err(unreadable)?, ..Reply::default() })
}
