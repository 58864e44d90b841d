//! What each tool does, once the call is known to be allowed and well formed.

use std::time::Duration;

use protocol::{CommandId, Project, ProjectId};
use rmcp::RoleServer;
use rmcp::model::{JsonObject, ProgressNotificationParam};
use rmcp::service::RequestContext;
use serde_json::{Map, Value, json};
use tokio::time::Instant;

use super::view;
use crate::Hub;
use crate::command::Event;
use crate::model::{Action, Connection};
use crate::store::{Actor, NewCommand, QueueOutcome, RunView, StoreError};

/// The largest `arguments` of a run, in bytes of JSON.
const MAX_ARGUMENTS: usize = 256 * 1024;
/// At most this many commands wait for one desktop.
const MAX_QUEUED: u32 = 1_000;
/// How often a waiting call tells that it is alive, to a client that asked for progress.
const TELL_EVERY: Duration = Duration::from_secs(10);

/// A foreign run, an invented id, and one whose project was taken away: the same words for all (SPEC 3.6).
const NO_RUN: &str = "Graph run not found or access removed";
const NO_SESSION: &str =
    "`graph_session_id`: Graph session not found, or not shared with a project in which this connection may run it";

/// Why a tool has no answer.
pub(super) enum Failed {
    /// For the caller's eyes.
    Told(String),
    /// Not for the caller's eyes.
    Store(StoreError),
}

impl From<StoreError> for Failed {
    fn from(error: StoreError) -> Self {
        Self::Store(error)
    }
}

fn told<T>(text: impl Into<String>) -> Result<T, Failed> {
    Err(Failed::Told(text.into()))
}

/// One call of one connection.
pub(super) struct Call<'a> {
    pub(super) hub: &'a Hub,
    pub(super) connection: &'a Connection,
    pub(super) context: &'a RequestContext<RoleServer>,
}

