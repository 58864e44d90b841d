//! `search_files`

use std::path::Path;

use globset::{GlobBuilder, GlobMatcher};
use serde::Deserialize;
use serde_json::{Value, json};

use super::read::{into_text, is_binary, read_up_to};
use super::sandbox::open_plain_file;
use super::walk::{ENTRIES, Found, Step, Walk};
use super::{Sandbox, Wanted, object_schema};
use crate::GraphError;
use crate::text::cut_utf16;

pub(super) const DESCRIPTION: &str = "Searches a folder and those below it. `pattern` is a glob on the path (`*.md`, \
`src/**/*.rs`), `text` a plain text to find in the files; give one or both. Gives {matches: [{path, line, text}], \
truncated?}, without line and text where only `pattern` is given. Hidden folders, node_modules and build output are \
left out, and so are binary files and those of more than 2 MB.";

/// Longest glob. The library panics on one whose regular expression grows too large, and recurses on nested braces.
const PATTERN_BYTES: usize = 1_000;
const FILE_BYTES: usize = 2 * 1024 * 1024;
const LINE_UNITS: usize = 300;
/// At 300 characters a line these fit into a tool's output.
const MOST_RESULTS: usize = 500;

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Input {
    path: String,
    pattern: Option<String>,
    text: Option<String>,
    #[serde(default = "hundred")]
    max_results: usize,
}

fn hundred() -> usize {
    100
}

pub(super) fn input_schema() -> Value {
    object_schema(json!({
        "path": {"type": "string", "description": "alias/relative path of the folder"},
        "pattern": {"type": "string", "description": "a glob on the path below the folder"},
        "text": {"type": "string", "description": "a plain text to find, case and all"},
        "max_results": {"type": "integer", "minimum": 1, "maximum": MOST_RESULTS},
    }))
}

pub(super) fn run(input: &Input, sandbox: &Sandbox, wanted: &Wanted) -> Result<Value, GraphError> {
    if input.pattern.is_none() && input.text.as_ref().is_none_or(String::is_empty) {
        return Err(GraphError::tool("bad_input", "search_files needs a pattern or a text"));
    }
    let glob = input.pattern.as_deref().map(glob).transpose()?;
    let most = input.max_results.clamp(1, MOST_RESULTS);
    let place = sandbox.place(&input.path)?;
    let dir = place.open_dir()?;
    let mut matches = Vec::new();
    let mut walk = Walk { recursive: true, all: false, wanted, left: ENTRIES };
    let step = walk.go(&dir, &place.shown, &mut |found| {
        let named = glob.as_ref().is_none_or(|glob| glob.is_match(Path::new(&found.path)));
        if !found.metadata.is_file() || !named {
            return Ok(Step::On);
        }
        let path = format!("{}/{}", place.shown, found.path);
        match &input.text {
            None => matches.push(json!({"path": path})),
            Some(text) => search_file(found, &path, text, most, &mut matches),
        }
        Ok(if matches.len() < most { Step::On } else { Step::Enough })
    })?;
    Ok(match step {
        Step::On => json!({"matches": matches}),
        Step::Enough => json!({"matches": matches, "truncated": true}),
    })
}

/// `*.md` finds files in all folders, as people expect; `*` does not cross a slash in a pattern that has one.
fn glob(pattern: &str) -> Result<GlobMatcher, GraphError> {
    if pattern.len() > PATTERN_BYTES {
        let message = format!("the pattern has {} bytes; at most {PATTERN_BYTES} are allowed", pattern.len());
        return Err(GraphError::tool("bad_input", message));
    }
    let built = GlobBuilder::new(pattern).literal_separator(pattern.contains('/')).build();
    built.map(|glob| glob.compile_matcher()).map_err(|error| GraphError::tool("bad_input", error.to_string()))
}

/// A file that cannot be searched is passed over.
fn search_file(found: &Found<'_>, path: &str, text: &str, most: usize, matches: &mut Vec<Value>) {
    if found.metadata.len() > FILE_BYTES as u64 {
        return;
    }
    let Ok((file, _)) = open_plain_file(found.dir, Path::new(&found.name), path) else { return };
    let Ok(bytes) = read_up_to(file, FILE_BYTES, path) else { return };
    if is_binary(&bytes) {
        return;
    }
    let content = into_text(bytes, false);
    for (index, line) in content.lines().enumerate().filter(|(_, line)| line.contains(text)) {
        if matches.len() == most {
            return;
        }
        let mut line = line.trim().to_owned();
        cut_utf16(&mut line, LINE_UNITS);
        matches.push(json!({"path": path, "line": index + 1, "text": line}));
    }
}
