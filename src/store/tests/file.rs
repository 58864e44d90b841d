//! The file itself: its version, its lock, who may read it.

use std::fs;
use std::path::PathBuf;

use super::schema::{STEPS, Step, migrate};
use super::*;
use rusqlite::Connection;
use tempfile::TempDir;

struct Folder(TempDir);

impl Folder {
    fn new() -> Self {
        Self(tempfile::tempdir().unwrap())
    }

    fn database(&self) -> PathBuf {
        self.0.path().join("relay.db")
    }

    fn open(&self, holder: &str) -> Result<Store, StoreError> {
        Store::open(&self.database(), holder, Duration::ZERO, outbox::Policy::default())
    }

    fn backup(&self, version: usize) -> PathBuf {
        self.0.path().join(format!("relay.db.v{version}.bak"))
    }

    /// An old database with one row that its owner would miss.
    fn with_version_1(&self) -> Connection {
        let mut connection = Connection::open(self.database()).unwrap();
        connection.pragma_update(None, "journal_mode", "WAL").unwrap();
        migrate(&mut connection, Some(&self.database()), &[first]).unwrap();
        connection.execute("INSERT INTO notes (text) VALUES ('precious')", []).unwrap();
        connection
    }
}

fn first(tx: &Transaction<'_>) -> Result<(), StoreError> {
    Ok(tx.execute_batch("CREATE TABLE notes (text TEXT)")?)
}

fn second(tx: &Transaction<'_>) -> Result<(), StoreError> {
    Ok(tx.execute_batch("ALTER TABLE notes ADD COLUMN read INTEGER NOT NULL DEFAULT 0; UPDATE notes SET read = 1")?)
}

fn failing(tx: &Transaction<'_>) -> Result<(), StoreError> {
    tx.execute("DELETE FROM notes", [])?;
    Err(StoreError::corrupt("something unforeseen"))
}

fn version(connection: &Connection) -> u32 {
    connection.pragma_query_value(None, "user_version", |row| row.get(0)).unwrap()
}

fn columns(connection: &Connection) -> u32 {
    connection.query_row("SELECT count(*) FROM pragma_table_info('notes')", [], |row| row.get(0)).unwrap()
}

fn text(connection: &Connection) -> String {
    connection.query_row("SELECT text FROM notes", [], |row| row.get(0)).unwrap()
}

#[tokio::test]
async fn what_was_stored_is_there_after_the_process_ended() {
    let folder = Folder::new();
    let store = folder.open("the daemon").unwrap();
    let id = store.device_id().await.unwrap();
    drop(store);
    assert_eq!(folder.open("the daemon").unwrap().device_id().await.unwrap(), id);
}

#[test]
fn a_newer_file_is_refused_and_stays_as_it_is_byte_for_byte() {
    let folder = Folder::new();
    drop(folder.open("the daemon").unwrap());
    let newer = Connection::open(folder.database()).unwrap();
    newer.pragma_update(None, "user_version", STEPS.len() as u32 + 1).unwrap();
    newer.execute_batch("CREATE TABLE hoverboards (id)").unwrap();
    // Still open: the version that matters is in the write-ahead log only, as after a crash.
    let wal = folder.0.path().join("relay.db-wal");
    let before = (fs::read(folder.database()).unwrap(), fs::read(&wal).unwrap());
    assert!(!before.1.is_empty());

    let error = folder.open("the daemon").err().unwrap();
    assert!(matches!(error, StoreError::Newer { found, known, .. } if found == known + 1), "{error}");
    assert!(error.to_string().contains("written by a newer graph-relay"), "{error}");
    assert_eq!((fs::read(folder.database()).unwrap(), fs::read(&wal).unwrap()), before);
    drop(newer);
    assert!(folder.open("the daemon").is_err(), "the second try went through");
}

#[test]
fn a_file_that_is_no_database_is_refused_and_stays_as_it_is() {
    let folder = Folder::new();
    fs::write(folder.database(), "Dear diary, ".repeat(100)).unwrap();
    let before = fs::read(folder.database()).unwrap();
    assert!(matches!(folder.open("the daemon").err().unwrap(), StoreError::Sqlite(_)));
    assert_eq!(fs::read(folder.database()).unwrap(), before);
}

#[test]
fn an_older_file_is_copied_and_then_taken_through_the_missing_steps() {
    let folder = Folder::new();
    let mut connection = folder.with_version_1();
    migrate(&mut connection, Some(&folder.database()), &[first, second]).unwrap();
    assert_eq!((version(&connection), columns(&connection), text(&connection).as_str()), (2, 2, "precious"));

    let copy = Connection::open(folder.backup(1)).unwrap();
    assert_eq!((version(&copy), columns(&copy), text(&copy).as_str()), (1, 1, "precious"));
}

#[test]
fn a_step_that_fails_takes_all_steps_back_and_leaves_the_copy() {
    let folder = Folder::new();
    let mut connection = folder.with_version_1();
    let steps: [Step; 3] = [first, second, failing];
    for _ in 0..2 {
        let error = migrate(&mut connection, Some(&folder.database()), &steps).unwrap_err();
        assert!(error.to_string().contains("something unforeseen"), "{error}");
        assert_eq!((version(&connection), columns(&connection), text(&connection).as_str()), (1, 1, "precious"));
        assert_eq!(text(&Connection::open(folder.backup(1)).unwrap()), "precious");
    }
    migrate(&mut connection, Some(&folder.database()), &[first, second]).unwrap();
    assert_eq!((version(&connection), text(&connection).as_str()), (2, "precious"));
}

