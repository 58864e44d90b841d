//! The owner's command line.

use std::fs;

use serde_json::json;

use super::world::{Laptop, eventually, text};

#[test]
fn a_file_runs_without_hub_daemon_or_saving() {
    let laptop = Laptop::new(None, "");
    let script = laptop.script("sum.js", "log('adding'); return args.a + args.b");
    let output = laptop.command(&["graph", "run", &script, "--args", r#"{"a": 2, "b": 3}"#]);
    assert_eq!((output.status.code(), text(&output.stdout).trim()), (Some(0), "5"));
    let said = text(&output.stderr);
    assert!(said.contains("log      adding") && said.contains("completed in"), "{said}");
    assert!(laptop.ok(&["graph", "list"]).is_empty());

    let run = &laptop.json(&["history", "--json"])[0];
    assert_eq!((&run["graph"], &run["status"]), (&json!("sum"), &json!("completed")));
}

#[test]
fn exit_codes_tell_what_happened() {
    let laptop = Laptop::new(None, "");
    let throws = laptop.script("throws.js", "throw new Error('no')");
    let syntax = laptop.script("syntax.js", "const = 3");
    let stuck = laptop.script("stuck.js", "while (true) {}");
    let cases: [(&[&str], i32, &str); 9] = [
        (&["graph", "run", &throws], 1, "throws.js:1:"),
        (&["graph", "run", &stuck, "--timeout", "1s"], 1, "1s"),
        (&["graph", "run", &syntax], 1, "syntax.js:1:"),
        (&["graph", "add", "syntax", &syntax], 2, "syntax.js:1:"),
        (&["graph", "run", &throws, "--args", "[1"], 2, "--args is not JSON"),
        (&["graph", "run", &throws, "--args", "[1]"], 2, "must be a JSON object"),
        (&["graph", "run", "nothing"], 3, "there is no Graph `nothing`"),
        (&["graph", "run", "missing.js"], 3, "missing.js"),
        (&["project", "list"], 4, "no hub is configured"),
    ];
    for (words, code, said) in cases {
        let output = laptop.command(words);
        let stderr = text(&output.stderr);
        assert_eq!(output.status.code(), Some(code), "{words:?}: {stderr}");
        assert!(stderr.contains(said), "{words:?}: {stderr}");
    }
}

#[test]
fn a_wrong_configuration_names_file_line_and_key() {
    let laptop = Laptop::new(None, "[limits]\nmax_agent = 3\n");
    let output = laptop.command(&["status"]);
    let said = text(&output.stderr);
    assert_eq!(output.status.code(), Some(6), "{said}");
    assert!(said.contains("config.toml") && said.contains("max_agent") && said.contains("line"), "{said}");
}

/// Whoever has not yet got a token can work on his Graphs, and is told what is missing where it matters.
#[test]
fn without_a_token_only_the_hub_is_out_of_reach() {
    let laptop = Laptop::new(Some(("http://127.0.0.1:9", "")), "");
    let script = laptop.script("one.js", "return 1");
    assert_eq!(laptop.ok(&["graph", "run", &script]).trim(), "1");
    laptop.ok(&["graph", "add", "one", &script]);
    for (words, code) in [(&["run"][..], 6), (&["project", "list"], 4), (&["share", "one", "--project", "Demo"], 4)] {
        let output = laptop.command(words);
        let said = text(&output.stderr);
        assert_eq!(output.status.code(), Some(code), "{words:?}: {said}");
        assert!(said.contains("device-token") && said.contains("hub device add"), "{words:?}: {said}");
    }
}

#[test]
fn versions_of_a_graph_stay_as_they_were() {
    let laptop = Laptop::new(None, "");
    let first = laptop.script("one.js", "return 1");
    laptop.ok(&["graph", "add", "count", &first]);
    assert_eq!(laptop.command(&["graph", "add", "count", &first]).status.code(), Some(2));
    let second = laptop.script("two.js", "return 2");
    laptop.ok(&["graph", "update", "count", &second]);
    assert_eq!(laptop.ok(&["graph", "show", "count", "--version", "1"]), "return 1");
    assert_eq!(laptop.ok(&["graph", "show", "count"]), "return 2");
    assert_eq!(laptop.ok(&["graph", "run", "count"]).trim(), "2");
    laptop.ok(&["graph", "rename", "count", "counter"]);
    assert_eq!(laptop.json(&["graph", "list", "--json"])[0]["slug"], "counter");
}

#[test]
fn a_folder_that_was_not_granted_is_not_read() {
    let laptop = Laptop::new(None, "");
    let notes = laptop.path("notes");
    fs::create_dir(&notes).unwrap();
    fs::write(notes.join("a.txt"), "hello").unwrap();
    let script = laptop.script(
        "read.js",
        "export const meta = { folders: { in: { from: 'args.folder', access: 'read' } }, tools: ['read_text_file'] }
         return (await tool('read_text_file', { path: 'in/a.txt' })).text",
    );
    let arguments = json!({"folder": notes}).to_string();
    let refused = laptop.command(&["graph", "run", &script, "--args", &arguments]);
    let said = text(&refused.stderr);
    assert_eq!(refused.status.code(), Some(1), "{said}");
    assert!(said.contains("--read"), "it does not say how to grant: {said}");
    let granted = laptop.ok(&["graph", "run", &script, "--args", &arguments, "--read", &notes.to_string_lossy()]);
    assert_eq!(granted.trim(), "\"hello\"");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_second_daemon_says_who_is_there_and_ends() {
    let laptop = Laptop::new(None, "");
    let mut first = laptop.relay().await;
    let second = laptop.command(&["run"]);
    let said = text(&second.stderr);
    assert_eq!(second.status.code(), Some(5), "{said}");
    assert!(said.contains(&format!("graph-relay run, process {}", first.id())), "{said}");
    assert!(first.is_running());
}

#[tokio::test(flavor = "multi_thread")]
async fn the_owner_runs_and_cancels_through_the_daemon() {
    let laptop = Laptop::new(None, "");
    let _relay = laptop.relay().await;
    let script = laptop.script("wait.js", "await sleep('1h')");
    let mut run = laptop.spawn(&["graph", "run", &script]);
    let id = eventually("the run shows in the status", async || {
        let status = laptop.json(&["status", "--json"]);
        status["running"][0]["id"].as_str().map(str::to_owned)
    })
    .await;
    laptop.ok(&["cancel", &id]);
    let ended = run.wait().unwrap();
    assert_eq!(ended.code(), Some(130));
    assert_eq!(laptop.json(&["history", "show", &id, "--json"])["status"], "cancelled");
}

/// Whoever started a run and went away does not leave it behind.
#[tokio::test(flavor = "multi_thread")]
async fn a_run_ends_with_the_command_that_asked_for_it() {
    let laptop = Laptop::new(None, "");
    let _relay = laptop.relay().await;
    let script = laptop.script("wait.js", "await sleep('1h')");
    let mut run = laptop.spawn(&["graph", "run", &script]);
    let id = eventually("the run shows in the status", async || {
        laptop.json(&["status", "--json"])["running"][0]["id"].as_str().map(str::to_owned)
    })
    .await;
    run.kill().unwrap();
    run.wait().unwrap();
    eventually("the run is cancelled", async || {
        (laptop.json(&["history", "show", &id, "--json"])["status"] == "cancelled").then_some(())
    })
    .await;
}

#[cfg(unix)]
#[tokio::test(flavor = "multi_thread")]
async fn what_the_laptop_keeps_is_its_owners_alone() {
    use std::os::unix::fs::PermissionsExt;
    let laptop = Laptop::new(None, "");
    let _relay = laptop.relay().await;
    for file in ["relay.db", "control.sock"] {
        let mode = fs::metadata(laptop.path(file)).unwrap().permissions().mode();
        assert_eq!(mode & 0o077, 0, "{file} is open to others: {mode:o}");
    }
}
