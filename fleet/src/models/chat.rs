//! The words of the chat-completions API, as far as agents need them.

use serde::Deserialize;
use serde_json::{Value, json};

use crate::{GraphError, TokenUsage};

/// What a model answered.
#[derive(Debug)]
pub(crate) struct Reply {
    /// Empty when it only calls tools.
    pub(crate) text: String,
    pub(crate) tool_calls: Vec<ToolRequest>,
    /// The message as it must be repeated to the model.
    pub(crate) message: Value,
    pub(crate) ended: Ended,
    pub(crate) tokens: TokenUsage,
}

/// Why a model stopped.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Ended {
    Finished,
    /// At its limit of tokens.
    Length,
    /// It, or a filter, would not answer.
    Refused(String),
}

/// A tool that a model wants to be called.
#[derive(Debug, PartialEq)]
pub(crate) struct ToolRequest {
    pub(crate) id: String,
    pub(crate) name: String,
    /// What the model wrote; not always JSON.
    pub(crate) arguments: Result<Value, String>,
}

#[derive(Deserialize)]
struct Completion {
    choices: Vec<Choice>,
    usage: Option<UsageWords>,
}

#[derive(Deserialize)]
struct Choice {
    message: Message,
    finish_reason: Option<String>,
}

#[derive(Deserialize)]
struct Message {
    content: Option<String>,
    refusal: Option<String>,
    #[serde(default, deserialize_with = "null_is_empty")]
    tool_calls: Vec<CallWords>,
}

#[derive(Deserialize)]
struct CallWords {
    #[serde(default)]
    id: String,
    function: FunctionWords,
}

#[derive(Deserialize)]
struct FunctionWords {
    name: String,
    #[serde(default)]
    arguments: String,
}

#[derive(Deserialize)]
struct UsageWords {
    #[serde(default)]
    prompt_tokens: u64,
    #[serde(default)]
    completion_tokens: u64,
}

fn null_is_empty<'de, D: serde::Deserializer<'de>>(deserializer: D) -> Result<Vec<CallWords>, D::Error> {
    Ok(Option::deserialize(deserializer)?.unwrap_or_default())
}

/// Reads an answer. `request_bytes` is what an estimate of the tokens goes by where the backend reports none.
pub(super) fn parse(body: &[u8], request_bytes: usize) -> Result<Reply, GraphError> {
    let malformed = |what: String| {
        GraphError::agent("backend_unavailable", format!("the model's answer is no chat completion: {what}"))
    };
    let completion: Completion = serde_json::from_slice(body).map_err(|error| malformed(error.to_string()))?;
    let choice = completion.choices.into_iter().next().ok_or_else(|| malformed("it has no choices".to_owned()))?;
    let text = choice.message.content.unwrap_or_default();
    let tokens = match completion.usage {
        Some(usage) => {
            TokenUsage { input_tokens: usage.prompt_tokens, output_tokens: usage.completion_tokens, estimated: false }
        }
        None => estimate(request_bytes, text.len()),
    };
    let ended = match (choice.message.refusal, choice.finish_reason.as_deref()) {
        (Some(refusal), _) => Ended::Refused(refusal),
        (None, Some("content_filter")) => Ended::Refused("a content filter stopped the answer".to_owned()),
        (None, Some("length")) => Ended::Length,
        _ => Ended::Finished,
    };
    let message = repeated(&text, &choice.message.tool_calls);
    let tool_calls = choice.message.tool_calls.into_iter().map(request).collect();
    Ok(Reply { text, tool_calls, message, ended, tokens })
}

/// Four bytes a token, the usual rule of thumb.
fn estimate(input_bytes: usize, output_bytes: usize) -> TokenUsage {
    let tokens = |bytes: usize| (bytes as u64).div_ceil(4);
    TokenUsage { input_tokens: tokens(input_bytes), output_tokens: tokens(output_bytes), estimated: true }
}

fn repeated(text: &str, calls: &[CallWords]) -> Value {
    if calls.is_empty() {
        return json!({"role": "assistant", "content": text});
    }
    let call = |call: &CallWords| {
        let function = json!({"name": call.function.name, "arguments": call.function.arguments});
        json!({"id": call.id, "type": "function", "function": function})
    };
    json!({"role": "assistant", "content": text, "tool_calls": calls.iter().map(call).collect::<Vec<_>>()})
}

fn request(call: CallWords) -> ToolRequest {
    let written = if call.function.arguments.trim().is_empty() { "{}" } else { &call.function.arguments };
    let arguments = serde_json::from_str(written).map_err(|error| error.to_string());
    ToolRequest { id: call.id, name: call.function.name, arguments }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tokens_that_are_not_reported_are_estimated_and_marked() {
        let body = br#"{"choices": [{"message": {"content": "12345678", "tool_calls": null}}]}"#;
        let reply = parse(body, 40).unwrap();
        assert_eq!(reply.tokens, TokenUsage { input_tokens: 10, output_tokens: 2, estimated: true });
    }

    #[test]
    fn a_tool_call_with_broken_arguments_is_told_and_not_lost() {
        let body = br#"{"choices": [{"message": {"tool_calls": [{"id": "1", "function": {"name": "t", "arguments": "{"}}]}}]}"#;
        let reply = parse(body, 0).unwrap();
        assert!(reply.tool_calls[0].arguments.is_err());
        assert_eq!(reply.message["tool_calls"][0]["function"]["arguments"], "{");
    }

    #[test]
    fn what_is_no_completion_is_an_error() {
        for body in ["", "[]", "{}", r#"{"choices": []}"#, "<html>"] {
            assert_eq!(parse(body.as_bytes(), 0).unwrap_err().code, "backend_unavailable");
        }
    }
}
