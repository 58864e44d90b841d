//! A disk without room: what is there stays, what cannot be stored is refused whole.

use super::*;
use crate::command::{Event, State};
use fleet::{Outcome, Status, Usage};
use protocol::{Completion, CompletionStatus};

/// Lets the database grow by so many pages from now on.
async fn allow_pages(store: &Store, pages: i64) {
    store
        .read(move |connection| {
            let now: i64 = connection.pragma_query_value(None, "page_count", |row| row.get(0))?;
            Ok(connection.pragma_update(None, "max_page_count", now + pages)?)
        })
        .await
        .unwrap();
}

fn is_full(error: &StoreError) -> bool {
    error.to_string().contains("full")
}

/// However little room is left, the end of a run is stored with its report or not at all.
#[tokio::test]
async fn the_end_of_a_run_is_refused_whole_at_every_number_of_free_pages() {
    let mut refused = 0;
    for pages in 0..80 {
        let store = memory();
        let (command, execution) = store.write(running).await.unwrap();
        allow_pages(&store, pages).await;
        let (id, run) = (command.id, execution.id);
        let end = move |tx: &Transaction<'_>| {
            let result = Some(json!("x".repeat(90_000)));
            let outcome =
                Outcome { status: Status::Completed, result: result.clone(), error: None, usage: Usage::default() };
            executions::finish(tx, run, &outcome, 5_000)?;
            let report = Completion { result, ..Completion::without_run(CompletionStatus::Completed, "") };
            commands::finish(tx, HUB, id, Event::Ended, &report, 5_000)
        };
        let stored = store.write(end).await;
        if let Err(error) = &stored {
            refused += 1;
            assert!(is_full(error), "{error}");
            let (state, reports) = stands(&store, id).await;
            assert_eq!((state, reports), (State::Running, 0), "{pages} pages");
            allow_pages(&store, 1_000_000).await;
            store.write(end).await.unwrap();
        }
        assert_eq!(stands(&store, id).await, (State::Finished, 1), "{pages} pages");
    }
    assert!((1..80).contains(&refused), "refused {refused} times: the edge was not met");
}

async fn stands(store: &Store, id: CommandId) -> (State, u32) {
    store
        .read(move |connection| Ok((commands::get(connection, id)?.unwrap().state, outbox::stats(connection)?.waiting)))
        .await
        .unwrap()
}

#[tokio::test]
async fn commands_of_one_sync_are_stored_together_or_not_at_all() {
    let store = memory();
    let graph = store.write(|tx| save(tx, "digest", "return 1")).await.unwrap();
    allow_pages(&store, 3).await;
    let entries: Vec<_> = (0..40)
        .map(|_| {
            let mut entry = entry(CommandId::new(), &graph);
            entry["arguments"] = json!({"text": "x".repeat(2_000)});
            entry
        })
        .collect();
    let again = entries.clone();
    let receive = |entries: Vec<Value>| {
        move |tx: &Transaction<'_>| commands::receive(tx, &origin(), &entries, &outbox::Policy::default(), 1)
    };
    assert!(is_full(&store.write(receive(entries)).await.unwrap_err()));
    assert_eq!(count(&store, "commands").await, 0);
    allow_pages(&store, 1_000_000).await;
    assert_eq!(store.write(receive(again)).await.unwrap().new, 40);
}
