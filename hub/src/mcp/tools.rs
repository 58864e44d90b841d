//! The tools: names, words, schemas, scopes and annotations (SPEC 3.1, 3.2).

use std::sync::{Arc, LazyLock};

use jsonschema::Validator;
use rmcp::model::{JsonObject, MetaObject, Tool, ToolAnnotations};
use serde_json::{Value, json};

use crate::model::{Action, Scope};

/// One tool.
pub(super) struct Spec {
    /// What the server lists.
    pub(super) tool: Tool,
    /// What its token must be good for.
    pub(super) scope: Scope,
    /// What the owner must have granted.
    pub(super) action: Action,
    /// Its input schema, compiled.
    pub(super) validator: Validator,
}

/// All tools, in the order of the list.
pub(super) static ALL: LazyLock<Vec<Spec>> =
    LazyLock::new(|| vec![list_sessions(), run_session(), get_run(), cancel_run()]);

/// The tool of that name.
pub(super) fn find(name: &str) -> Option<&'static Spec> {
    ALL.iter().find(|spec| spec.tool.name == name)
}

/// The words of one tool.
struct Words {
    name: &'static str,
    title: &'static str,
    description: &'static str,
}

fn spec(words: Words, scope: Scope, action: Action, annotations: ToolAnnotations, input: Value, output: Value) -> Spec {
    let validator = jsonschema::validator_for(&input).expect("the input schemas of this file are valid");
    let mut meta = MetaObject::new();
    meta.0.insert("securitySchemes".to_owned(), json!([{"type": "oauth2", "scopes": [scope.as_str()]}]));
    let tool = Tool::new(words.name, words.description, object(input))
        .with_title(words.title)
        .with_raw_output_schema(object(output))
        .with_annotations(annotations)
        .with_meta(meta);
    Spec { tool, scope, action, validator }
}

fn object(schema: Value) -> Arc<JsonObject> {
    match schema {
        Value::Object(object) => Arc::new(object),
        _ => Arc::default(),
    }
}

/// A closed object with the given fields.
fn closed(properties: Value, required: &[&str]) -> Value {
    json!({"type": "object", "properties": properties, "required": required, "additionalProperties": false})
}

/// Results may gain fields in a later version, so they are open.
fn open(properties: Value, required: &[&str]) -> Value {
    json!({"type": "object", "properties": properties, "required": required})
}

/// A value that may be null, in the form that clients with a narrow reading of JSON Schema understand too.
fn nullable(kind: &str, description: &str) -> Value {
    let mut schema = json!({"anyOf": [{"type": kind}, {"type": "null"}]});
    if !description.is_empty() {
        schema["description"] = description.into();
    }
    schema
}

/// Any JSON value, spelled out for the same clients.
fn any(description: &str) -> Value {
    let kinds = ["object", "array", "string", "number", "boolean", "null"].map(|kind| json!({"type": kind}));
    json!({"description": description, "anyOf": kinds})
}

fn command_id() -> Value {
    json!({"type": "string", "description": "The id that run_graph_session returned."})
}

fn list_sessions() -> Spec {
    let session = open(
        json!({
            "graph_session_id": {"type": "string"},
            "name": {"type": "string"},
            "description": {"type": "string"},
            "slug": {"type": "string"},
            "version": {"type": "integer"},
            "status": {"type": "string", "description": "`ready`, or why it cannot run now"},
            "desktop": {"type": "string"},
            "desktop_online": {"type": "boolean"},
        }),
        &["graph_session_id", "name", "status", "desktop_online"],
    );
    spec(
        Words {
            name: "list_graph_sessions",
            title: "List Graph sessions",
            description: "Lists the saved Graphs (programs on the owner's own computer) that are shared with a \
                project, as the desktops last told. Nothing is shared until an owner ticks it, so an empty list is \
                normal. To run one, pass its graph_session_id to run_graph_session, which queues the run; \
                get_graph_run then reads the result.",
        },
        Scope::Read,
        Action::Read,
        ToolAnnotations::new().read_only(true).open_world(false),
        closed(
            json!({
                "project_id": {
                    "type": "string",
                    "description": "May be left out when this connection can read exactly one project; otherwise \
                        the error names those it can read.",
                },
                "limit": {"type": "integer", "minimum": 1, "maximum": 50, "default": 50},
            }),
            &[],
        ),
        open(
            json!({"project_id": {"type": "string"}, "sessions": {"type": "array", "items": session}}),
            &["project_id", "sessions"],
        ),
    )
}

