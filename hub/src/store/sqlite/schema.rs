//! The tables, their versions, and how an older file becomes a current one.
//!
//! A file of a later version is refused and left untouched. An older one is first copied to `NAME.vN.bak`, then
//! migrated in one transaction: after a crash it is either as it was or current.

use std::path::Path;

use rusqlite::{Connection, TransactionBehavior};

use super::pool::prepare;
use crate::store::StoreError;

/// One step per version; the first makes version 1. A step that was released never changes.
const MIGRATIONS: &[&str] = &[V1];

const V1: &str = "
CREATE TABLE users (
    name TEXT PRIMARY KEY NOT NULL,
    created_at INTEGER NOT NULL
);
CREATE TABLE projects (
    id TEXT PRIMARY KEY NOT NULL,
    name TEXT NOT NULL,
    created_at INTEGER NOT NULL
);
CREATE TABLE members (
    project_id TEXT NOT NULL REFERENCES projects (id),
    user_name TEXT NOT NULL REFERENCES users (name),
    PRIMARY KEY (project_id, user_name)
);
CREATE TABLE connections (
    id TEXT PRIMARY KEY NOT NULL,
    name TEXT NOT NULL,
    owner TEXT NOT NULL REFERENCES users (name),
    token_hash TEXT NOT NULL UNIQUE,
    scopes TEXT NOT NULL,
    created_at INTEGER NOT NULL,
    revoked_at INTEGER
);
CREATE TABLE grants (
    connection_id TEXT NOT NULL REFERENCES connections (id),
    project_id TEXT NOT NULL REFERENCES projects (id),
    actions TEXT NOT NULL,
    PRIMARY KEY (connection_id, project_id)
);
CREATE TABLE devices (
    id TEXT PRIMARY KEY NOT NULL,
    name TEXT NOT NULL,
    owner TEXT NOT NULL REFERENCES users (name),
    token_hash TEXT NOT NULL UNIQUE,
    created_at INTEGER NOT NULL,
    revoked_at INTEGER,
    last_seen_at INTEGER,
    online_since INTEGER
);
-- Whose desktop a session id belongs to, so that another member cannot claim it.
CREATE TABLE graph_sessions (
    id TEXT PRIMARY KEY NOT NULL,
    device_id TEXT NOT NULL REFERENCES devices (id)
);
-- What the last sync of each desktop and project brought; the digest tells whether the next one brings news.
CREATE TABLE syncs (
    device_id TEXT NOT NULL REFERENCES devices (id),
    project_id TEXT NOT NULL REFERENCES projects (id),
    digest TEXT NOT NULL,
    changed_at INTEGER NOT NULL,
    PRIMARY KEY (device_id, project_id)
);
CREATE TABLE shares (
    graph_session_id TEXT NOT NULL REFERENCES graph_sessions (id),
    project_id TEXT NOT NULL REFERENCES projects (id),
    device_id TEXT NOT NULL REFERENCES devices (id),
    position INTEGER NOT NULL,
    metadata TEXT NOT NULL,
    PRIMARY KEY (graph_session_id, project_id)
);
CREATE INDEX shares_by_project ON shares (project_id, device_id, position);
CREATE INDEX shares_by_device ON shares (device_id, project_id);
-- seq gives the order of asking: two commands may be queued in the same millisecond.
CREATE TABLE commands (
    seq INTEGER PRIMARY KEY AUTOINCREMENT,
    id TEXT NOT NULL UNIQUE,
    connection_id TEXT NOT NULL REFERENCES connections (id),
    idempotency_key TEXT NOT NULL,
    project_id TEXT NOT NULL REFERENCES projects (id),
    device_id TEXT NOT NULL REFERENCES devices (id),
    graph_session_id TEXT NOT NULL,
    slug TEXT NOT NULL,
    arguments TEXT NOT NULL,
    status TEXT NOT NULL,
    attempt INTEGER NOT NULL DEFAULT 0,
    cancel_requested INTEGER NOT NULL DEFAULT 0,
    queued_at INTEGER NOT NULL,
    started_at INTEGER,
    finished_at INTEGER,
    lease_until INTEGER,
    progress TEXT NOT NULL DEFAULT '{}',
    completion TEXT,
    UNIQUE (connection_id, idempotency_key)
);
-- Only the open commands: those are looked for at each sync, and they are few however long the history. Written
-- with OR: SQLite uses a partial index for a query that names one of the terms, and sees no terms in an IN.
CREATE INDEX commands_open ON commands (device_id, status, project_id, seq) WHERE status = 'queued' OR status = 'running';
CREATE INDEX commands_overdue ON commands (status, queued_at) WHERE status = 'queued' OR status = 'running';
CREATE INDEX commands_of_connection ON commands (connection_id, status) WHERE status = 'queued' OR status = 'running';
";

/// Opens the writing connection and brings the file to the current version.
pub(super) fn open(path: &Path, in_memory: bool) -> Result<Connection, StoreError> {
    if !in_memory {
        make_private(path)?;
    }
    let mut connection = Connection::open(path)?;
    prepare(&connection)?;
    let version = version(&connection)?;
    let current = MIGRATIONS.len() as i64;
    if version > current {
        return Err(StoreError::Newer { path: path.to_owned(), found: version, known: current });
    }
    if !in_memory {
        connection.pragma_update(None, "journal_mode", "wal")?;
        connection.pragma_update(None, "synchronous", "full")?;
    }
    if version < current {
        if version > 0 && !in_memory {
            back_up(&connection, path, version)?;
        }
        migrate(&mut connection)?;
    }
    Ok(connection)
}

