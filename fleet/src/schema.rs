//! JSON Schemas that a script brings: for its arguments, and for its agents' answers.
//!
//! A schema of some hundred bytes can take for ever to check: each of sixty definitions that refers twice to the next
//! doubles the work. So values are held to schemas in a worker process only, which has a memory cap and can be killed.
//! What is cheap to see is refused with its reason all the same: size, patterns that are no regular expressions,
//! references to elsewhere, and those that come back to themselves without going deeper into the value.

use std::collections::BTreeMap;

use jsonschema::{PatternOptions, Validator};
use serde_json::Value;

use crate::limits::SCHEMA_BYTES;

/// Errors told of one value.
const ERRORS: usize = 5;

/// What is wrong with a value, or without a value nothing; as error what is wrong with the schema.
pub(crate) fn check(schema: &Value, value: Option<&Value>) -> Result<Vec<String>, String> {
    let schema = Schema::new(schema)?;
    Ok(value.map_or_else(Vec::new, |value| schema.errors(value)))
}

/// A compiled schema.
struct Schema {
    validator: Validator,
}

impl Schema {
    /// Compiles a schema, or says what is wrong with it.
    fn new(schema: &Value) -> Result<Self, String> {
        let bytes = schema.to_string().len();
        if bytes > SCHEMA_BYTES {
            return Err(format!("the schema has {bytes} bytes as JSON; at most {SCHEMA_BYTES} are allowed"));
        }
        if let Some(reference) = endless_reference(schema) {
            return Err(format!("the schema's reference '{reference}' comes back to itself"));
        }
        let patterns = PatternOptions::regex().size_limit(1024 * 1024).dfa_size_limit(1024 * 1024);
        let validator = jsonschema::options()
            .with_pattern_options(patterns)
            .offline()
            .build(schema)
            .map_err(|error| format!("no valid JSON Schema: {error}"))?;
        Ok(Self { validator })
    }

    /// What is wrong with a value: `/path: message`, a few of them. Empty when nothing is.
    fn errors(&self, value: &Value) -> Vec<String> {
        let tell = |error: jsonschema::ValidationError<'_>| {
            let path = error.instance_path().to_string();
            let mut message = error.to_string();
            crate::text::cut_utf16(&mut message, 300);
            if path.is_empty() { message } else { format!("{path}: {message}") }
        };
        self.validator.iter_errors(value).take(ERRORS).map(tell).collect()
    }
}

/// The keywords whose schemas look at the same value as the schema that holds them.
const IN_PLACE: [&str; 8] = ["allOf", "anyOf", "oneOf", "not", "if", "then", "else", "dependentSchemas"];

/// A `$ref` that leads back to itself by in-place keywords only: checking any value against it would never end.
fn endless_reference(root: &Value) -> Option<String> {
    let mut edges: BTreeMap<String, Vec<String>> = BTreeMap::new();
    let mut todo = vec![root];
    // Every subschema that can be pointed to, with the references it takes without going deeper.
    while let Some(value) = todo.pop() {
        match value {
            Value::Object(map) => {
                if let Some(reference) = map.get("$ref").and_then(Value::as_str) {
                    edges.entry(reference.to_owned()).or_default();
                }
                todo.extend(map.values());
            }
            Value::Array(items) => todo.extend(items),
            _ => {}
        }
    }
    for (reference, found) in &mut edges {
        let Some(target) = reference.strip_prefix('#').and_then(|pointer| root.pointer(&unescape(pointer))) else {
            continue;
        };
        in_place_references(target, found);
    }
    edges.keys().find(|start| comes_back(start, &edges)).cloned()
}

fn in_place_references(schema: &Value, found: &mut Vec<String>) {
    let Value::Object(map) = schema else { return };
    if let Some(reference) = map.get("$ref").and_then(Value::as_str) {
        found.push(reference.to_owned());
    }
    for keyword in IN_PLACE {
        match map.get(keyword) {
            Some(Value::Array(schemas)) => schemas.iter().for_each(|schema| in_place_references(schema, found)),
            Some(Value::Object(schemas)) if keyword == "dependentSchemas" => {
                schemas.values().for_each(|schema| in_place_references(schema, found));
            }
            Some(schema) => in_place_references(schema, found),
            None => {}
        }
    }
}

fn comes_back(start: &str, edges: &BTreeMap<String, Vec<String>>) -> bool {
    let mut seen = Vec::new();
    let mut todo: Vec<&str> = edges.get(start).into_iter().flatten().map(String::as_str).collect();
    while let Some(reference) = todo.pop() {
        if reference == start {
            return true;
        }
        if !seen.contains(&reference) {
            seen.push(reference);
            todo.extend(edges.get(reference).into_iter().flatten().map(String::as_str));
        }
    }
    false
}

/// The few percent escapes that a pointer in a fragment may have.
fn unescape(pointer: &str) -> String {
    pointer.replace("%25", "%").replace("%24", "$").replace("%2F", "/")
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_wrong_value_is_told_by_its_place() {
        let schema = Schema::new(&json!({"type": "object", "properties": {"n": {"type": "integer"}}})).unwrap();
        assert!(schema.errors(&json!({"n": 1})).is_empty());
        assert!(schema.errors(&json!({"n": "x"}))[0].starts_with("/n: "));
    }

    #[test]
    fn a_schema_that_could_never_be_checked_is_refused_with_the_reason() {
        assert!(Schema::new(&json!({"$ref": "#"})).is_err());
        assert!(Schema::new(&json!({"$defs": {"a": {"allOf": [{"$ref": "#/$defs/b"}]}, "b": {"$ref": "#/$defs/a"}}, "$ref": "#/$defs/a"})).is_err());
        assert!(Schema::new(&json!({"$ref": "https://example.com/schema.json"})).is_err());
        assert!(Schema::new(&json!({"$ref": "file:///etc/passwd"})).is_err());
        assert!(Schema::new(&json!({"enum": ["x".repeat(SCHEMA_BYTES)]})).is_err());
        let slow = Schema::new(&json!({"pattern": "^(a+)+$"})).unwrap();
        assert!(!slow.errors(&json!(format!("{}b", "a".repeat(50_000)))).is_empty());
    }

    #[test]
    fn a_tree_may_refer_to_itself_where_the_value_gets_smaller() {
        let tree = json!({"type": "object", "properties": {"children": {"type": "array", "items": {"$ref": "#"}}}});
        let schema = Schema::new(&tree).unwrap();
        assert!(schema.errors(&json!({"children": [{"children": []}]})).is_empty());
        assert!(!schema.errors(&json!({"children": [1]})).is_empty());
    }
}
