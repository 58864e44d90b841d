//! The relay API: what desktops call.
//!
//! Every call is answered from the store and may be sent again after a lost answer.

use std::time::Duration;

use axum::extract::{Path, State};
use axum::response::{IntoResponse, Response};
use axum::routing::{get, post};
use axum::{Json, Router};
use http::StatusCode;
use protocol::{
    CheckRequest, CheckResponse, CommandStatus, CompleteResponse, Completion, MAX_REPORT_UNITS, MAX_SESSIONS_PER_SYNC,
    ProjectsResponse, SessionMetadata, StartRequest, StartResponse, SyncRequest, SyncResponse, WaitRequest,
    WaitResponse, exceeds, path,
};
use tower_http::decompression::RequestDecompressionLayer;

use super::Failure;
use super::auth::Desktop;
use super::body::Body;
use crate::Hub;
use crate::command::Event;
use crate::store::{Actor, Applied, SyncInput, SyncOutcome};

/// At most this many projects in one wait.
const MAX_WAIT_PROJECTS: usize = 1_000;
/// The longest that a wait is held.
const MAX_WAIT: Duration = Duration::from_secs(50);

pub(super) fn routes() -> Router<Hub> {
    let step = |name| format!("/external-assistants/graph-relays/commands/{{id}}/{name}");
    Router::new()
        .route(path::PROJECTS, get(projects))
        .route(path::SYNC, post(sync))
        .route(path::WAIT, post(wait))
        .route(&step("start"), post(start))
        .route(&step("check"), post(check))
        .route(&step("complete"), post(complete))
        .layer(RequestDecompressionLayer::new())
}

async fn projects(State(hub): State<Hub>, Desktop(device): Desktop) -> Result<Json<ProjectsResponse>, Failure> {
    let projects = hub.store().projects_of(&device.owner).await?;
    Ok(Json(ProjectsResponse { projects, server_time: hub.now() }))
}

async fn sync(
    State(hub): State<Hub>,
    Desktop(device): Desktop,
    Body(request): Body<SyncRequest>,
) -> Result<Json<SyncResponse>, Failure> {
    if request.sessions.len() > MAX_SESSIONS_PER_SYNC {
        return Err(Failure::unprocessable(format!("a sync carries at most {MAX_SESSIONS_PER_SYNC} sessions")));
    }
    let SyncRequest { project_id, device: introduction, known, sessions, accept } = request;
    let sessions = sessions.into_iter().map(SessionMetadata::capped).collect();
    let input = SyncInput { project_id, device: introduction, known, sessions, accept };
    let now = hub.now();
    let (commands, lost) = match hub.store().sync(&device, input, now, hub.settings().lease).await? {
        SyncOutcome::Synced { commands, lost } => (commands, lost),
        SyncOutcome::NotMember => {
            return Err(Failure::not_found("no such project, or the desktop's owner is not a member of it"));
        }
        SyncOutcome::SessionElsewhere(id) => {
            let message = format!("Graph session {id} belongs to another owner's desktop");
            return Err(Failure::new(StatusCode::CONFLICT, "session_elsewhere", message));
        }
    };
    for id in &lost {
        hub.wakes().run_ended(id);
    }
    let commands = commands.iter().map(serde_json::to_value).collect::<Result<_, _>>().map_err(|error| {
        tracing::error!(%error, "a queued command cannot be written as JSON");
        Failure::internal()
    })?;
    let next_poll_s = Some(hub.settings().poll.as_secs());
    Ok(Json(SyncResponse { commands, next_poll_s, server_time: now }))
}

async fn start(
    State(hub): State<Hub>,
    Desktop(device): Desktop,
    Path(id): Path<String>,
    Body(StartRequest { attempt }): Body<StartRequest>,
) -> Result<Response, Failure> {
    let applied = apply(&hub, device.id, &id, Event::Start { attempt }).await?;
    let body = StartResponse { status: applied.state.status, server_time: hub.now() };
    Ok((ok_or_conflict(applied.accepted), Json(body)).into_response())
}

async fn check(
    State(hub): State<Hub>,
    Desktop(device): Desktop,
    Path(id): Path<String>,
    Body(progress): Body<CheckRequest>,
) -> Result<Json<CheckResponse>, Failure> {
    let state = apply(&hub, device.id, &id, Event::Check(progress.capped())).await?.state;
    Ok(Json(CheckResponse {
        status: state.status,
        cancel_requested: state.cancel_requested || state.status == CommandStatus::Cancelled,
        server_time: hub.now(),
    }))
}

async fn complete(
    State(hub): State<Hub>,
    Desktop(device): Desktop,
    Path(id): Path<String>,
    Body(completion): Body<Completion>,
) -> Result<Response, Failure> {
    if exceeds(&completion, MAX_REPORT_UNITS) {
        return Err(Failure::unprocessable(format!("a report has at most {MAX_REPORT_UNITS} characters")));
    }
    let applied = apply(&hub, device.id, &id, Event::Complete(completion)).await?;
    let body = CompleteResponse { status: applied.state.status, server_time: hub.now() };
    Ok((ok_or_conflict(applied.accepted), Json(body)).into_response())
}

/// Applies an event of the device's. Foreign and unknown commands are one case.
async fn apply(hub: &Hub, device: protocol::DeviceId, id: &str, event: Event) -> Result<Applied, Failure> {
    let applied = hub.apply(&Actor::Device(device), id, event).await?;
    applied.ok_or_else(|| Failure::not_found("no such command for this desktop"))
}

fn ok_or_conflict(accepted: bool) -> StatusCode {
    if accepted { StatusCode::OK } else { StatusCode::CONFLICT }
}

async fn wait(
    State(hub): State<Hub>,
    Desktop(device): Desktop,
    Body(request): Body<WaitRequest>,
) -> Result<Json<WaitResponse>, Failure> {
    if request.projects.len() > MAX_WAIT_PROJECTS {
        return Err(Failure::unprocessable(format!("a wait names at most {MAX_WAIT_PROJECTS} projects")));
    }
    let listener = hub.wakes().listen(&device.id);
    let has_work = listener.is_new() && hub.store().has_work(&device.id, &request.projects).await?;
    let timeout = Duration::from_secs(request.timeout_s).min(MAX_WAIT);
    let wake = has_work
        || tokio::select! {
            news = listener.news(&request.projects) => news,
            () = tokio::time::sleep(timeout) => false,
            () = hub.closing() => false,
        };
    Ok(Json(WaitResponse { wake, server_time: hub.now() }))
}