impl Call<'_> {
    /// The project of a call that names one comes before its schema.
    pub(super) fn check_project(&self, arguments: &JsonObject) -> Result<(), String> {
        match arguments.get("project_id").and_then(Value::as_str) {
            Some(id) if self.readable(id).is_none() => {
                Err(format!("`project_id`: project not found or not readable by this connection; {}", self.choices()))
            }
            _ => Ok(()),
        }
    }

    /// Does the tool's work. The arguments have passed the tool's schema.
    pub(super) async fn run(&self, tool: &str, arguments: JsonObject) -> Result<Value, Failed> {
        match tool {
            "list_graph_sessions" => self.list_sessions(&arguments).await,
            "run_graph_session" => self.run_session(arguments).await,
            "get_graph_run" => self.get_run(&arguments).await,
            "cancel_graph_run" => self.cancel_run(&arguments).await,
            _ => told("unknown tool"),
        }
    }

    async fn list_sessions(&self, arguments: &JsonObject) -> Result<Value, Failed> {
        let project = match arguments.get("project_id").and_then(Value::as_str) {
            Some(id) => self.readable(id),
            None => self.only_readable(),
        };
        let Some(project) = project else {
            return told(format!("`project_id`: required, since this connection reads several; {}", self.choices()));
        };
        let limit = integer(arguments, "limit").and_then(|limit| u32::try_from(limit).ok()).unwrap_or(50);
        let sessions = self.hub.store().shared_sessions(&project.id, limit).await?;
        let sessions: Vec<Value> = sessions
            .into_iter()
            .map(|session| {
                json!({
                    "graph_session_id": session.metadata.id,
                    "name": session.metadata.name,
                    "description": session.metadata.description,
                    "slug": session.metadata.slug,
                    "version": session.metadata.version,
                    "status": session.metadata.status,
                    "desktop": session.desktop,
                    "desktop_online": view::is_online(self.hub, session.last_seen_at),
                })
            })
            .collect();
        Ok(json!({"project_id": project.id, "sessions": sessions}))
    }

    async fn run_session(&self, mut arguments: JsonObject) -> Result<Value, Failed> {
        let args = match arguments.remove("arguments") {
            Some(Value::Object(args)) => args,
            _ => Map::new(),
        };
        if serde_json::to_string(&args).map_or(usize::MAX, |text| text.len()) > MAX_ARGUMENTS {
            return told(format!("invalid arguments: `arguments`: must have at most {MAX_ARGUMENTS} bytes of JSON"));
        }
        let command = NewCommand {
            id: CommandId::new(),
            connection_id: self.connection.id.clone(),
            idempotency_key: text(&arguments, "idempotency_key"),
            graph_session_id: text(&arguments, "graph_session_id"),
            arguments: args,
            projects: self.projects(Action::Run),
            max_queued: MAX_QUEUED,
            now: self.hub.now(),
        };
        let (id, repeated) = match self.hub.store().queue(command).await? {
            QueueOutcome::Queued { id, device_id, project_id } => {
                self.hub.wakes().wake_desktop(&device_id, &project_id);
                (id, false)
            }
            QueueOutcome::Repeated(id) => (id, true),
            QueueOutcome::KeyTaken(id) => {
                return told(format!(
                    "`idempotency_key`: already used by this connection for a run with another session or other \
                     arguments (command {id}); use a new key for a new run"
                ));
            }
            QueueOutcome::NoSession => return told(NO_SESSION),
            QueueOutcome::QueueFull => {
                return told(format!("{MAX_QUEUED} commands already wait for that desktop; try again later"));
            }
        };
        // For a repeated key the run is there already; it may even be over.
        let Some(run) = self.hub.store().run(&self.connection.id, &id.to_string(), &self.projects(Action::Run)).await?
        else {
            return told(NO_RUN);
        };
        Ok(json!({
            "command_id": id,
            "status": run.status.as_str(),
            "repeated": repeated,
            "desktop_online": view::is_online(self.hub, run.last_seen_at),
            "queue_position": view::position(&run),
            "retry_after_s": view::retry_after_s(self.hub, run.status),
        }))
    }

    async fn get_run(&self, arguments: &JsonObject) -> Result<Value, Failed> {
        let id = text(arguments, "command_id");
        let wait = Duration::from_secs(integer(arguments, "wait_s").unwrap_or(0));
        let run = match id.parse() {
            Ok(known) if !wait.is_zero() => self.wait_for_end(known, wait).await?,
            _ => self.look(&id).await?,
        };
        match run {
            Some(run) => Ok(view::run(self.hub, &run)),
            None => told(NO_RUN),
        }
    }

    async fn look(&self, id: &str) -> Result<Option<RunView>, StoreError> {
        self.hub.store().run(&self.connection.id, id, &self.projects(Action::Read)).await
    }

    /// Looks until the run is over, or does not exist for this caller, or the time is up.
    async fn wait_for_end(&self, id: CommandId, wait: Duration) -> Result<Option<RunView>, StoreError> {
        let watch = self.hub.wakes().watch(id);
        let deadline = Instant::now() + wait;
        let mut told = 0;
        loop {
            let ended = watch.ended();
            tokio::pin!(ended);
            ended.as_mut().enable();
            let run = self.look(&id.to_string()).await?;
            let is_over = run.as_ref().is_none_or(|run| run.status.is_settled());
            if is_over || Instant::now() >= deadline {
                return Ok(run);
            }
            self.tell_progress(told, run.as_ref()).await;
            told += 1;
            let is_stopping = tokio::select! {
                () = ended => false,
                () = tokio::time::sleep_until(deadline.min(Instant::now() + TELL_EVERY)) => false,
                () = self.context.ct.cancelled() => true,
                () = self.hub.closing() => true,
            };
            if is_stopping {
                return Ok(run);
            }
        }
    }

    /// Keeps a client that asked for progress from giving up on a silent call. The first one goes out at once and
    /// opens the stream.
    async fn tell_progress(&self, told: u32, run: Option<&RunView>) {
        let (Some(token), Some(run)) = (self.context.meta.get_progress_token(), run) else {
            return;
        };
        let text = match &run.progress.phase {
            Some(phase) => format!("{}: {phase}", run.status.as_str()),
            None => run.status.as_str().to_owned(),
        };
        let progress = ProgressNotificationParam::new(token, f64::from(told)).with_message(text);
        if let Err(error) = self.context.peer.notify_progress(progress).await {
            tracing::debug!(%error, "a caller that waits is gone");
        }
    }

    async fn cancel_run(&self, arguments: &JsonObject) -> Result<Value, Failed> {
        let id = text(arguments, "command_id");
        let actor = Actor::Connection { id: self.connection.id.clone(), projects: self.projects(Action::Run) };
        let Some(applied) = self.hub.apply(&actor, &id, Event::Cancel).await? else {
            return told(NO_RUN);
        };
        Ok(json!({
            "command_id": id,
            "status": applied.state.status.as_str(),
            "cancel_requested": applied.state.cancel_requested,
        }))
    }

    fn projects(&self, action: Action) -> Vec<ProjectId> {
        self.connection.projects_with(action).map(|project| project.id.clone()).collect()
    }

    fn readable(&self, id: &str) -> Option<&Project> {
        self.connection.projects_with(Action::Read).find(|project| project.id.as_str() == id)
    }

    fn only_readable(&self) -> Option<&Project> {
        let mut projects = self.connection.projects_with(Action::Read);
        let only = projects.next();
        only.filter(|_| projects.next().is_none())
    }

    /// The projects that a caller may name.
    fn choices(&self) -> String {
        let choices: Vec<String> = self
            .connection
            .projects_with(Action::Read)
            .map(|project| format!("{} ({})", project.id, project.name))
            .collect();
        format!("it can read: {}", choices.join(", "))
    }
}

/// A string that the schema requires.
fn text(arguments: &JsonObject, field: &str) -> String {
    arguments.get(field).and_then(Value::as_str).unwrap_or_default().to_owned()
}

/// An integer that the schema bounds. JSON Schema also calls 5.0 an integer.
fn integer(arguments: &JsonObject, field: &str) -> Option<u64> {
    let value = arguments.get(field)?;
    value.as_u64().or_else(|| value.as_f64().map(|number| number as u64))
}