#[test]
fn a_copy_that_was_cut_short_does_not_pass_for_a_backup() {
    let folder = Folder::new();
    let mut connection = folder.with_version_1();
    fs::write(folder.0.path().join("relay.db.v1.bak.part"), "SQLite form").unwrap();
    migrate(&mut connection, Some(&folder.database()), &[first, second]).unwrap();
    assert_eq!(text(&Connection::open(folder.backup(1)).unwrap()), "precious");
    assert!(!folder.0.path().join("relay.db.v1.bak.part").exists());
}

#[test]
fn a_file_that_is_up_to_date_is_neither_copied_nor_changed() {
    let folder = Folder::new();
    let mut connection = folder.with_version_1();
    migrate(&mut connection, Some(&folder.database()), &[first]).unwrap();
    assert!(!folder.backup(1).exists());
}

#[test]
fn a_second_process_is_told_who_holds_the_database_and_gets_it_after_that_one() {
    let folder = Folder::new();
    let daemon = folder.open("the daemon").unwrap();
    let error = folder.open("a command").err().unwrap();
    let expected = format!("is in use by the daemon, process {}", std::process::id());
    assert!(matches!(error, StoreError::Locked { .. }) && error.to_string().ends_with(&expected), "{error}");

    drop(daemon);
    let command = folder.open("a command").unwrap();
    let error = folder.open("the daemon").err().unwrap();
    assert!(error.to_string().contains("in use by a command"), "the note of the last holder stayed: {error}");
    drop(command);
}

#[test]
fn a_note_that_is_missing_or_odd_is_no_reason_to_let_a_second_process_in() {
    let folder = Folder::new();
    let _daemon = folder.open("the daemon").unwrap();
    fs::write(folder.0.path().join("relay.holder"), [0xff, 0xfe]).unwrap();
    assert!(folder.open("a command").err().unwrap().to_string().ends_with("in use by another process"));
    fs::remove_file(folder.0.path().join("relay.holder")).unwrap();
    assert!(folder.open("a command").err().unwrap().to_string().ends_with("in use by another process"));
}

#[cfg(unix)]
#[tokio::test]
async fn nobody_else_can_read_the_database_its_log_or_its_backup() {
    use std::os::unix::fs::PermissionsExt;
    let folder = Folder::new();
    let store = folder.open("the daemon").unwrap();
    store.device_id().await.unwrap();
    let old = Folder::new();
    let mut connection = old.with_version_1();
    migrate(&mut connection, Some(&old.database()), &[first, second]).unwrap();
    let mut files: Vec<_> = ["relay.db", "relay.db-wal"].map(|name| folder.0.path().join(name)).into();
    files.push(old.backup(1));
    for file in files {
        let mode = fs::metadata(&file).unwrap().permissions().mode();
        assert_eq!(mode & 0o777, 0o600, "{}", file.display());
    }
}

#[tokio::test]
async fn a_panic_in_one_transaction_takes_it_back_and_spares_the_next() {
    let store = memory();
    let result: Result<(), _> = store
        .write(|tx| {
            save(tx, "digest", "return 1")?;
            panic!("a bug");
        })
        .await;
    assert!(matches!(result, Err(StoreError::Interrupted)));
    assert_eq!(count(&store, "graphs").await, 0);
    store.write(|tx| save(tx, "digest", "return 1")).await.unwrap();
}

/// Someone tidies up the folder while the daemon runs.
#[tokio::test]
async fn a_deleted_lock_does_not_let_a_second_process_in() {
    let folder = Folder::new();
    let store = folder.open("the daemon").unwrap();
    for file in ["relay.lock", "relay.holder"] {
        fs::remove_file(folder.0.path().join(file)).unwrap();
    }
    let error = folder.open("another daemon").err().unwrap();
    assert!(matches!(error, StoreError::Locked { .. }), "{error}");
    let reader = Connection::open(folder.database()).unwrap();
    reader.busy_timeout(Duration::ZERO).unwrap();
    assert!(reader.query_row("SELECT count(*) FROM commands", [], |row| row.get::<_, u32>(0)).is_err());
    let id = store.device_id().await.unwrap();
    drop(store);
    assert_eq!(folder.open("another daemon").unwrap().device_id().await.unwrap(), id);
}

#[tokio::test]
async fn after_a_crash_the_log_alone_brings_everything_back() {
    let (folder, after) = (Folder::new(), Folder::new());
    let store = folder.open("the daemon").unwrap();
    let id = store.device_id().await.unwrap();
    assert!(!folder.0.path().join("relay.db-shm").exists());
    for file in ["relay.db", "relay.db-wal"] {
        fs::copy(folder.0.path().join(file), after.0.path().join(file)).unwrap();
    }
    assert_eq!(after.open("the next daemon").unwrap().device_id().await.unwrap(), id);
}
