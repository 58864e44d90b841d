//! The hub, as the relay sees it: typed calls, each bounded in time, each failure a kind that says what to do.

use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};
use std::time::Duration;

use jiff::Timestamp;
use protocol::{
    CheckRequest, CheckResponse, Clock, CommandId, CommandStatus, CompleteResponse, ErrorBody, ProjectId,
    ProjectsResponse, StartRequest, StartResponse, SyncRequest, SyncResponse, WaitRequest, WaitResponse, path,
};
use serde::Serialize;
use serde::de::{DeserializeOwned, IgnoredAny};

use super::transport::{Reply, Request, Transport, TransportError};

/// A call may ask to be held this long by the hub (SPEC's wake channel allows 50 s).
const WAIT: Duration = Duration::from_secs(50);

/// Of what a hub says in its errors, this many characters are kept.
const MAX_SAID: usize = 200;

/// One hub, asked with one device token.
#[derive(Clone)]
pub struct HubClient {
    transport: Arc<dyn Transport>,
    clock: Arc<dyn Clock>,
    timeout: Duration,
    /// The hub's clock less ours, in milliseconds: told to the owner, and never a reason to give up the token.
    skew_ms: Arc<AtomicI64>,
}

/// Why a call brought nothing.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum HubError {
    /// No answer came that could be read.
    #[error(transparent)]
    Transport(#[from] TransportError),
    /// No answer came in time.
    #[error("the hub did not answer within {}", humantime::format_duration(*.0))]
    Timeout(Duration),
    /// The token is unknown there, or was revoked.
    #[error("the hub does not accept this desktop's token ({0}): make a new one there and put it into the token file")]
    Unauthorized(String),
    /// Not followed: it would carry the owner's results elsewhere.
    #[error("the hub redirects to `{0}`: if that is right, set `url` under [hub] to it")]
    Redirect(String),
    /// It does not know what was asked about, or will never take it.
    #[error("the hub refused ({status}): {said}")]
    Refused {
        /// HTTP status.
        status: u16,
        /// What it said.
        said: String,
    },
    /// A passing trouble at the hub.
    #[error("the hub answered {status}: {said}")]
    Busy {
        /// HTTP status.
        status: u16,
        /// What it said.
        said: String,
        /// The least time to wait.
        retry_after: Option<Duration>,
    },
    /// 2xx, but not what the call brings.
    #[error("the hub's answer makes no sense: {0}")]
    Malformed(String),
}

impl HubError {
    /// The least time that the hub wants to be left alone.
    pub fn retry_after(&self) -> Option<Duration> {
        match self {
            Self::Busy { retry_after, .. } => *retry_after,
            _ => None,
        }
    }

    /// Whether the same request can never succeed.
    pub fn is_final(&self) -> bool {
        matches!(self, Self::Refused { status: 404 | 410 | 422, .. })
    }

    /// Whether nobody answered: other requests would fare no better.
    pub fn is_silence(&self) -> bool {
        matches!(self, Self::Transport(TransportError::Unreachable(_)) | Self::Timeout(_))
    }
}

/// The hub's answer to `start`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Start {
    /// The run may begin.
    Agreed,
    /// It was cancelled, is settled, is gone, or will never be agreed to.
    Denied,
}

impl HubClient {
    /// A client whose calls may take `timeout` each.
    pub fn new(transport: Arc<dyn Transport>, clock: Arc<dyn Clock>, timeout: Duration) -> Self {
        Self { transport, clock, timeout, skew_ms: Arc::default() }
    }

    /// The hub's base URL, by which the desktop's database tells hubs apart.
    pub fn base_url(&self) -> &str {
        self.transport.base_url()
    }

    /// The hub's clock less ours, as last seen, in milliseconds.
    pub fn skew_ms(&self) -> i64 {
        self.skew_ms.load(Ordering::Relaxed)
    }

    /// The projects that this desktop's owner is a member of.
    ///
    /// # Errors
    /// [`HubError`].
    pub async fn projects(&self) -> Result<ProjectsResponse, HubError> {
        let request = Request { path: path::PROJECTS.to_owned(), body: None, idempotency_key: None };
        let answer: ProjectsResponse = parse(&success(self.send(request, self.timeout).await?)?)?;
        self.saw_clock(answer.server_time);
        Ok(answer)
    }

    /// Tells what is shared, takes what is queued.
    ///
    /// # Errors
    /// [`HubError`].
    pub async fn sync(&self, body: &SyncRequest) -> Result<SyncResponse, HubError> {
        let answer: SyncResponse = parse(&success(self.post(path::SYNC, body).await?)?)?;
        self.saw_clock(answer.server_time);
        Ok(answer)
    }

    /// Asks whether the command may start now.
    ///
    /// # Errors
    /// [`HubError`]; a lost answer may be asked again.
    pub async fn start(&self, id: CommandId, attempt: u32) -> Result<Start, HubError> {
        let reply = self.post(&path::command(&id, "start"), &StartRequest { attempt }).await?;
        match reply.status {
            404 | 409 | 410 | 422 => Ok(Start::Denied),
            _ => match parse::<StartResponse>(&success(reply)?)?.status {
                CommandStatus::Running => Ok(Start::Agreed),
                // Asked for again and again, what has ended would keep all others waiting.
                settled if settled.is_settled() => Ok(Start::Denied),
                other => Err(HubError::Malformed(format!("a start that leaves the command {}", other.as_str()))),
            },
        }
    }

