//! `list_directory`

use serde::Deserialize;
use serde_json::{Value, json};

use super::walk::{ENTRIES, Found, Step, Walk};
use super::{Sandbox, Wanted, object_schema};
use crate::GraphError;
use crate::limits::TOOL_OUTPUT_BYTES;

pub(super) const DESCRIPTION: &str = "Lists a folder. Gives {entries, truncated?}: names relative to the folder, or \
with `details` objects {path, name, kind, size, modified_ms}. With `recursive`, folders below are listed too; hidden \
ones, node_modules and build output are named but not entered unless `all` is true.";

/// Room that is left for the frame around the entries.
const FRAME_BYTES: usize = 1024;

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Input {
    path: String,
    #[serde(default)]
    recursive: bool,
    #[serde(default)]
    details: bool,
    #[serde(default)]
    all: bool,
}

pub(super) fn input_schema() -> Value {
    object_schema(json!({
        "path": {"type": "string", "description": "alias/relative path of the folder"},
        "recursive": {"type": "boolean"},
        "details": {"type": "boolean"},
        "all": {"type": "boolean", "description": "enter hidden folders and build output too"},
    }))
}

pub(super) fn run(input: &Input, sandbox: &Sandbox, wanted: &Wanted) -> Result<Value, GraphError> {
    let place = sandbox.place(&input.path)?;
    let dir = place.open_dir()?;
    let mut walk = Walk { recursive: input.recursive, all: input.all, wanted, left: ENTRIES };
    let mut entries = Vec::new();
    let mut bytes = FRAME_BYTES;
    let step = walk.go(&dir, &place.shown, &mut |found| {
        let entry = if input.details { details(found, &place.shown) } else { Value::String(found.path.clone()) };
        bytes += entry.to_string().len() + 1;
        if bytes > TOOL_OUTPUT_BYTES {
            return Ok(Step::Enough);
        }
        entries.push(entry);
        Ok(Step::On)
    })?;
    Ok(match step {
        Step::On => json!({"entries": entries}),
        Step::Enough => json!({"entries": entries, "truncated": true}),
    })
}

fn details(found: &Found<'_>, base: &str) -> Value {
    let metadata = &found.metadata;
    let kind = if metadata.is_dir() {
        "directory"
    } else if metadata.is_file() {
        "file"
    } else if metadata.is_symlink() {
        "symlink"
    } else {
        "other"
    };
    let modified = metadata.modified().ok().and_then(|time| {
        time.into_std().duration_since(std::time::UNIX_EPOCH).ok().map(|since| since.as_millis() as u64)
    });
    json!({
        "path": format!("{base}/{}", found.path),
        "name": found.name,
        "kind": kind,
        "size": metadata.len(),
        "modified_ms": modified,
    })
}
