//! Scripts that loop, recurse, nest and allocate without end, on the real daemon: the worker alone suffers.

use serde_json::{Value, json};

use super::world::World;

/// One of each kind; the engine's own tests run them all.
const KINDS: [&str; 6] = ["while-catch", "recursion", "parse-parens", "mem-arrays", "regex-backtrack", "never-settles"];

#[cfg(target_os = "linux")]
#[tokio::test(flavor = "multi_thread")]
async fn hostile_scripts_leave_the_daemon_as_it_was() {
    use super::world::{eventually, resident_kib, workers_of};

    let mut world = World::with("[limits]\ntimeout = '2s'\nmemory_mb = 128\n").await;
    let cases: Vec<Value> = serde_json::from_str(include_str!("../cases/hostile-scripts.json")).unwrap();
    world.laptop.share("warm-up", "return 1");
    let session = world.session("warm-up").await;
    world.end(&world.queue(&session, json!({})).await).await;
    let before = resident_kib(world.relay.id());

    for kind in KINDS {
        let case = cases.iter().find(|case| case["name"] == kind).unwrap();
        let script = world.laptop.script(&format!("{kind}.js"), &source(case));
        let output = world.laptop.command(&["graph", "run", &script]);
        assert_eq!(output.status.code(), Some(1), "{kind}: {}", super::world::text(&output.stderr));
    }
    assert!(world.relay.is_running());
    eventually("no worker is left", async || workers_of(world.laptop.dir.path()).is_empty().then_some(())).await;
    let grown = resident_kib(world.relay.id()).saturating_sub(before);
    assert!(grown < 8 * 1024, "the daemon grew by {grown} KiB");

    let again = world.end(&world.queue(&session, json!({})).await).await;
    assert_eq!(again["status"], "completed", "the daemon does not work as before");
}

fn source(case: &Value) -> String {
    match case["source"].as_str() {
        Some(source) => source.to_owned(),
        None => case["parts"]
            .as_array()
            .unwrap()
            .iter()
            .map(|part| part[0].as_str().unwrap().repeat(part[1].as_u64().unwrap() as usize))
            .collect(),
    }
}
