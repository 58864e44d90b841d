//! What the demo prints.

use std::path::Path;
use std::time::Instant;

use serde_json::Value;

/// Tells each step with the time at which it was done.
pub(super) struct Story {
    began: Instant,
}

impl Story {
    pub(super) fn begin(folder: &Path) -> Self {
        println!("An assistant asks a hub to run a Graph; the Graph runs here, on {}.\n", folder.display());
        Self { began: Instant::now() }
    }

    pub(super) fn tell(&self, who: &str, what: &str) {
        println!("{:>6.2} s  {who:<9}  {what}", self.began.elapsed().as_secs_f64());
    }

    /// The run's result, as the assistant got it.
    pub(super) fn show(&self, run: &Value) {
        println!("\nWhat the assistant got:\n");
        match (&run["result"], run["message"].as_str()) {
            (Value::Null, Some(message)) => println!("{message}"),
            (Value::Null, None) => println!("{run:#}"),
            (result, _) => println!("{result:#}"),
        }
    }

    pub(super) fn end(&self, hub: &str, token_file: &Path, project: &str, home: &Path, keep: bool) {
        if keep {
            println!("\nHub and relay go on running until Ctrl-C. To connect your own assistant to them:\n");
            println!("  claude mcp add --transport http graph-relay {hub}/mcp \\");
            println!("    --header \"Authorization: Bearer $(cat '{}')\"\n", token_file.display());
            println!("MCP endpoint   {hub}/mcp");
            println!("Bearer token   in {}", token_file.display());
            println!("Project id     {project}");
            println!("The laptop     GRAPH_RELAY_HOME='{}' graph-relay status", home.display());
        } else {
            println!("\nTo keep hub and relay running and connect your own assistant: graph-relay demo --keep");
            println!("To set them up for good: see the README.");
        }
    }
}
