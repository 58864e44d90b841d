//! Cancel, timeout, and the parent's death: whatever a script does, it is over.

use std::io::Write;
use std::process::{Command, Stdio};
use std::time::Duration;

use fleet::{Engine, Event, Limits, Outcome, RunRequest, Status};
use tokio::sync::mpsc;

use crate::support::{engine, request, run_request};

/// Runs a script and cancels it at its first log line.
async fn cancelled(source: &str) -> (Outcome, Vec<Event>) {
    let engine = engine();
    let request = request(source);
    let execution_id = request.execution_id;
    let (sender, mut receiver) = mpsc::unbounded_channel();
    let run = tokio::spawn(engine.run(request, sender));
    let mut events = Vec::new();
    while let Some(event) = receiver.recv().await {
        if matches!(event, Event::Log { .. }) && events.iter().all(|event| !matches!(event, Event::Log { .. })) {
            assert!(engine.cancel(execution_id));
            assert!(engine.cancel(execution_id), "a second cancel does no harm");
        }
        events.push(event);
    }
    let outcome = run.await.unwrap();
    assert!(!engine.cancel(execution_id), "the run is over");
    (outcome, events)
}

fn logs(events: &[Event]) -> Vec<&str> {
    events
        .iter()
        .filter_map(|event| if let Event::Log { message, .. } = event { Some(message.as_str()) } else { None })
        .collect()
}

#[tokio::test]
async fn a_cancel_rejects_what_is_pending_and_lets_finally_run() {
    let script = "log('begun')
        try { await sleep('1h') }
        catch (e) { log(`${e.name} ${e.code}`) ; throw e }
        finally { log('finally'); try { await sleep(1) } catch (e) { log(`again ${e.name}`) } }";
    let (outcome, events) = cancelled(script).await;
    assert_eq!(outcome.status, Status::Cancelled);
    assert_eq!(logs(&events), ["begun", "CancelledError cancelled", "finally", "again CancelledError"]);
}

#[tokio::test]
async fn a_run_that_returns_after_all_is_cancelled_all_the_same() {
    let (outcome, _) = cancelled("log('begun'); try { await sleep('1h') } catch { return 'done' }").await;
    assert_eq!((outcome.status, outcome.result), (Status::Cancelled, None));
}

#[tokio::test]
async fn a_stuck_script_is_killed_without_waiting_for_its_grace() {
    for script in [
        "log('begun'); while (true) {}",
        "log('begun'); try { await sleep('1h') } finally { while (true) {} }",
        "log('begun'); /^(a+)+$/.test('a'.repeat(40) + 'b')",
    ] {
        let run = tokio::time::timeout(Duration::from_secs(10), cancelled(script)).await;
        assert_eq!(run.expect("killed").0.status, Status::Cancelled);
    }
}

#[tokio::test]
async fn a_cancel_reaches_the_items_and_the_children_of_a_run() {
    let script = "export const meta = { graphs: ['child'] }
        log('begun'); await parallel([() => sleep('1h'), () => graph('child')])";
    let engine = engine();
    let graphs =
        crate::support::Saved(vec![("child", "log('child'); try { await sleep('1h') } finally { log('child ends') }")]);
    let request = RunRequest { graphs: std::sync::Arc::new(graphs), ..request(script) };
    let execution_id = request.execution_id;
    let (sender, mut receiver) = mpsc::unbounded_channel();
    let run = tokio::spawn(engine.run(request, sender));
    let mut events = Vec::new();
    while let Some(event) = receiver.recv().await {
        if matches!(&event, Event::Log { message, .. } if message == "child") {
            engine.cancel(execution_id);
        }
        events.push(event);
    }
    assert_eq!(run.await.unwrap().status, Status::Cancelled);
    assert_eq!(logs(&events), ["begun", "child", "child ends"]);
    assert!(events.contains(&Event::ChildFinished { graph: "child".to_owned(), ok: false }));
}

#[tokio::test]
async fn a_timeout_ends_a_run_whatever_it_does() {
    let limits = Limits { timeout: Some(Duration::from_millis(300)), ..Limits::default() };
    for script in ["await sleep('1h')", "while (true) {}", "try { await sleep('1h') } finally { await sleep('1h') }"] {
        let request = RunRequest { limits: limits.clone(), ..request(script) };
        let (outcome, _) = run_request(&engine(), request).await;
        assert_eq!(outcome.error.unwrap().code, "timeout");
    }
}

/// The daemon was killed: its end of the pipe is closed, and nobody is left to kill the worker.
#[test]
fn a_worker_does_not_outlive_its_parent_even_in_a_loop() {
    let mut worker =
        Command::new(env!("CARGO_BIN_EXE_fleet-worker")).stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
    let mut stdin = worker.stdin.take().unwrap();
    writeln!(stdin, r#"{{"do":"start","source":"while (true) {{}}","memory_mb":64}}"#).unwrap();
    writeln!(stdin, r#"{{"do":"begin","seed":1,"memory_mb":64,"args":{{}},"run":{{}},"total":null,"spent":0}}"#)
        .unwrap();
    drop(stdin);
    assert_eq!(worker.wait().unwrap().code(), Some(i32::from(fleet::exit_code::ORPHAN)));
}

#[test]
fn a_worker_that_hears_nonsense_ends() {
    let mut worker =
        Command::new(env!("CARGO_BIN_EXE_fleet-worker")).stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
    worker.stdin.take().unwrap().write_all(b"nonsense\n").unwrap();
    assert_eq!(worker.wait().unwrap().code(), Some(i32::from(fleet::exit_code::PROTOCOL)));
}