/// The file holds arguments and results: it is made for the hub's own account before SQLite writes to it. The files that
/// SQLite puts beside it get the same mode.
fn make_private(path: &Path) -> Result<(), StoreError> {
    let mut options = std::fs::OpenOptions::new();
    options.create(true).append(true);
    #[cfg(unix)]
    {
        use std::os::unix::fs::OpenOptionsExt;
        options.mode(0o600);
    }
    options.open(path).map(drop).map_err(|source| StoreError::Database(Box::new(source)))
}

fn version(connection: &Connection) -> Result<i64, rusqlite::Error> {
    connection.query_row("PRAGMA user_version", [], |row| row.get(0))
}

/// A whole, consistent copy beside the file. One that is there already is of the same version and is kept: it was
/// made before an earlier, failed attempt.
fn back_up(connection: &Connection, path: &Path, version: i64) -> Result<(), StoreError> {
    let mut name = path.as_os_str().to_owned();
    name.push(format!(".v{version}.bak"));
    let copy = Path::new(&name);
    if !copy.exists() {
        make_private(copy)?;
        let copy = copy.to_str().ok_or_else(|| StoreError::Unsupported("the path is not UTF-8".to_owned()))?;
        connection.execute("VACUUM INTO $1", [copy])?;
    }
    Ok(())
}

fn migrate(connection: &mut Connection) -> Result<(), StoreError> {
    let transaction = connection.transaction_with_behavior(TransactionBehavior::Immediate)?;
    // Read again, now that nobody else can write: another process may have migrated in the meantime.
    let done = usize::try_from(version(&transaction)?).unwrap_or(0);
    for step in MIGRATIONS.iter().skip(done) {
        transaction.execute_batch(step)?;
    }
    transaction.pragma_update(None, "user_version", MIGRATIONS.len() as i64)?;
    transaction.commit()?;
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_of_a_later_version_is_refused_and_left_untouched() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("hub.db");
        drop(open(&path, false).unwrap());
        Connection::open(&path).unwrap().pragma_update(None, "user_version", 99).unwrap();
        let before = std::fs::read(&path).unwrap();
        let error = open(&path, false).unwrap_err().to_string();
        assert!(error.contains("schema version 99, this program knows up to 1"), "{error}");
        assert_eq!(std::fs::read(&path).unwrap(), before);
    }

    #[cfg(unix)]
    #[test]
    fn nobody_else_can_read_the_database_its_log_or_its_backup() {
        use std::os::unix::fs::PermissionsExt;
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("hub.db");
        let connection = open(&path, false).unwrap();
        connection.execute("INSERT INTO users VALUES ('ada', 1)", []).unwrap();
        back_up(&connection, &path, 1).unwrap();
        for file in ["hub.db", "hub.db-wal", "hub.db-shm", "hub.db.v1.bak"] {
            let mode = std::fs::metadata(folder.path().join(file)).unwrap().permissions().mode();
            assert_eq!(mode & 0o777, 0o600, "{file}");
        }
    }

    #[test]
    fn opening_twice_keeps_the_data() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("hub.db");
        open(&path, false).unwrap().execute("INSERT INTO users VALUES ('ada', 1)", []).unwrap();
        let users: i64 =
            open(&path, false).unwrap().query_row("SELECT count(*) FROM users", [], |row| row.get(0)).unwrap();
        assert_eq!(users, 1);
    }

    #[test]
    fn a_backup_is_whole_and_is_not_overwritten_by_a_second_attempt() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("hub.db");
        let connection = open(&path, false).unwrap();
        connection.execute("INSERT INTO users VALUES ('ada', 1)", []).unwrap();
        back_up(&connection, &path, 1).unwrap();
        connection.execute("DELETE FROM users", []).unwrap();
        back_up(&connection, &path, 1).unwrap();
        let copy = Connection::open(folder.path().join("hub.db.v1.bak")).unwrap();
        let users: i64 = copy.query_row("SELECT count(*) FROM users", [], |row| row.get(0)).unwrap();
        assert_eq!(users, 1);
    }

    #[test]
    fn the_frequent_queries_do_not_read_the_history() {
        use super::super::{commands, syncs};
        let connection = open(Path::new(":memory:"), true).unwrap();
        let frequent = [
            commands::WAITING,
            commands::AHEAD,
            commands::WAITED,
            commands::UNSPOKEN,
            syncs::RUNNING,
            syncs::QUEUED,
            syncs::WORK,
        ];
        for sql in frequent {
            let mut statement = connection.prepare(&format!("EXPLAIN QUERY PLAN {sql}")).unwrap();
            let parameters = vec!["x"; statement.parameter_count()];
            let plan = statement.query_map(rusqlite::params_from_iter(parameters), |row| row.get(3)).unwrap();
            let plan: Vec<String> = plan.map(Result::unwrap).collect();
            let searched = plan.iter().any(|step| step.contains("USING INDEX commands_") || step.contains("COVERING"));
            assert!(searched && !plan.iter().any(|step| step.starts_with("SCAN")), "{sql}: {plan:?}");
        }
    }
}
