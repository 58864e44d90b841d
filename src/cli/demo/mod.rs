//! `graph-relay demo`: the whole system on one machine, each part a real process.
//!
//! Hub, relay and the owner's commands are this very program, started as a user would start them; the assistant is
//! an MCP client over HTTP. Everything lives in a scratch folder that is removed at the end.

mod processes;
mod story;

use std::fs;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::Duration;

use serde_json::{Value, json};

use self::processes::{Hub, Owner, Relay};
use self::story::{Access, Story};
use super::daemon::stop_asked;
use super::error::{CANCELLED, CliError, GRAPH_FAILED, INVALID};
use super::options::DemoArgs;
use crate::assistant::{Assistant, AssistantError};

const GRAPH: &str = "digest";
const SCRIPT: &str = include_str!("../../../graphs/digest.js");
const PERSON: &str = "you";

/// A relay that has not told the hub what is shared by then never will.
const LONGEST_SYNC: Duration = Duration::from_secs(15);

/// Between two looks at the run, so that its phases can be seen.
const LOOK: Duration = Duration::from_millis(100);

pub(super) async fn run(args: DemoArgs) -> Result<ExitCode, CliError> {
    let refused = |why: &dyn std::fmt::Display| {
        CliError::new(INVALID, format!("cannot use the folder {}: {why}", args.folder.display()))
    };
    let folder = args.folder.canonicalize().map_err(|error| refused(&error))?;
    if !folder.is_dir() {
        return Err(refused(&"it is a file"));
    }
    let scratch = Scratch::new()?;
    tokio::select! {
        ended = play(&scratch.0, &folder, args.keep) => ended,
        () = stop_asked(), if !args.keep => Err(CliError::new(CANCELLED, "stopped")),
    }
}

async fn play(scratch: &Path, folder: &Path, keep: bool) -> Result<ExitCode, CliError> {
    let story = Story::begin(folder)?;

    let hub = Hub::start(scratch).await?;
    story.tell("hub", &format!("listens on {}, its database is a file", hub.url))?;
    let project = hub.command(&["project", "add", "Demo"]).await?;
    hub.command(&["member", "add", PERSON, "--project", &project]).await?;
    let assistant_token = hub.command(&["connection", "add", "demo assistant", "--owner", PERSON]).await?;
    let device_token = hub.command(&["device", "add", "demo laptop", "--owner", PERSON]).await?;
    story.tell("hub", "knows a project `Demo`, an assistant and a laptop; their tokens are stored as hashes")?;

    let owner = Owner::new(scratch, &hub.url, &device_token, folder)?;
    let relay = Relay::start(&owner).await?;
    story.tell("relay", "runs on the laptop, opens no port, and asks the hub every 20 s or when the hub rings")?;
    let script = owner.home.join(format!("{GRAPH}.js"));
    fs::write(&script, SCRIPT)?;
    owner.command(&["graph", "add", GRAPH, &script.to_string_lossy()]).await?;
    story.tell("owner", &format!("saves graphs/{GRAPH}.js as `{GRAPH}`; nothing is shared yet"))?;
    owner.command(&["project", "on", "Demo"]).await?;
    owner.command(&["share", GRAPH, "--project", "Demo"]).await?;
    story.tell("owner", &format!("switches the project on and shares `{GRAPH}` with it"))?;

    let assistant = Assistant::new(&hub.url, &assistant_token)?;
    let run = ask(&story, &assistant, &project, folder).await?;
    story.show(&run)?;

    let token_file = owner.home.join("assistant-token");
    processes::write_private(&token_file, &assistant_token)?;
    if keep {
        story.go_on(&Access {
            hub: &hub.url,
            token_file: &token_file,
            project: &project,
            home: &owner.home,
            folder,
        })?;
        stop_asked().await;
    } else {
        story.end()?;
    }
    relay.stop().await;
    hub.stop().await;
    Ok(if run["status"] == "completed" { ExitCode::SUCCESS } else { ExitCode::from(GRAPH_FAILED) })
}

/// What the assistant does: look, queue, watch, read.
async fn ask(story: &Story, assistant: &Assistant, project: &str, folder: &Path) -> Result<Value, CliError> {
    assistant.initialize().await?;
    let tools = assistant.tools().await?;
    story.tell("assistant", &format!("connects over MCP and sees {}", tools.join(", ")))?;

    let session = tokio::time::timeout(LONGEST_SYNC, shared_session(assistant, project))
        .await
        .map_err(|_| CliError::internal("the relay did not tell the hub what is shared"))??;
    story.tell(
        "assistant",
        &format!("list_graph_sessions: `{GRAPH}`, {}", session["description"].as_str().unwrap_or("")),
    )?;

    let request = json!({
        "graph_session_id": session["graph_session_id"],
        "arguments": {"folder": folder.to_string_lossy()},
        "idempotency_key": format!("demo-{}", uuid::Uuid::new_v4()),
    });
    let queued = assistant.call("run_graph_session", request).await?;
    let command = queued["command_id"].as_str().unwrap_or_default().to_owned();
    story.tell("assistant", &format!("run_graph_session: queued as {command}"))?;
    watch(story, assistant, &command).await
}

async fn shared_session(assistant: &Assistant, project: &str) -> Result<Value, AssistantError> {
    loop {
        let listed = assistant.call("list_graph_sessions", json!({"project_id": project})).await?;
        if let Some(session) = listed["sessions"].get(0) {
            return Ok(session.clone());
        }
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
}

async fn watch(story: &Story, assistant: &Assistant, command: &str) -> Result<Value, CliError> {
    let mut told = String::new();
    loop {
        let run = assistant.call("get_graph_run", json!({"command_id": command})).await?;
        let status = run["status"].as_str().unwrap_or("unknown").to_owned();
        let now = match run["progress"]["phase"].as_str() {
            Some(phase) if status == "running" => format!("{status}, {phase}"),
            _ => status.clone(),
        };
        if now != told {
            story.tell("assistant", &format!("get_graph_run: {now}"))?;
            told = now;
        }
        if !matches!(status.as_str(), "queued" | "running") {
            return Ok(run);
        }
        tokio::time::sleep(LOOK).await;
    }
}

/// A folder that is gone when the demo is over, however it ends.
struct Scratch(PathBuf);

impl Scratch {
    fn new() -> Result<Self, CliError> {
        // Short: below it lies a control socket, whose path may have some hundred bytes, and temporary folders are deep.
        let path = std::env::temp_dir().join(format!("gr-demo-{}", std::process::id()));
        let made = fs::create_dir_all(&path).and_then(|()| path.canonicalize());
        made.map(Self).map_err(|error| {
            CliError::internal(format!("cannot make the folder {}: {error}", path.display()))
                .hint("set TMPDIR to a folder that you can write to")
        })
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        // What cannot be removed is left to the system's own cleaning of its temporary folder.
        let _ = fs::remove_dir_all(&self.0);
    }
}

impl From<AssistantError> for CliError {
    fn from(error: AssistantError) -> Self {
        Self::internal(error.to_string())
    }
}
