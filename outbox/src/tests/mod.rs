//! The outbox against real SQLite files.

mod caps;
mod crash;
mod model;

use std::time::Duration;

use rusqlite::Connection;
use tempfile::TempDir;

use crate::*;

const HUB: &str = "https://hub.example/";

/// A database as the desktop opens it, in a folder of its own.
struct File {
    folder: TempDir,
    conn: Connection,
}

impl File {
    fn new() -> Self {
        let folder = tempfile::tempdir().unwrap();
        let conn = open(&folder);
        Self { folder, conn }
    }

    fn reopen(&mut self) {
        self.conn = open(&self.folder);
    }

    /// Enqueues for [`HUB`] in a transaction, as the caller does.
    fn put(&mut self, key: &str, now_ms: i64) -> Enqueued {
        let tx = self.conn.transaction().unwrap();
        let item = NewItem { key, destination: HUB, body: key.as_bytes() };
        let enqueued = enqueue(&tx, &item, &Policy::default(), now_ms).unwrap();
        tx.commit().unwrap();
        enqueued
    }

    fn fail(&self, id: i64, retry_after: Option<Duration>, now_ms: i64) -> Failed {
        fail(&self.conn, id, "503", retry_after, &Policy::default(), 1.0, now_ms).unwrap()
    }

    fn due_keys(&self, now_ms: i64) -> Vec<String> {
        due(&self.conn, now_ms, 100).unwrap().into_iter().map(|item| item.key).collect()
    }

    fn id(&self, key: &str) -> i64 {
        self.conn.query_one("SELECT id FROM outbox_items WHERE key = ?1", [key], |row| row.get(0)).unwrap()
    }
}

fn open(folder: &TempDir) -> Connection {
    let mut conn = Connection::open(folder.path().join("desktop.db")).unwrap();
    conn.execute_batch("PRAGMA journal_mode = WAL; PRAGMA synchronous = FULL;").unwrap();
    let tx = conn.transaction().unwrap();
    migrate(&tx).unwrap();
    tx.commit().unwrap();
    conn
}

#[test]
fn items_go_out_in_the_order_in_which_they_were_enqueued_even_at_equal_times_and_after_the_clock_went_back() {
    let mut file = File::new();
    for (key, now_ms) in [("z", 500), ("a", 500), ("m", 500), ("earlier by the clock", 100)] {
        file.put(key, now_ms);
    }
    assert_eq!(file.due_keys(500), ["z", "a", "m", "earlier by the clock"]);
}

#[test]
fn the_same_key_again_changes_nothing() {
    let mut file = File::new();
    assert_eq!(file.put("k", 1), Enqueued::Stored);
    let before = due(&file.conn, 9, 1).unwrap();
    let other = NewItem { key: "k", destination: "elsewhere", body: b"other" };
    assert_eq!(enqueue(&file.conn, &other, &Policy::default(), 9).unwrap(), Enqueued::AlreadyThere);
    assert_eq!(due(&file.conn, 9, 9).unwrap(), before);
}

#[test]
fn a_second_acknowledgement_is_harmless_and_hits_no_later_item() {
    let mut file = File::new();
    file.put("first", 1);
    let id = file.id("first");
    assert!(acknowledge(&file.conn, id).unwrap());
    file.put("second", 2);
    assert!(!acknowledge(&file.conn, id).unwrap());
    assert_eq!(file.fail(id, None, 3), Failed::Gone);
    assert!(!refuse(&file.conn, id, "404", 3).unwrap());
    assert_eq!(file.due_keys(2), ["second"]);
}

#[test]
fn the_first_retry_is_the_next_cycle_and_later_ones_back_off() {
    let mut file = File::new();
    file.put("k", 0);
    let id = file.id("k");
    assert_eq!(file.fail(id, None, 1_000), Failed::Retry { next_try_ms: 1_000 });
    assert_eq!(file.fail(id, None, 20_000), Failed::Retry { next_try_ms: 40_000 });
    assert_eq!(file.due_keys(39_999), [""; 0]);
    assert_eq!(file.due_keys(40_000), ["k"]);
    assert_eq!(due(&file.conn, 40_000, 1).unwrap()[0].attempts, 2);
}

#[test]
fn an_item_that_keeps_failing_blocks_no_other() {
    let mut file = File::new();
    for key in ["poison 1", "poison 2", "good"] {
        file.put(key, 0);
    }
    // A cycle with a page as small as the poison, while every wait is cut short all the time.
    for now_ms in 1..5 {
        let (mut offered, mut last) = (Vec::new(), 0);
        while let Some(item) = due_after(&file.conn, now_ms, last, 1).unwrap().pop() {
            last = item.id;
            if item.key.starts_with("poison") {
                file.fail(item.id, None, now_ms);
            }
            offered.push(item.key);
        }
        assert_eq!(offered, ["poison 1", "poison 2", "good"]);
        make_all_due(&file.conn, HUB, now_ms).unwrap();
    }
}

