//! Commands: received once, finished together with their report.

use super::*;
use crate::command::State;
use crate::store::commands::{
    Received, finish, get, known, may_take, next_received, receive, refused, settle_cut_off, waiting, waiting_from,
};
use crate::store::executions::DAEMON_STOPPED;
use fleet::{Outcome, Status, Usage};
use protocol::{Completion, CompletionStatus};

fn policy() -> outbox::Policy {
    outbox::Policy::default()
}

fn completion(execution: &NewExecution) -> Completion {
    Completion {
        execution_id: Some(execution.id),
        message: None,
        result: Some(json!(3)),
        ..Completion::without_run(CompletionStatus::Completed, "")
    }
}

fn completed() -> Outcome {
    Outcome { status: Status::Completed, result: Some(json!(3)), error: None, usage: Usage::default() }
}

#[tokio::test]
async fn a_known_id_changes_nothing_whatever_comes_with_it() {
    let store = memory();
    store
        .write(|tx| {
            let (command, graph) = received(tx)?;
            let mut other = entry(command.id, &graph);
            other["arguments"] = json!({"amount": 1_000_000});
            other["slug"] = json!("invoices");
            let elsewhere = Origin { hub: "https://other.example".to_owned(), project: project("project-9") };
            for (from, entry) in [
                (origin(), other.clone()),
                (elsewhere, other),
                (origin(), json!({"command_id": command.id})),
                (origin(), entry(command.id, &graph)),
            ] {
                let got = receive(tx, &from, &[entry.clone(), entry], &policy(), 9_000)?;
                assert_eq!(got, Received { known: 2, ..Received::default() });
                assert_eq!(get(tx, command.id)?.as_ref(), Some(&command));
            }
            assert_eq!(waiting(tx)?, 1);
            Ok(())
        })
        .await
        .unwrap();
}

#[tokio::test]
async fn commands_are_taken_in_the_order_in_which_they_came() {
    let store = memory();
    store
        .write(|tx| {
            let (first, _) = received(tx)?;
            let (second, graph) = received(tx)?;
            let elsewhere = Origin { hub: "https://other.example".to_owned(), ..origin() };
            receive(tx, &elsewhere, &[entry(CommandId::new(), &graph)], &policy(), 1)?;
            assert_eq!(next_received(tx, HUB)?.unwrap().id, first.id);
            commands::drop_denied(tx, first.id, 1)?;
            assert_eq!(next_received(tx, HUB)?.unwrap().id, second.id);
            assert_eq!((waiting_from(tx, HUB)?, waiting(tx)?), (1, 2));
            assert_eq!(known(tx, &origin())?, [second.id]);
            Ok(())
        })
        .await
        .unwrap();
}

#[tokio::test]
async fn an_id_that_is_no_uuid_is_remembered_once_and_hides_no_other() {
    let store = memory();
    store
        .write(|tx| {
            let graph = save(tx, "digest", "return 1")?;
            let mut bad = entry(CommandId::new(), &graph);
            bad["command_id"] = json!("run-me");
            let entries = [bad.clone(), entry(CommandId::new(), &graph), bad, json!(null)];
            let got = receive(tx, &origin(), &entries, &policy(), 1)?;
            assert_eq!((got.new, got.refused.len()), (1, 2), "{got:?}");
            let again = receive(tx, &origin(), &entries, &policy(), 2)?;
            assert_eq!((again.known, again.refused.len()), (1, 0), "told with every sync: {again:?}");
            let times: Vec<_> = refused(tx)?.into_iter().map(|(_, times)| times).collect();
            assert_eq!(times, [2, 4]);
            Ok(())
        })
        .await
        .unwrap();
    assert_eq!(count(&store, "commands").await, 1);
}

#[tokio::test]
async fn a_hub_that_sends_nothing_but_nonsense_fills_neither_disk_nor_log() {
    let store = memory();
    store
        .write(|tx| {
            let nonsense: Vec<_> = (0..5_000).map(|nth| json!({"command_id": format!("{nth}")})).collect();
            let got = receive(tx, &origin(), &nonsense, &policy(), 1)?;
            assert_eq!((got.refused.len(), got.left), (200, 4_000));
            assert_eq!(receive(tx, &origin(), &nonsense, &policy(), 2)?.refused.len(), 0);
            Ok(())
        })
        .await
        .unwrap();
    assert_eq!(count(&store, "refused_commands").await, 200);
}

#[tokio::test]
async fn what_makes_no_sense_is_kept_with_the_reason_and_little_else() {
    let store = memory();
    store
        .write(|tx| {
            let graph = save(tx, "digest", "return 1")?;
            let long = "x".repeat(3_000_000);
            for (field, value) in [
                ("arguments", json!(long)),
                ("arguments", json!({"text": long})),
                ("slug", json!(long)),
                ("graph_session_id", json!(long)),
                ("arguments", json!([])),
            ] {
                let id = CommandId::new();
                let mut entry = entry(id, &graph);
                entry[field] = value;
                receive(tx, &origin(), &[entry], &policy(), 1)?;
                let kept = get(tx, id)?.unwrap();
                let problem = kept.problem.unwrap();
                assert!(!problem.is_empty() && problem.len() <= 2_000, "{field}: {} bytes", problem.len());
                assert_eq!((kept.arguments.len(), kept.slug.as_str(), kept.session), (0, "", None), "{field}");
            }
            Ok(())
        })
        .await
        .unwrap();
}

