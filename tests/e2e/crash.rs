//! `kill -9`, at the moments that matter.

use serde_json::json;

use super::world::{World, eventually};

#[tokio::test(flavor = "multi_thread")]
async fn a_daemon_killed_in_the_middle_of_a_run_settles_it_after_its_restart() {
    let mut world = World::new().await;
    world.laptop.share("slow", "log('begun'); await sleep('1h')");
    let session = world.session("slow").await;
    let command = world.queue(&session, json!({})).await;
    world.until(&command, &["running"]).await;
    eventually("the script is at work", async || {
        let status = world.laptop.json(&["status", "--json"]);
        let id = status["running"][0]["id"].as_str()?.to_owned();
        let shown = world.laptop.json(&["history", "show", &id, "--json"]);
        shown["events"].as_array()?.iter().any(|recorded| recorded["event"]["message"] == "begun").then_some(())
    })
    .await;

    world.relay.kill();
    #[cfg(target_os = "linux")]
    eventually("the worker is gone with its daemon", async || {
        super::world::workers_of(world.laptop.dir.path()).is_empty().then_some(())
    })
    .await;

    world.relay = world.laptop.relay().await;
    let run = world.end(&command).await;
    assert_eq!(run["status"], "failed");
    assert_eq!(run["message"], "the desktop stopped while the Graph was running");
    let runs = world.laptop.json(&["history", "--json"]);
    assert_eq!(runs.as_array().unwrap().len(), 1, "it ran twice: {runs}");
    assert_eq!(runs[0]["status"], "failed");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_report_that_was_never_sent_arrives_after_a_kill_of_both() {
    let mut world = World::new().await;
    // The script waits until the test has taken the hub away.
    world.laptop.share("gate", "await sleep('2s'); return 'done'");
    let session = world.session("gate").await;
    let command = world.queue(&session, json!({})).await;
    world.until(&command, &["running"]).await;
    world.hub.kill();
    eventually("the run is finished and its report waits", async || {
        let items = world.laptop.json(&["outbox", "list", "--json"]);
        (items.as_array()?.len() == 1).then_some(())
    })
    .await;
    world.relay.kill();

    world.hub.restart();
    world.relay = world.laptop.relay().await;
    let run = world.end(&command).await;
    assert_eq!((&run["status"], &run["result"]), (&json!("completed"), &json!("done")));
    eventually("the outbox is empty", async || {
        world.laptop.json(&["outbox", "list", "--json"]).as_array()?.is_empty().then_some(())
    })
    .await;
    assert_eq!(world.laptop.json(&["history", "--json"]).as_array().unwrap().len(), 1, "it ran twice");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_hub_that_restarts_goes_unnoticed() {
    let mut world = World::new().await;
    world.laptop.share("echo", "return args");
    let session = world.session("echo").await;
    let before = world.queue(&session, json!({"n": 1})).await;
    world.hub.restart();
    assert_eq!(world.end(&before).await["status"], "completed");
    let after = world.queue(&session, json!({"n": 2})).await;
    assert_eq!(world.end(&after).await["result"], json!({"n": 2}));
}