    /// Tells how a run goes and learns whether it is to be cancelled.
    ///
    /// # Errors
    /// [`HubError`].
    pub async fn check(&self, id: CommandId, progress: &CheckRequest) -> Result<CheckResponse, HubError> {
        let answer: CheckResponse = parse(&success(self.post(&path::command(&id, "check"), progress).await?)?)?;
        self.saw_clock(answer.server_time);
        Ok(answer)
    }

    /// Sends a report's frozen bytes. "Already settled" (409) is as good as taken.
    ///
    /// # Errors
    /// [`HubError`]; [`HubError::is_final`] tells whether to try again.
    pub async fn complete(&self, path: &str, body: Vec<u8>, key: &str) -> Result<(), HubError> {
        let request = Request { path: path.to_owned(), body: Some(body), idempotency_key: Some(key.to_owned()) };
        let reply = self.send(request, self.timeout).await?;
        if reply.status == 409 {
            return Ok(());
        }
        let body = success(reply)?;
        // A compatible server may say less. What is no JSON at all comes from something in between, such as the
        // sign-in page of a Wi-Fi: the report has not arrived.
        if !body.is_empty() {
            parse::<IgnoredAny>(&body)?;
        }
        if let Ok(answer) = parse::<CompleteResponse>(&body) {
            self.saw_clock(answer.server_time);
        }
        Ok(())
    }

    /// Waits until there is something to do in one of the projects, or the hub ends the wait.
    ///
    /// # Errors
    /// [`HubError`].
    pub async fn wait(&self, projects: Vec<ProjectId>) -> Result<bool, HubError> {
        let body = json(&WaitRequest { projects, timeout_s: WAIT.as_secs() })?;
        let request = Request { path: path::WAIT.to_owned(), body: Some(body), idempotency_key: None };
        let reply = self.send(request, WAIT + self.timeout).await?;
        Ok(parse::<WaitResponse>(&success(reply)?)?.wake)
    }

    async fn post<T: Serialize>(&self, path: &str, body: &T) -> Result<Reply, HubError> {
        let request = Request { path: path.to_owned(), body: Some(json(body)?), idempotency_key: None };
        self.send(request, self.timeout).await
    }

    async fn send(&self, request: Request, timeout: Duration) -> Result<Reply, HubError> {
        match tokio::time::timeout(timeout, self.transport.send(request)).await {
            Ok(reply) => Ok(reply?),
            Err(_) => Err(HubError::Timeout(timeout)),
        }
    }

    fn saw_clock(&self, theirs: Timestamp) {
        self.skew_ms.store(theirs.as_millisecond().saturating_sub(self.clock.now_ms()), Ordering::Relaxed);
    }
}

fn json<T: Serialize>(body: &T) -> Result<Vec<u8>, HubError> {
    serde_json::to_vec(body).map_err(|error| HubError::Malformed(format!("a request without JSON form: {error}")))
}

fn parse<T: DeserializeOwned>(body: &[u8]) -> Result<T, HubError> {
    // The error may quote what came, which may be megabytes.
    serde_json::from_slice(body).map_err(|error| HubError::Malformed(shortened(&error.to_string())))
}

/// The body of a 2xx, or what the status means.
fn success(reply: Reply) -> Result<Vec<u8>, HubError> {
    let status = reply.status;
    if (200..300).contains(&status) {
        return Ok(reply.body);
    }
    if let (300..400, Some(location)) = (status, &reply.location) {
        return Err(HubError::Redirect(shortened(location)));
    }
    let said = said(&reply.body);
    Err(match status {
        401 | 403 => HubError::Unauthorized(said),
        408 | 425 | 429 | 500.. => HubError::Busy { status, said, retry_after: reply.retry_after },
        _ => HubError::Refused { status, said },
    })
}

/// What the hub said for people, as far as it can be understood.
fn said(body: &[u8]) -> String {
    let text = match serde_json::from_slice::<ErrorBody>(body) {
        Ok(body) => body.error.message,
        Err(_) => String::from_utf8_lossy(&body[..body.len().min(4 * MAX_SAID)]).trim().to_owned(),
    };
    if text.is_empty() { "no reason given".to_owned() } else { shortened(&text) }
}

/// Bounded, and without control characters: it ends up in a terminal.
fn shortened(text: &str) -> String {
    text.chars().map(|ch| if ch.is_control() { ' ' } else { ch }).take(MAX_SAID).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn answer(status: u16, body: &str) -> HubError {
        success(Reply { status, body: body.as_bytes().to_vec(), ..Reply::default() }).unwrap_err()
    }

    #[test]
    fn only_what_can_never_succeed_is_final() {
        for status in [404, 410, 422] {
            assert!(answer(status, "").is_final(), "{status}");
        }
        for status in [301, 400, 401, 403, 408, 413, 429, 500, 502, 503] {
            assert!(
                !answer(status, "").is_final(),
                "{status}: a report would be given up although it may still arrive"
            );
        }
    }

    #[test]
    fn what_the_hub_says_is_bounded_and_harmless_in_a_terminal() {
        let text = answer(500, &format!("\u{1b}[2J{}", "x".repeat(100_000))).to_string();
        assert!(text.len() < 300 && !text.contains('\u{1b}'), "{text}");
    }

    #[test]
    fn a_redirect_says_where_to() {
        let reply = Reply { status: 308, location: Some("https://other".to_owned()), ..Reply::default() };
        assert_eq!(success(reply), Err(HubError::Redirect("https://other".to_owned())));
    }
}
