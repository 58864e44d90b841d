//! Holds a call's arguments to the tool's schema, and says which field broke which rule (SPEC 6.2).

use jsonschema::error::{TypeKind, ValidationErrorKind as Kind};
use jsonschema::{ValidationError, Validator};
use serde_json::Value;

/// More than this helps nobody.
const MAX_ERRORS: usize = 5;

/// `Err` names each field and its broken rule. Lengths count characters as JSON Schema does: code points.
pub(super) fn check(validator: &Validator, arguments: &Value) -> Result<(), String> {
    let broken: Vec<String> = validator.iter_errors(arguments).take(MAX_ERRORS).map(|e| rule(&e)).collect();
    if broken.is_empty() { Ok(()) } else { Err(format!("invalid arguments: {}", broken.join("; "))) }
}

/// One broken rule. The value itself is not repeated: it may be long, and the caller knows it.
fn rule(error: &ValidationError<'_>) -> String {
    let field = field(error);
    match error.kind() {
        Kind::AdditionalProperties { unexpected } => {
            let names: Vec<String> = unexpected.iter().map(|name| format!("`{}`", shortened(name))).collect();
            format!("{}: not a field of this tool", names.join(", "))
        }
        Kind::Required { property } => format!("`{}`: required", property.as_str().unwrap_or_default()),
        Kind::Type { kind: TypeKind::Single(kind) } => format!("{field}: must be of type {kind}"),
        Kind::MinLength { limit } => format!("{field}: must have at least {limit} characters"),
        Kind::MaxLength { limit } => format!("{field}: must have at most {limit} characters"),
        Kind::Minimum { limit } => format!("{field}: must be at least {limit}"),
        Kind::Maximum { limit } => format!("{field}: must be at most {limit}"),
        other => format!("{field}: breaks the schema's `{}`", other.keyword()),
    }
}

fn field(error: &ValidationError<'_>) -> String {
    let path = error.instance_path().to_string();
    match path.strip_prefix('/') {
        Some(field) => format!("`{field}`"),
        None => "arguments".to_owned(),
    }
}

fn shortened(name: &str) -> String {
    name.chars().take(60).flat_map(char::escape_debug).collect()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::mcp::tools;

    fn said(tool: &str, arguments: Value) -> String {
        check(&tools::find(tool).unwrap().validator, &arguments).err().unwrap_or_default()
    }

    #[test]
    fn a_refusal_names_the_field_and_the_rule() {
        let run = |key: &str| said("run_graph_session", json!({"graph_session_id": "g", "idempotency_key": key}));
        assert_eq!(run(&"k".repeat(7)), "invalid arguments: `idempotency_key`: must have at least 8 characters");
        assert_eq!(run(&"k".repeat(129)), "invalid arguments: `idempotency_key`: must have at most 128 characters");
        let list = |arguments| said("list_graph_sessions", arguments);
        assert_eq!(list(json!({"limit": 0})), "invalid arguments: `limit`: must be at least 1");
        assert_eq!(list(json!({"limit": 51})), "invalid arguments: `limit`: must be at most 50");
        assert_eq!(list(json!({"limit": "5"})), "invalid arguments: `limit`: must be of type integer");
        assert_eq!(list(json!({"limits": 5})), "invalid arguments: `limits`: not a field of this tool");
        assert_eq!(said("get_graph_run", json!({})), "invalid arguments: `command_id`: required");
        assert_eq!(
            said("get_graph_run", json!({"command_id": "c", "wait_s": 46})),
            "invalid arguments: `wait_s`: must be at most 45"
        );
    }

    #[test]
    fn the_limits_themselves_pass_and_characters_are_code_points() {
        let run = |key: &str| said("run_graph_session", json!({"graph_session_id": "g", "idempotency_key": key}));
        for key in ["k".repeat(8), "k".repeat(128), "😀".repeat(8), "😀".repeat(128)] {
            assert_eq!(run(&key), "");
        }
        assert_ne!(run(&"😀".repeat(7)), "");
        for limit in [1, 50] {
            assert_eq!(said("list_graph_sessions", json!({"limit": limit})), "");
        }
    }

    #[test]
    fn every_input_schema_is_closed_and_says_which_tool_reads_the_result() {
        for spec in tools::ALL.iter() {
            let tool = &spec.tool;
            assert_eq!(tool.input_schema["additionalProperties"], json!(false), "{}", tool.name);
            let words = tool.description.as_deref().unwrap();
            assert!(words.to_lowercase().contains("queue"), "{words}");
            assert!(words.contains("get_graph_run") || tool.name == "get_graph_run", "{words}");
        }
    }
}