fn run_session() -> Spec {
    spec(
        Words {
            name: "run_graph_session",
            title: "Queue a Graph run",
            description: "Queues one run of a Graph session and returns its command_id at once, before anything has \
                started. The owner's desktop fetches the run within seconds when it is on, or whenever it comes \
                back, and does one run after the other; the owner's own approvals apply. Read the progress and the \
                result with get_graph_run; call it off with cancel_graph_run. Repeat a call whose answer was lost \
                with the same idempotency_key: it gives the same command and never a second run.",
        },
        Scope::Run,
        Action::Run,
        ToolAnnotations::new().read_only(false).destructive(true).idempotent(true).open_world(true),
        closed(
            json!({
                "graph_session_id": {"type": "string", "description": "From list_graph_sessions."},
                "arguments": {
                    "type": "object",
                    "description": "What the Graph's script reads as `args`; at most 262144 bytes of JSON. The \
                        session's description tells what it expects.",
                },
                "idempotency_key": {
                    "type": "string",
                    "minLength": 8,
                    "maxLength": 128,
                    "description": "Made up by you, one per intended run, such as a UUID.",
                },
            }),
            &["graph_session_id", "idempotency_key"],
        ),
        open(
            json!({
                "command_id": {"type": "string"},
                "status": {"enum": ["queued", "running", "completed", "failed", "cancelled"]},
                "repeated": {"type": "boolean", "description": "the key was known: nothing new was queued"},
                "desktop_online": {"type": "boolean"},
                "queue_position": nullable("integer", ""),
                "retry_after_s": nullable("integer", ""),
            }),
            &["command_id", "status", "repeated"],
        ),
    )
}

fn get_run() -> Spec {
    let progress = open(
        json!({
            "phase": {"type": "string"},
            "message": {"type": "string"},
            "done": {"type": "integer"},
            "total": {"type": "integer"},
            "total_tokens": {"type": "integer"},
            "waiting_for": {"type": "string", "description": "what a person must do before the run goes on"},
        }),
        &[],
    );
    spec(
        Words {
            name: "get_graph_run",
            title: "Read a Graph run",
            description: "Reads where a run queued by run_graph_session stands: queued (with its place in the \
                queue), running (with its progress), or ended as completed (with its result), failed or cancelled \
                (with the reason). With wait_s the call waits for the end and returns as soon as it comes. While \
                the run is not over, call again after retry_after_s seconds. Only the connection that started a run \
                can read it.",
        },
        Scope::Read,
        Action::Read,
        ToolAnnotations::new().read_only(true).open_world(false),
        closed(
            json!({
                "command_id": command_id(),
                "wait_s": {
                    "type": "integer", "minimum": 0, "maximum": 45, "default": 0,
                    "description": "How long to wait for the end of the run, in seconds.",
                },
            }),
            &["command_id"],
        ),
        open(
            json!({
                "command_id": {"type": "string"},
                "graph_session_id": {"type": "string"},
                "project_id": {"type": "string"},
                "status": {"enum": ["queued", "running", "completed", "failed", "cancelled"]},
                "cancel_requested": {"type": "boolean"},
                "queued_at": {"type": "string"},
                "started_at": nullable("string", ""),
                "finished_at": nullable("string", ""),
                "desktop_online": {"type": "boolean"},
                "queue_position": nullable("integer", "1 is next; null once started"),
                "progress": progress,
                "execution_id": nullable("string", ""),
                "result": any("what the Graph returned; absent unless it completed and fits"),
                "result_truncated": {"type": "boolean"},
                "message": nullable("string", ""),
                "total_tokens": nullable("integer", ""),
                "reported_cost": nullable("number", "US dollars"),
                "agent_failures": {"type": "integer"},
                "retry_after_s": nullable("integer", "null once the run is over"),
            }),
            &["command_id", "status", "desktop_online", "result_truncated", "retry_after_s"],
        ),
    )
}

fn cancel_run() -> Spec {
    spec(
        Words {
            name: "cancel_graph_run",
            title: "Cancel a Graph run",
            description: "Calls off a run queued by run_graph_session. One that still waits is cancelled at once and \
                never starts. One that is running is stopped by its desktop within a few seconds: get_graph_run \
                reads how it ended. Cancelling a run that is over changes nothing.",
        },
        Scope::Run,
        Action::Run,
        ToolAnnotations::new().read_only(false).destructive(true).idempotent(true).open_world(false),
        closed(json!({"command_id": command_id()}), &["command_id"]),
        open(
            json!({
                "command_id": {"type": "string"},
                "status": {"enum": ["queued", "running", "completed", "failed", "cancelled"]},
                "cancel_requested": {"type": "boolean"},
            }),
            &["command_id", "status", "cancel_requested"],
        ),
    )
}
