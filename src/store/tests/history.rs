//! History: what ran, with which script, and what came of it.

use super::*;
use crate::store::executions::{
    DAEMON_STOPPED, Execution, Recorded, begin, events, find, finish, get, latest, record, running, settle_cut_off,
};
use fleet::{Event, GraphError, Outcome, Status, TokenUsage, Usage};

fn own_run(source: &str) -> NewExecution {
    NewExecution {
        id: ExecutionId::new(),
        channel: None,
        graph: "notes".to_owned(),
        saved: None,
        file: "notes.js".to_owned(),
        source: source.to_owned(),
        arguments: json!({"b": 1, "a": [0.1, -0.0, 1e300, "語😀", null]}),
    }
}

#[tokio::test]
async fn a_run_is_told_as_it_was() {
    let store = memory();
    let new = own_run("return args");
    let id = new.id;
    let usage = Usage {
        input_tokens: u64::from(u32::MAX) * 4,
        output_tokens: 7,
        estimated: true,
        cost: Some(0.1 + 0.2),
        agents: 3,
        agent_failures: 2,
    };
    let outcome = Outcome { status: Status::Completed, result: Some(Value::Null), error: None, usage };
    let told = [
        Event::FleetStarted { execution_id: id.as_uuid(), graph: "notes".to_owned(), depth: 0 },
        Event::Log { message: "語😀\0".to_owned(), data: Some(json!({"z": 1, "a": 2})) },
        Event::AgentFinished { agent: 1, tokens: TokenUsage::default(), cost: Some(0.5), duration_ms: 12 },
    ];
    let recorded: Vec<_> = told.iter().map(|event| Recorded { at_ms: 4, event: event.clone() }).collect();
    let (begun, ended) = (new.clone(), outcome.clone());
    store.write(move |tx| begin(tx, &begun, 3)).await.unwrap();
    let is_on = store.read(running).await.unwrap();
    assert_eq!((is_on[0].id, is_on[0].result.as_ref(), is_on[0].finished_at_ms), (id, None, None));
    store
        .write(move |tx| {
            record(tx, id, 0, &recorded[..1])?;
            record(tx, id, 1, &recorded[1..])?;
            finish(tx, id, &ended, 5)
        })
        .await
        .unwrap();

    let run = store.read(move |connection| get(connection, id)).await.unwrap().unwrap();
    let expected = Execution {
        id,
        channel: None,
        graph: new.graph,
        version: None,
        sha256: run.sha256.clone(),
        file: new.file,
        arguments: new.arguments,
        status: "completed".to_owned(),
        result: Some(Value::Null),
        error: None,
        usage,
        started_at_ms: 3,
        finished_at_ms: Some(5),
    };
    assert_eq!(run, expected);
    assert_eq!(run.sha256.len(), 64);
    assert_eq!(serde_json::to_string(&run.arguments).unwrap(), r#"{"b":1,"a":[0.1,-0.0,1e+300,"語😀",null]}"#);
    let kept: Vec<_> = store.read(move |connection| events(connection, id)).await.unwrap();
    assert_eq!(kept.into_iter().map(|recorded| recorded.event).collect::<Vec<_>>(), told);
    assert_eq!(store.read(running).await.unwrap(), []);
}

#[tokio::test]
async fn an_error_keeps_its_place_and_a_script_is_kept_once() {
    let store = memory();
    store
        .write(|tx| {
            let error = GraphError { line: Some(2), ..GraphError::new("ToolError", "outside_folder", "no") };
            let outcome = Outcome { status: Status::Failed, result: None, error: Some(error), usage: Usage::default() };
            for started_at_ms in 1..=3 {
                let new = own_run("return 1");
                begin(tx, &new, started_at_ms)?;
                finish(tx, new.id, &outcome, 9)?;
            }
            let runs = latest(tx, 2)?;
            assert_eq!(runs.iter().map(|run| run.started_at_ms).collect::<Vec<_>>(), [3, 2], "the newest first");
            assert_eq!((runs[0].status.as_str(), &runs[0].error), ("failed", &outcome.error));

            let done = own_run("return 1");
            begin(tx, &done, 4)?;
            let outcome = Outcome { status: Status::Completed, result: Some(json!("large")), error: None, ..outcome };
            finish(tx, done.id, &outcome, 9)?;
            assert_eq!(latest(tx, 1)?[0].result, None, "a list carries no results");
            assert_eq!(get(tx, done.id)?.unwrap().result, Some(json!("large")));
            Ok(())
        })
        .await
        .unwrap();
    assert_eq!(count(&store, "scripts").await, 1);
}

#[tokio::test]
async fn a_run_is_found_by_the_end_of_its_id_or_of_its_command_s() {
    let store = memory();
    store
        .write(|tx| {
            let (command, execution) = super::running(tx)?;
            let own = own_run("return 1");
            begin(tx, &own, 1)?;
            let (id, command) = (execution.id.to_string(), command.id.to_string());
            assert_eq!(find(tx, &id)?, [execution.id]);
            assert_eq!(find(tx, &command)?, [execution.id]);
            assert_eq!(find(tx, &id.to_uppercase())?, [execution.id]);
            assert_eq!(find(tx, &id[24..])?, [execution.id]);
            assert_eq!(find(tx, &command[24..])?, [execution.id]);
            for nothing in ["", "%", "____", "0'--", &id[33..], "zzzz", "019%"] {
                assert_eq!(find(tx, nothing)?, [], "{nothing}");
            }
            Ok(())
        })
        .await
        .unwrap();
}

#[tokio::test]
async fn the_owner_s_own_runs_are_settled_after_a_stop_too() {
    let store = memory();
    store
        .write(|tx| {
            let (cut, done) = (own_run("return 1"), own_run("return 2"));
            begin(tx, &cut, 1)?;
            begin(tx, &done, 1)?;
            let outcome =
                Outcome { status: Status::Completed, result: Some(json!(2)), error: None, usage: Usage::default() };
            finish(tx, done.id, &outcome, 2)?;
            assert_eq!(settle_cut_off(tx, 3)?, [cut.id]);
            let run = get(tx, cut.id)?.unwrap();
            assert_eq!((run.status.as_str(), run.error.unwrap().message.as_str()), ("failed", DAEMON_STOPPED));
            assert_eq!(get(tx, done.id)?.unwrap().status, "completed");
            assert_eq!(outbox::stats(tx)?.waiting, 0, "nobody else asked for them");
            Ok(())
        })
        .await
        .unwrap();
}
