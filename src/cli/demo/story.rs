//! What the demo prints.

use std::path::Path;
use std::time::Instant;

use jiff::Timestamp;
use serde_json::Value;

use super::super::error::CliError;
use super::super::print::put;
use super::super::text::{counted, shortened, span, table};

/// Tells each step with the time at which it was done.
pub(super) struct Story {
    began: Instant,
}

/// What an assistant of the user's own needs.
pub(super) struct Access<'a> {
    pub(super) hub: &'a str,
    pub(super) token_file: &'a Path,
    pub(super) project: &'a str,
    pub(super) home: &'a Path,
    pub(super) folder: &'a Path,
}

impl Story {
    pub(super) fn begin(folder: &Path) -> Result<Self, CliError> {
        put(format!("An assistant asks a hub to run a Graph; the Graph runs here, on {}.\n", folder.display()))?;
        Ok(Self { began: Instant::now() })
    }

    pub(super) fn tell(&self, who: &str, what: &str) -> Result<(), CliError> {
        put(format!("{:>6.2} s  {who:<9}  {what}", self.began.elapsed().as_secs_f64()))
    }

    /// What the assistant got: how long it took, and the digest in a form that a person reads.
    pub(super) fn show(&self, run: &Value) -> Result<(), CliError> {
        put(format!("\n{}", times(run)))?;
        match (&run["result"], run["message"].as_str()) {
            (Value::Null, Some(message)) => put(format!("\n{message}")),
            (result, _) => put(format!("\n{}", digest(result))),
        }
    }

    pub(super) fn end(&self) -> Result<(), CliError> {
        put("\nTo connect your own assistant, run this again with --keep: hub and relay then go on running, and it")?;
        put("prints the address, the token and the line to type. To set them up for good, see the README.")
    }

    pub(super) fn go_on(&self, access: &Access<'_>) -> Result<(), CliError> {
        let Access { hub, project, .. } = access;
        let (token_file, home, folder) = (access.token_file.display(), access.home.display(), access.folder.display());
        // It need not be installed.
        let program = std::env::current_exe()?;
        put(format!(
            "
Hub and relay go on running until Ctrl-C. To connect your own assistant to them:

  claude mcp add --transport http graph-relay {hub}/mcp \\
    --header \"Authorization: Bearer $(cat '{token_file}')\"

Then ask it: in the project {project}, run the digest Graph on {folder}

MCP endpoint   {hub}/mcp
Bearer token   in {token_file}
Project id     {project}
The laptop     GRAPH_RELAY_HOME='{home}' '{}' status",
            program.display()
        ))
    }
}

fn times(run: &Value) -> String {
    let at = |field: &str| run[field].as_str().and_then(|text| text.parse::<Timestamp>().ok());
    let between = |from: &str, to: &str| match (at(from), at(to)) {
        (Some(from), Some(to)) => span(to.as_millisecond() - from.as_millisecond()),
        _ => "?".to_owned(),
    };
    format!(
        "Picked up {} after the assistant asked, ran for {} on the laptop; {} tokens.",
        between("queued_at", "started_at"),
        between("started_at", "finished_at"),
        run["total_tokens"].as_u64().unwrap_or(0)
    )
}

/// The result of the digest Graph. What it does not have is left out.
fn digest(result: &Value) -> String {
    let count = |field: &str| usize::try_from(result[field].as_u64().unwrap_or(0)).unwrap_or(usize::MAX);
    let number = |value: &Value| value.as_u64().unwrap_or(0).to_string();
    let mut text = format!(
        "{} in {}, {} bytes, {} lines, {} words",
        counted(count("files"), "file", "files"),
        counted(count("folders"), "folder", "folders"),
        count("bytes"),
        count("lines"),
        count("words")
    );
    let types = result["types"].as_object().into_iter().flatten();
    let rows: Vec<_> = types
        .map(|(name, of)| vec![name.clone(), number(&of["files"]), number(&of["lines"]), number(&of["bytes"])])
        .collect();
    text += &format!("\n\n{}", table(&["TYPE", "FILES", "LINES", "BYTES"], &rows));
    let listed = |of: &Value, head: [&str; 2], value: &str| {
        let items = of.as_array().into_iter().flatten();
        let rows: Vec<_> = items.map(|item| vec![plain(&item["file"]), plain(&item[value])]).collect();
        if rows.is_empty() { String::new() } else { format!("\n\n{}", table(&head, &rows)) }
    };
    text += &listed(&result["biggest"], ["BIGGEST", "BYTES"], "bytes");
    text += &listed(&result["newest"], ["NEWEST", "CHANGED"], "changed");
    text += &listed(&result["documents"], ["DOCUMENTS", "TITLE"], "title");
    let todo: Vec<_> = result["todo"]["first"].as_array().into_iter().flatten().map(plain).collect();
    if !todo.is_empty() {
        let shown: Vec<_> = todo.iter().map(|line| shortened(line, 110)).collect();
        text += &format!("\n\nTO DO ({})\n{}", result["todo"]["count"], shown.join("\n"));
    }
    text
}

fn plain(value: &Value) -> String {
    match value {
        Value::Null => "–".to_owned(),
        Value::String(text) => shortened(text, 90),
        other => shortened(&other.to_string(), 90),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_digest_reads_well_and_leaves_out_what_is_not_there() {
        let result = json!({
            "files": 2, "folders": 1, "bytes": 40, "lines": 3, "words": 9,
            "types": {"md": {"files": 1, "bytes": 30, "lines": 3}, "png": {"files": 1, "bytes": 10, "lines": 0}},
            "biggest": [{"file": "plan.md", "bytes": 30}], "newest": [], "documents": [{"file": "plan.md", "title": null}],
            "todo": {"count": 0, "first": []},
        });
        insta::assert_snapshot!(digest(&result), @r"
        2 files in 1 folder, 40 bytes, 3 lines, 9 words

        TYPE  FILES  LINES  BYTES
        md    1      3      30
        png   1      0      10

        BIGGEST  BYTES
        plan.md  30

        DOCUMENTS  TITLE
        plan.md    –
        ");
    }

    #[test]
    fn times_are_told_from_the_hubs_own() {
        let run = json!({
            "queued_at": "2026-01-01T00:00:00Z", "started_at": "2026-01-01T00:00:09.8Z",
            "finished_at": "2026-01-01T00:00:10Z", "total_tokens": 0,
        });
        assert_eq!(times(&run), "Picked up 9.8 s after the assistant asked, ran for 200 ms on the laptop; 0 tokens.");
    }
}