#[test]
fn a_hub_that_answers_ends_the_waits_of_its_own_items_only() {
    let mut file = File::new();
    let conn = &mut file.conn;
    for destination in ["https://hub/a", "https://hub/b_c", "https://hub2/a"] {
        enqueue(conn, &NewItem { key: destination, destination, body: b"" }, &Policy::default(), 0).unwrap();
    }
    for (id, _) in (1..=3).flat_map(|id| [(id, 1), (id, 2)]) {
        file.fail(id, None, 0);
    }
    assert_eq!(make_all_due(&file.conn, "https://hub/", 5).unwrap(), 2);
    assert_eq!(file.due_keys(5), ["https://hub/a", "https://hub/b_c"]);
    // No wildcards, and nothing for an item that is due.
    assert_eq!(make_all_due(&file.conn, "https://hub/%", 5).unwrap(), 0);
    assert_eq!(make_all_due(&file.conn, "", 5).unwrap(), 1);
}

#[test]
fn retry_after_is_a_minimum_that_nothing_shortens() {
    let mut file = File::new();
    file.put("k", 0);
    let id = file.id("k");
    assert_eq!(file.fail(id, Some(Duration::from_secs(60)), 0), Failed::Retry { next_try_ms: 60_000 });
    assert_eq!(make_all_due(&file.conn, HUB, 10_000).unwrap(), 0);
    assert_eq!(file.due_keys(59_999), [""; 0]);
    assert_eq!(file.due_keys(60_000), ["k"]);
    // Where the backoff is longer than Retry-After, an answer cuts it down to that.
    for _ in 0..4 {
        file.fail(id, Some(Duration::from_secs(60)), 100_000);
    }
    assert_eq!(make_all_due(&file.conn, HUB, 110_000).unwrap(), 1);
    assert_eq!(file.due_keys(159_999), [""; 0]);
    assert_eq!(file.due_keys(160_000), ["k"]);
}

#[test]
fn a_clock_that_was_wrong_for_a_while_delays_no_report() {
    let year_ms = 365 * 24 * 3600 * 1000;
    let mut file = File::new();
    file.put("enqueued next year", year_ms);
    file.put("failed next year", 0);
    for _ in 0..3 {
        file.fail(2, Some(Duration::from_secs(3600)), year_ms);
    }
    assert_eq!(file.due_keys(1), ["enqueued next year", "failed next year"]);
    make_all_due(&file.conn, HUB, 1).unwrap();
    assert_eq!(file.due_keys(1).len(), 2);
    assert_eq!(expire(&file.conn, &Policy::default(), 1).unwrap(), 0);
}

#[test]
fn a_refused_item_is_kept_until_its_owner_retries_or_drops_it() {
    let mut file = File::new();
    file.put("k", 0);
    file.put("other", 0);
    let id = file.id("k");
    assert!(refuse(&file.conn, id, "404 no such command", 7).unwrap());
    assert!(!refuse(&file.conn, id, "again", 8).unwrap());
    assert_eq!(file.due_keys(9), ["other"]);
    let dead = dead_letters(&file.conn).unwrap();
    assert_eq!(dead[0].death, Some(Death { at_ms: 7, cause: DeathCause::Refused }));
    assert_eq!(dead[0].last_error.as_deref(), Some("404 no such command"));

    assert!(retry_dead(&file.conn, id, 10).unwrap());
    assert_eq!(file.due_keys(10), ["k", "other"]);
    assert!(!retry_dead(&file.conn, id, 10).unwrap(), "it is no dead letter now");
    assert!(!drop_dead(&file.conn, id).unwrap(), "what still waits cannot be dropped");

    refuse(&file.conn, id, "410", 11).unwrap();
    assert!(drop_dead(&file.conn, id).unwrap());
    assert_eq!(dead_letters(&file.conn).unwrap(), []);
}

#[test]
fn a_report_taken_while_it_became_a_dead_letter_is_gone() {
    let mut file = File::new();
    file.put("k", 0);
    refuse(&file.conn, 1, "expired meanwhile", 1).unwrap();
    assert!(acknowledge(&file.conn, 1).unwrap());
    assert_eq!(stats(&file.conn).unwrap(), Stats::default());
}

#[test]
fn a_failures_text_is_cut_between_characters() {
    let mut file = File::new();
    file.put("k", 0);
    let why = format!("x{}", "語".repeat(100_000));
    fail(&file.conn, 1, &why, None, &Policy::default(), 0.0, 0).unwrap();
    let kept = list(&file.conn).unwrap().remove(0).last_error.unwrap();
    assert!(kept.len() <= MAX_WHY_BYTES && kept.len() > MAX_WHY_BYTES - 4 && why.starts_with(&kept));
    refuse(&file.conn, 1, &why, 0).unwrap();
    assert_eq!(dead_letters(&file.conn).unwrap()[0].last_error.as_ref(), Some(&kept));
}
