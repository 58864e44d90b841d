//! Commands from an assistant to its answer.

use serde_json::{Value, json};

use super::world::{Laptop, World, eventually};

const ECHO: &str = "export const meta = { description: 'gives back its arguments' }\nreturn { args, at: run.depth }";
const FOREVER: &str = "phase('Waiting'); progress(1, 3, 'still here'); await sleep('1h'); return 'over'";

#[tokio::test(flavor = "multi_thread")]
async fn an_assistant_runs_a_graph_and_reads_its_result() {
    let world = World::new().await;
    world.laptop.share("echo", ECHO);
    let session = world.session("echo").await;
    let command = world.queue(&session, json!({"text": "häl\u{1f980}lo", "n": 1e21})).await;
    let run = world.end(&command).await;
    assert_eq!(run["status"], "completed", "{run}");
    assert_eq!(run["result"], json!({"args": {"text": "häl\u{1f980}lo", "n": 1e21}, "at": 0}));

    // The desktop has the same run in its history, tied to the project that asked.
    let shown = world.laptop.json(&["history", "show", &command, "--json"]);
    assert_eq!(shown["id"], run["execution_id"]);
    assert_eq!(shown["channel"], format!("graph:external:{command}"));
    assert_eq!(shown["result"], run["result"]);
    assert_eq!(shown["events"][0]["event"]["type"], "fleet_started");
}

#[tokio::test(flavor = "multi_thread")]
async fn five_queued_together_finish_one_after_the_other() {
    let world = World::new().await;
    world.laptop.share("echo", ECHO);
    let session = world.session("echo").await;
    let mut commands = Vec::new();
    for n in 0..5 {
        commands.push(world.queue(&session, json!({"n": n})).await);
    }
    for command in &commands {
        assert_eq!(world.end(command).await["status"], "completed");
    }
    let mut runs: Vec<Value> = world.laptop.json(&["history", "--json"]).as_array().unwrap().clone();
    runs.reverse();
    let order: Vec<_> = runs.iter().map(|run| run["arguments"]["n"].clone()).collect();
    assert_eq!(order, [0, 1, 2, 3, 4]);
    for pair in runs.windows(2) {
        assert!(pair[0]["finished_at_ms"].as_i64() <= pair[1]["started_at_ms"].as_i64(), "two ran at once: {pair:?}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_running_graph_is_watched_and_cancelled() {
    let world = World::new().await;
    world.laptop.share("forever", FOREVER);
    let session = world.session("forever").await;
    let command = world.queue(&session, json!({})).await;
    let progress = eventually("progress reaches the assistant", async || {
        let run = world.look(&command).await;
        (run["progress"]["phase"] == "Waiting").then(|| run["progress"].clone())
    })
    .await;
    assert_eq!((&progress["done"], &progress["total"]), (&json!(1), &json!(3)), "{progress}");

    world.assistant.call("cancel_graph_run", json!({"command_id": command})).await.unwrap();
    assert_eq!(world.end(&command).await["status"], "cancelled");
    #[cfg(target_os = "linux")]
    eventually("the worker is gone", async || {
        super::world::workers_of(world.laptop.dir.path()).is_empty().then_some(())
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn what_is_no_longer_shared_does_not_run_and_says_so() {
    let world = World::new().await;
    world.laptop.share("echo", ECHO);
    world.laptop.share("forever", FOREVER);
    let (echo, forever) = (world.session("echo").await, world.session("forever").await);

    // While the worker is busy, two runs wait; the owner takes one Graph back and renames nothing else.
    let busy = world.queue(&forever, json!({})).await;
    world.until(&busy, &["running"]).await;
    let waiting = world.queue(&echo, json!({})).await;
    world.laptop.ok(&["unshare", "echo", "--project", "Demo"]);
    world.assistant.call("cancel_graph_run", json!({"command_id": busy})).await.unwrap();

    let run = world.end(&waiting).await;
    assert_eq!(run["status"], "cancelled", "{run}");
    assert_eq!(run["message"], "Graph session is no longer shared with this project");
    let ran = world.laptop.json(&["history", "--json"]);
    assert!(ran.as_array().unwrap().iter().all(|run| run["graph"] != "echo"), "a script line ran without consent");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_script_that_fails_is_reported_with_its_place() {
    let world = World::new().await;
    world.laptop.share("broken", "const x = 1\nthrow new RangeError('out of paper')");
    let session = world.session("broken").await;
    let run = world.end(&world.queue(&session, json!({})).await).await;
    assert_eq!(run["status"], "failed");
    let message = run["message"].as_str().unwrap();
    assert!(message.starts_with("broken.js:2:") && message.contains("RangeError: out of paper"), "{message}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_result_too_large_to_send_stays_whole_on_the_laptop() {
    let world = World::new().await;
    world.laptop.share("large", "return '語'.repeat(200000)");
    let session = world.session("large").await;
    let run = world.end(&world.queue(&session, json!({})).await).await;
    assert_eq!((&run["status"], &run["result_truncated"]), (&json!("completed"), &json!(true)));
    assert!(run.get("result").is_none(), "a half-cut result went out");
    let shown = world.laptop.json(&["history", "show", run["execution_id"].as_str().unwrap(), "--json"]);
    assert_eq!(shown["result"].as_str().unwrap().chars().count(), 200_000);
}

/// A token that was revoked stops the desktop from being served, not the daemon from running.
#[tokio::test(flavor = "multi_thread")]
async fn a_revoked_desktop_goes_on_and_says_why_it_is_not_served() {
    let mut world = World::new().await;
    let listed = world.hub.command(&["device", "list"]);
    let id = listed.lines().nth(1).unwrap().split_whitespace().nth(1).unwrap().to_owned();
    world.hub.command(&["device", "revoke", &id]);
    eventually("status tells the problem", async || {
        let status = world.laptop.json(&["status", "--json"]);
        status["health"]["problem"].as_str().is_some_and(|problem| problem.contains("token")).then_some(())
    })
    .await;
    assert!(world.relay.is_running());
}

/// The laptop is off while commands are queued: none is lost.
#[tokio::test(flavor = "multi_thread")]
async fn commands_wait_for_a_laptop_that_is_off() {
    let mut world = World::new().await;
    world.laptop.share("echo", ECHO);
    let session = world.session("echo").await;
    world.relay.kill();
    let commands = [world.queue(&session, json!({"n": 0})).await, world.queue(&session, json!({"n": 1})).await];
    for command in &commands {
        assert_eq!(world.look(command).await["status"], "queued");
    }
    world.relay = world.laptop.relay().await;
    for command in &commands {
        assert_eq!(world.end(command).await["status"], "completed");
    }
}

/// Agents need a model; the report says how to configure one.
#[tokio::test(flavor = "multi_thread")]
async fn an_agent_without_a_model_fails_with_what_to_do() {
    let laptop = Laptop::new(None, "");
    let script = laptop.script("ask.js", "return await agent('hello')");
    let output = laptop.command(&["graph", "run", &script]);
    let said = super::world::text(&output.stderr);
    assert_eq!(output.status.code(), Some(1));
    assert!(said.contains("[models."), "{said}");
}