#[tokio::test]
async fn what_there_is_no_room_for_is_left_at_the_hub() {
    let store = memory();
    store
        .write(|tx| {
            let graph = save(tx, "digest", "return 1")?;
            let entries: Vec<_> = (0..3).map(|_| entry(CommandId::new(), &graph)).collect();
            // Room for the reports of two.
            let small = outbox::Policy { max_bytes: 700_000, ..policy() };
            let got = receive(tx, &origin(), &entries, &small, 1)?;
            assert_eq!(got, Received { new: 2, left: 1, ..Received::default() });
            assert!(!may_take(tx, &small)? && may_take(tx, &policy())?);
            assert_eq!(receive(tx, &origin(), &entries, &policy(), 2)?.new, 1, "left for good");

            let many: Vec<_> = (0..1_000).map(|_| entry(CommandId::new(), &graph)).collect();
            let got = receive(tx, &origin(), &many, &outbox::Policy { max_bytes: u64::MAX / 2, ..policy() }, 3)?;
            assert_eq!((got.new, got.left), (997, 3), "a hub could fill the disk with commands");
            Ok(())
        })
        .await
        .unwrap();
}

#[tokio::test]
async fn the_end_of_a_run_and_its_report_are_stored_together_or_not_at_all() {
    let store = memory();
    let (command, execution) = store.write(running).await.unwrap();
    let end = |tx: &Transaction<'_>, execution: &NewExecution, id| {
        executions::finish(tx, execution.id, &completed(), 5_000)?;
        finish(tx, HUB, id, crate::command::Event::Ended, &completion(execution), 5_000)
    };
    let break_outbox = "CREATE TRIGGER broken BEFORE INSERT ON outbox_items BEGIN SELECT RAISE(ABORT, 'broken'); END";
    store.write(|tx| Ok(tx.execute_batch(break_outbox)?)).await.unwrap();
    let (id, failing) = (command.id, execution.clone());
    let error = store.write(move |tx| end(tx, &failing, id)).await.unwrap_err();
    assert!(error.to_string().contains("broken"), "{error}");
    let (state, status) = stands(&store, id, execution.id).await;
    assert_eq!((state, status.as_str()), (State::Running, "running"), "the run is over and nobody will be told");

    store.write(|tx| Ok(tx.execute_batch("DROP TRIGGER broken")?)).await.unwrap();
    let working = execution.clone();
    store.write(move |tx| end(tx, &working, id)).await.unwrap();
    let (state, status) = stands(&store, id, execution.id).await;
    assert_eq!((state, status.as_str()), (State::Finished, "completed"));
    let items = store.read(|connection| Ok(outbox::due(connection, 5_000, 10)?)).await.unwrap();
    assert_eq!(items[0].destination, format!("{HUB}/external-assistants/graph-relays/commands/{id}/complete"));
    assert_eq!(serde_json::from_slice::<Completion>(&items[0].body).unwrap(), completion(&execution));
}

async fn stands(store: &Store, id: CommandId, execution: ExecutionId) -> (State, String) {
    store
        .read(move |connection| {
            let state = get(connection, id)?.unwrap().state;
            Ok((state, executions::get(connection, execution)?.unwrap().status))
        })
        .await
        .unwrap()
}

#[tokio::test]
async fn a_report_is_stored_even_where_the_caps_have_shrunk_meanwhile() {
    let store = Store::in_memory(outbox::Policy { max_rows: 0, max_bytes: 0, ..policy() }).unwrap();
    store
        .write(|tx| {
            let (command, execution) = running(tx)?;
            finish(tx, HUB, command.id, crate::command::Event::Ended, &completion(&execution), 1)?;
            assert_eq!(outbox::stats(tx)?.waiting, 1);
            Ok(())
        })
        .await
        .unwrap();
}

#[tokio::test]
async fn a_command_cannot_be_started_or_finished_twice() {
    let store = memory();
    let (command, execution) = store.write(running).await.unwrap();
    let (id, again) = (command.id, NewExecution { id: ExecutionId::new(), ..execution.clone() });
    let error = store.write(move |tx| commands::start(tx, &origin(), id, &again, 1)).await.unwrap_err();
    assert!(matches!(error, StoreError::Illegal(_)), "{error}");
    assert_eq!((count(&store, "executions").await, count(&store, "bindings").await), (1, 1));

    let end = move |tx: &Transaction<'_>| finish(tx, HUB, id, crate::command::Event::Ended, &completion(&execution), 1);
    store.write(end.clone()).await.unwrap();
    assert!(matches!(store.write(end).await, Err(StoreError::Illegal(_))));
    assert_eq!(count(&store, "outbox_items").await, 1);
}

#[tokio::test]
async fn what_was_running_when_the_daemon_stopped_is_settled_with_its_report_once() {
    let store = memory();
    store
        .write(|tx| {
            let (cut, execution) = running(tx)?;
            let (waiting, _) = received(tx)?;
            assert_eq!(settle_cut_off(tx, 9_000)?, 1);
            assert_eq!(settle_cut_off(tx, 9_001)?, 0);
            assert_eq!(get(tx, cut.id)?.unwrap().state, State::Finished);
            assert_eq!(get(tx, waiting.id)?.unwrap().state, State::Received, "it had not begun, so it still may");

            let run = executions::get(tx, execution.id)?.unwrap();
            assert_eq!((run.status.as_str(), run.finished_at_ms), ("failed", Some(9_000)));
            assert_eq!(run.error.unwrap().message, DAEMON_STOPPED);
            let items = outbox::due(tx, 9_000, 10)?;
            assert_eq!(items.len(), 1);
            let report: Value = serde_json::from_slice(&items[0].body).unwrap();
            let expected = json!({"execution_id": execution.id, "status": "failed", "message": DAEMON_STOPPED});
            assert_eq!(report, expected);
            Ok(())
        })
        .await
        .unwrap();
}
