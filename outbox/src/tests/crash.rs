//! What is there after the power went, the disk filled up, or another version of the program ran.

use std::fs;

use rusqlite::ErrorCode;

use super::*;

/// The database as a crash at this moment would leave it: its files copied while the connection is open.
fn after_a_crash(file: &File) -> File {
    let folder = tempfile::tempdir().unwrap();
    for entry in fs::read_dir(file.folder.path()).unwrap() {
        let entry = entry.unwrap();
        // The shared-memory index does not survive a crash of the machine.
        if !entry.file_name().to_string_lossy().ends_with("-shm") {
            fs::copy(entry.path(), folder.path().join(entry.file_name())).unwrap();
        }
    }
    let conn = open(&folder);
    File { folder, conn }
}

#[test]
fn a_crash_before_the_commit_leaves_nothing_and_one_after_it_leaves_the_item() {
    let mut file = File::new();
    file.conn.execute_batch("CREATE TABLE executions (id INTEGER PRIMARY KEY)").unwrap();
    file.conn.execute_batch("BEGIN; INSERT INTO executions VALUES (1)").unwrap();
    let item = NewItem { key: "report", destination: HUB, body: b"done" };
    enqueue(&file.conn, &item, &Policy::default(), 0).unwrap();

    let crashed = after_a_crash(&file);
    let finished =
        |file: &File| -> i64 { file.conn.query_one("SELECT count(*) FROM executions", [], |row| row.get(0)).unwrap() };
    assert_eq!((finished(&crashed), crashed.due_keys(0)), (0, vec![]));

    file.conn.execute_batch("COMMIT").unwrap();
    let crashed = after_a_crash(&file);
    assert_eq!((finished(&crashed), crashed.due_keys(0)), (1, vec!["report".to_owned()]));

    file.conn.execute_batch("BEGIN").unwrap();
    acknowledge(&file.conn, 1).unwrap();
    assert_eq!(after_a_crash(&file).due_keys(0), ["report"], "not acknowledged before the commit");
    file.reopen();
    assert_eq!(file.due_keys(0), ["report"]);
}

#[test]
fn a_full_disk_is_an_error_and_what_is_stored_stays_and_can_be_sent() {
    let mut file = File::new();
    let body = vec![7; 20_000];
    let put = |file: &mut File, key: &str| -> Result<()> {
        let tx = file.conn.transaction()?;
        enqueue(&tx, &NewItem { key, destination: HUB, body: &body }, &Policy::default(), 0)?;
        Ok(tx.commit()?)
    };
    let pages: u32 = file.conn.query_one("PRAGMA page_count", [], |row| row.get(0)).unwrap();
    file.conn.query_row(&format!("PRAGMA max_page_count = {}", pages + 20), [], |_| Ok(())).unwrap();

    let (stored, error) =
        (0..100).find_map(|n| put(&mut file, &n.to_string()).err().map(|error| (n, error))).expect("the pages run out");
    assert!(matches!(&error, Error::Sqlite(e) if e.sqlite_error_code() == Some(ErrorCode::DiskFull)), "{error}");
    assert!(stored > 0);

    let intact: String = file.conn.query_one("PRAGMA integrity_check", [], |row| row.get(0)).unwrap();
    assert_eq!(intact, "ok");
    let items = due(&file.conn, 0, 100).unwrap();
    assert_eq!(items.len(), stored);
    assert!(items.iter().all(|item| item.body == body));
    for item in &items {
        file.fail(item.id, None, 0);
    }
    assert!(acknowledge(&file.conn, items[0].id).unwrap());
    put(&mut file, "room again").unwrap();
}

#[test]
fn a_disk_that_fills_up_while_a_body_is_written_takes_the_callers_transaction_back() {
    let file = File::new();
    let pages: u32 = file.conn.query_one("PRAGMA page_count", [], |row| row.get(0)).unwrap();
    file.conn.query_row(&format!("PRAGMA max_page_count = {}", pages + 3), [], |_| Ok(())).unwrap();
    file.conn.execute_batch("BEGIN").unwrap();
    let item = NewItem { key: "k", destination: HUB, body: &[7; 100_000] };
    enqueue(&file.conn, &item, &Policy::default(), 0).unwrap_err();
    assert!(file.conn.is_autocommit());
    assert_eq!(stats(&file.conn).unwrap(), Stats::default());
}

#[test]
fn an_item_whose_body_could_not_be_written_is_not_committed_with_the_callers_other_rows() {
    let file = File::new();
    file.conn
        .execute_batch(
            "CREATE TEMP TRIGGER broken BEFORE INSERT ON outbox_bodies BEGIN SELECT RAISE(FAIL, 'broken'); END;
             CREATE TABLE executions (id INTEGER PRIMARY KEY);
             BEGIN; INSERT INTO executions VALUES (1);",
        )
        .unwrap();
    enqueue(&file.conn, &NewItem { key: "k", destination: HUB, body: b"" }, &Policy::default(), 0).unwrap_err();
    file.conn.execute_batch("COMMIT").unwrap();
    assert_eq!(stats(&file.conn).unwrap(), Stats::default());
}

#[test]
fn a_body_goes_with_its_item() {
    let mut file = File::new();
    let bodies = |file: &File| -> i64 {
        file.conn.query_one("SELECT count(*) FROM outbox_bodies", [], |row| row.get(0)).unwrap()
    };
    file.put("a", 0);
    file.put("b", 0);
    acknowledge(&file.conn, 1).unwrap();
    assert_eq!(bodies(&file), 1);
    refuse(&file.conn, 2, "404", 0).unwrap();
    drop_dead(&file.conn, 2).unwrap();
    assert_eq!(bodies(&file), 0);
}

#[test]
fn a_newer_file_is_refused_and_left_untouched() {
    let mut file = File::new();
    file.put("k", 0);
    file.conn.execute("UPDATE outbox_meta SET schema_version = 99", []).unwrap();
    let changes = file.conn.total_changes();
    let tx = file.conn.transaction().unwrap();
    let error = migrate(&tx).unwrap_err();
    assert!(matches!(error, Error::NewerSchema { found: 99, supported: SCHEMA_VERSION }));
    assert_eq!(error.to_string(), "the outbox has schema version 99, this program knows up to 1: use a newer one");
    tx.commit().unwrap();
    assert_eq!(file.conn.total_changes(), changes);
    assert_eq!(file.due_keys(0), ["k"]);
}

#[test]
fn a_migration_that_is_rolled_back_leaves_no_table() {
    let mut conn = Connection::open_in_memory().unwrap();
    migrate(&conn.transaction().unwrap()).unwrap();
    let tables: i64 = conn.query_one("SELECT count(*) FROM sqlite_schema", [], |row| row.get(0)).unwrap();
    assert_eq!(tables, 0);
}
