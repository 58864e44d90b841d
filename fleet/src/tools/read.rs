//! `read_text_file`

use std::io::Read;

use cap_std::fs::File;
use serde::Deserialize;
use serde_json::{Value, json};

use super::{Sandbox, object_schema};
use crate::GraphError;
use crate::limits::TOOL_OUTPUT_BYTES;
use crate::text::cut_utf16;

pub(super) const DESCRIPTION: &str = "Reads a text file. Gives {text, truncated?}. A file of more than 256 KB needs \
`max_chars`, which cuts the text after so many characters.";

/// A NUL among the first bytes is how git tells a binary file.
const SNIFF_BYTES: usize = 8_000;

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Input {
    path: String,
    max_chars: Option<usize>,
}

pub(super) fn input_schema() -> Value {
    object_schema(json!({
        "path": {"type": "string", "description": "alias/relative path of the file"},
        "max_chars": {"type": "integer", "minimum": 1, "description": "cut the text after so many characters"},
    }))
}

pub(super) fn run(input: &Input, sandbox: &Sandbox) -> Result<Value, GraphError> {
    let place = sandbox.place(&input.path)?;
    let (file, metadata) = place.open_file()?;
    if input.max_chars.is_none() && metadata.len() > TOOL_OUTPUT_BYTES as u64 {
        let message = format!("'{}' has {} bytes: pass max_chars to read its beginning", place.shown, metadata.len());
        return Err(GraphError::tool("too_large", message));
    }
    // Four bytes a character at most.
    let most = input.max_chars.map_or(TOOL_OUTPUT_BYTES, |chars| chars.saturating_mul(4).min(4 * TOOL_OUTPUT_BYTES));
    let bytes = read_up_to(file, most, &place.shown)?;
    if is_binary(&bytes) {
        return Err(GraphError::tool("bad_input", format!("'{}' is no text file", place.shown)));
    }
    let mut truncated = (bytes.len() as u64) < metadata.len();
    let mut text = into_text(bytes, truncated);
    if let Some(chars) = input.max_chars {
        let before = text.len();
        cut_utf16(&mut text, chars);
        truncated |= text.len() < before;
    }
    Ok(if truncated { json!({"text": text, "truncated": true}) } else { json!({"text": text}) })
}

pub(super) fn read_up_to(file: File, most: usize, shown: &str) -> Result<Vec<u8>, GraphError> {
    let mut bytes = Vec::new();
    match file.take(most as u64).read_to_end(&mut bytes) {
        Ok(_) => Ok(bytes),
        Err(error) => Err(super::sandbox::trouble(shown, &error)),
    }
}

pub(super) fn is_binary(bytes: &[u8]) -> bool {
    bytes[..bytes.len().min(SNIFF_BYTES)].contains(&0)
}

/// Text with U+FFFD for what is no UTF-8; a character that was cut at the end is dropped.
pub(super) fn into_text(mut bytes: Vec<u8>, cut: bool) -> String {
    if cut
        && let Err(error) = std::str::from_utf8(&bytes)
        && error.error_len().is_none()
    {
        bytes.truncate(error.valid_up_to());
    }
    String::from_utf8(bytes).unwrap_or_else(|error| String::from_utf8_lossy(error.as_bytes()).into_owned())
}
