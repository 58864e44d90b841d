//! `export const meta`: what a Graph says of itself, read from its source without running it.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::{Access, GraphError, Limits};

/// A Graph's `meta`. It can only narrow what the owner allows.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Meta {
    /// The Graph's name.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
    /// What it does, for a person choosing.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub description: Option<String>,
    /// The titles that `phase()` will show.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub phases: Vec<String>,
    /// JSON Schema of the arguments. Absent: any object.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub args: Option<Value>,
    /// The folders it works in, by the alias with which its paths begin.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub folders: BTreeMap<String, FolderRequest>,
    /// The tools that it and its agents may use.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub tools: Vec<String>,
    /// The other Graphs it may call.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub graphs: Vec<String>,
    /// Narrows the owner's and the caller's limits.
    pub limits: Limits,
}

/// One entry of `meta.folders`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct FolderRequest {
    /// A path, or `args.x` for the path in the argument `x`.
    pub from: String,
    /// What it wants to do there.
    pub access: Access,
    /// A folder below it, which is all that the alias then means.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub sub: Option<String>,
}

impl Meta {
    /// The path that a folder request means under these arguments.
    pub(crate) fn folder_path<'a>(request: &'a FolderRequest, arguments: &'a Value) -> Result<&'a str, GraphError> {
        let Some(name) = request.from.strip_prefix("args.") else { return Ok(&request.from) };
        arguments
            .get(name)
            .and_then(Value::as_str)
            .ok_or_else(|| GraphError::start("bad_args", format!("args.{name} must be the path of a folder")))
    }
}
