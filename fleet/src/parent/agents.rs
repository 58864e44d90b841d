//! `agent()`: one agent, from its admission to its answer.

use std::time::Duration;

use serde::Deserialize;
use serde_json::Value;
use tokio::time::Instant;

use super::calls::{Caller, parse};
use super::conversation::{Conversation, Task};
use super::hold;
use super::tells::PHASE_UNITS;
use crate::limits::PROMPT_BYTES;
use crate::text::cut_utf16;
use crate::tools::Tool;
use crate::{Event, GraphError, TokenUsage};

const LABEL_UNITS: usize = 80;
const TURNS: u32 = 20;
const TIMEOUT: Duration = Duration::from_secs(600);

/// The options of `agent()`, as the prelude hands them on.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct AgentCall {
    prompt: String,
    label: Option<String>,
    phase: Option<String>,
    schema: Option<Value>,
    data: Option<Value>,
    model: Option<String>,
    system: Option<String>,
    tools: Option<Vec<String>>,
    max_turns: Option<u32>,
    max_tokens: Option<u64>,
    /// Milliseconds.
    timeout: Option<f64>,
    /// The script's own key of the call in the journal.
    #[serde(rename = "key")]
    _key: Option<String>,
}

/// Runs one agent.
pub(super) async fn agent(caller: &Caller, input: Value, at: (u32, u32)) -> Result<Value, GraphError> {
    let call: AgentCall = parse(input)?;
    check_size(&call)?;
    let run = &caller.run;
    let backend = run.shared.backends.pick(call.model.as_deref())?;
    let tools = tools(caller, call.tools.as_deref())?;
    let label = label(&call);
    let mut phase = call.phase;
    if let Some(phase) = &mut phase {
        cut_utf16(phase, PHASE_UNITS);
    }
    let timeout = call.timeout.map_or(TIMEOUT, |ms| Duration::try_from_secs_f64(ms / 1e3).unwrap_or(TIMEOUT));

    let _place = caller.budget.place().await;
    if let Some(schema) = &call.schema {
        // A wrong schema is the script's mistake: told before a model is paid for an answer to it. Within the place, since
        // each check is a process.
        let read = hold::in_own_worker(&run.shared.settings.worker, schema, None).await;
        read.map_err(|wrong| GraphError::new("TypeError", "", wrong))?;
    }
    run.breaker.check(backend.name())?;
    caller.budget.admit()?;
    let agent = run.next_agent();
    let model = backend.name().to_owned();
    run.tell(Event::AgentStarted { agent, label, model: model.clone(), phase });
    let mut ending = Ending { caller, agent, started: Instant::now(), ended: false };

    let task = Task {
        prompt: call.prompt,
        system: call.system,
        data: call.data,
        schema: call.schema,
        tools,
        max_turns: call.max_turns.unwrap_or(TURNS),
        max_tokens: call.max_tokens,
    };
    let mut conversation = Conversation::new(caller, &backend, task, at);
    let result = tokio::time::timeout(timeout, conversation.hold()).await.unwrap_or_else(|_| {
        let limit = humantime::format_duration(timeout);
        Err(GraphError::agent("timeout", format!("the agent took longer than {limit}")))
    });
    run.breaker.record(&model, result.as_ref().err());
    let tokens = conversation.tokens();
    ending.tell(
        result.as_ref().map(|_| (tokens, backend.cost(tokens))).map_err(|error| caller.locate(error.clone(), at)),
    );
    result
}

fn check_size(call: &AgentCall) -> Result<(), GraphError> {
    let data = call.data.as_ref().map_or(0, |data| data.to_string().len());
    let bytes = call.prompt.len() + call.system.as_ref().map_or(0, String::len) + data;
    if bytes > PROMPT_BYTES {
        let message = format!("prompt, system and data have {bytes} bytes together; at most {PROMPT_BYTES} are sent");
        return Err(GraphError::agent("context_overflow", message));
    }
    Ok(())
}

/// The tools of one agent: those of the script, or fewer.
fn tools(caller: &Caller, wanted: Option<&[String]>) -> Result<Vec<Tool>, GraphError> {
    let Some(wanted) = wanted else { return Ok(caller.prepared.tools.clone()) };
    let find = |name: &String| {
        Tool::by_name(name).filter(|tool| caller.prepared.tools.contains(tool)).ok_or_else(|| {
            GraphError::tool(
                "unknown_tool",
                format!("an agent's tools can only narrow meta.tools, which lacks '{name}'"),
            )
        })
    };
    wanted.iter().map(find).collect()
}

fn label(call: &AgentCall) -> String {
    let mut label = call.label.clone().unwrap_or_else(|| call.prompt.lines().next().unwrap_or_default().to_owned());
    cut_utf16(&mut label, LABEL_UNITS);
    label
}

/// Tells the end of an agent, also of one that a cancel dropped.
struct Ending<'a> {
    caller: &'a Caller,
    agent: u32,
    started: Instant,
    ended: bool,
}

impl Ending<'_> {
    fn tell(&mut self, result: Result<(TokenUsage, Option<f64>), GraphError>) {
        self.ended = true;
        let (agent, duration_ms) = (self.agent, self.started.elapsed().as_millis() as u64);
        let run = &self.caller.run;
        match result {
            Ok((tokens, cost)) => run.tell(Event::AgentFinished { agent, tokens, cost, duration_ms }),
            Err(error) => {
                run.agent_failed();
                run.tell(Event::AgentFailed { agent, error, duration_ms });
            }
        }
    }
}

impl Drop for Ending<'_> {
    fn drop(&mut self) {
        if !self.ended {
            self.tell(Err(GraphError::cancelled()));
        }
    }
}
