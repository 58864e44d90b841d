//! The desktop's database: one SQLite file, open under a lock for as long as the process lives.
//!
//! It owns everything that must outlive the process: saved Graphs, what is shared, commands, executions with
//! their history, and the outbox. What belongs together is written in one transaction (a run's end and its
//! report), so after a crash the file tells one consistent story.
//!
//! Each submodule is a set of functions over a connection; [`Store::write`] and [`Store::read`] bring them to
//! a thread where blocking is allowed. `spawn_blocking` and not a thread of our own: tokio's paused clock
//! waits for the former, and lets timers fire too early beside the latter.

pub mod commands;
pub mod executions;
pub mod graphs;
mod lock;
mod schema;
pub mod sharing;
#[cfg(test)]
mod tests;

use std::io;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use protocol::DeviceId;
use rusqlite::{Connection, ErrorCode, OptionalExtension, Transaction, TransactionBehavior};

use crate::command::Illegal;

/// The open database.
#[derive(Clone)]
pub struct Store {
    inner: Arc<Inner>,
}

struct Inner {
    connection: Mutex<Connection>,
    outbox: outbox::Policy,
    _lock: Option<lock::Lock>,
}

/// What can go wrong with the database.
#[derive(Debug, thiserror::Error)]
pub enum StoreError {
    /// Another process has it open.
    #[error("{} is in use by {holder}", .path.display())]
    Locked {
        /// The database.
        path: PathBuf,
        /// Who said to hold it.
        holder: String,
    },
    /// A newer version of the program has written it.
    #[error(
        "{} was written by a newer graph-relay (its format is {found}, this one knows {known}); \
         install that version again, nothing was changed", .path.display()
    )]
    Newer {
        /// The database.
        path: PathBuf,
        /// The file's format.
        found: usize,
        /// The newest format that this program knows.
        known: usize,
    },
    /// A file beside the database cannot be used.
    #[error("cannot use {}: {source}", .path.display())]
    File {
        /// Which file.
        path: PathBuf,
        /// What the system said.
        source: io::Error,
    },
    /// SQLite refused: a full disk, a damaged file.
    #[error("the database failed: {0}")]
    Sqlite(#[from] rusqlite::Error),
    /// The outbox refused.
    #[error("the outbox failed: {0}")]
    Outbox(#[from] outbox::Error),
    /// A row that this program did not write in this form.
    #[error("the database holds {what}, which makes no sense here")]
    Corrupt {
        /// What was found.
        what: String,
    },
    /// The table of command states has no such edge.
    #[error(transparent)]
    Illegal(#[from] Illegal),
    /// The thread that ran the query was lost.
    #[error("a database thread stopped")]
    Interrupted,
}

impl StoreError {
    fn corrupt(what: impl Into<String>) -> Self {
        Self::Corrupt { what: what.into() }
    }
}

impl Store {
    /// Opens the file, or makes it, and holds its lock until the last clone is gone.
    ///
    /// `holder` names this process to whoever finds the lock taken, `patience` is how long to wait for it. Blocks.
    ///
    /// # Errors
    /// [`StoreError::Locked`] and [`StoreError::Newer`], which leave the file untouched, and IO errors.
    pub fn open(path: &Path, holder: &str, patience: Duration, outbox: outbox::Policy) -> Result<Self, StoreError> {
        let lock = lock::acquire(path, holder, patience)?;
        let connection = Self::connect(path, patience).map_err(|error| match error {
            // The file of the lock was deleted or replaced under a living process; its database was not.
            StoreError::Sqlite(error) if error.sqlite_error_code() == Some(ErrorCode::DatabaseBusy) => {
                StoreError::Locked { path: path.to_owned(), holder: "another process".to_owned() }
            }
            error => error,
        })?;
        Ok(Self::with(connection, outbox, Some(lock)))
    }

    fn connect(path: &Path, patience: Duration) -> Result<Connection, StoreError> {
        schema::refuse_newer(path, schema::STEPS, patience)?;
        make_private(path)?;
        let mut connection = Connection::open(path)?;
        connection.busy_timeout(patience)?;
        // SQLite's own lock on the file, held for life: a second process is kept out by the database itself. It comes
        // before the first access, so that the write-ahead log needs no file of shared memory.
        connection.pragma_update(None, "locking_mode", "EXCLUSIVE")?;
        connection.pragma_update(None, "journal_mode", "WAL")?;
        connection.pragma_update(None, "synchronous", "FULL")?;
        prepare(&mut connection, Some(path))?;
        Ok(connection)
    }

    /// A database that lives as long as the process: for tests and experiments.
    ///
    /// # Errors
    /// [`StoreError::Sqlite`], if memory runs out.
    pub fn in_memory(outbox: outbox::Policy) -> Result<Self, StoreError> {
        let mut connection = Connection::open_in_memory()?;
        prepare(&mut connection, None)?;
        Ok(Self::with(connection, outbox, None))
    }

    fn with(connection: Connection, outbox: outbox::Policy, lock: Option<lock::Lock>) -> Self {
        Self { inner: Arc::new(Inner { connection: Mutex::new(connection), outbox, _lock: lock }) }
    }

    /// The caps of the outbox in this file.
    pub fn outbox_policy(&self) -> &outbox::Policy {
        &self.inner.outbox
    }

    /// Runs `work` in one transaction: all of it is stored, or nothing.
    ///
    /// # Errors
    /// What `work` returned, or that SQLite could not commit.
    pub async fn write<T, W>(&self, work: W) -> Result<T, StoreError>
    where
        T: Send + 'static,
        W: FnOnce(&Transaction<'_>) -> Result<T, StoreError> + Send + 'static,
    {
        self.with_connection(move |connection| {
            let tx = connection.transaction_with_behavior(TransactionBehavior::Immediate)?;
            let value = work(&tx)?;
            tx.commit()?;
            Ok(value)
        })
        .await
    }

    /// Runs `work` on one consistent view of the database.
    ///
    /// # Errors
    /// What `work` returned.
    pub async fn read<T, W>(&self, work: W) -> Result<T, StoreError>
    where
        T: Send + 'static,
        W: FnOnce(&Connection) -> Result<T, StoreError> + Send + 'static,
    {
        self.with_connection(move |connection| {
            let tx = connection.transaction()?;
            work(&tx)
        })
        .await
    }

    async fn with_connection<T, W>(&self, work: W) -> Result<T, StoreError>
    where
        T: Send + 'static,
        W: FnOnce(&mut Connection) -> Result<T, StoreError> + Send + 'static,
    {
        let inner = Arc::clone(&self.inner);
        let done = tokio::task::spawn_blocking(move || {
            // A panic inside a transaction rolled it back; the connection itself is as good as before.
            let mut connection = inner.connection.lock().unwrap_or_else(PoisonError::into_inner);
            work(&mut connection)
        });
        done.await.map_err(|_| StoreError::Interrupted)?
    }

    /// This desktop's id, made when it is first asked for.
    ///
    /// # Errors
    /// [`StoreError`].
    pub async fn device_id(&self) -> Result<DeviceId, StoreError> {
        self.write(|tx| {
            let fresh = format!("desktop-{}", uuid::Uuid::new_v4().simple());
            tx.execute("INSERT OR IGNORE INTO device (only_row, id) VALUES (1, ?1)", [fresh])?;
            let id: String = tx.query_row("SELECT id FROM device", [], |row| row.get(0))?;
            id.parse().map_err(|error| StoreError::corrupt(format!("a device id that is none ({error})")))
        })
        .await
    }
}

fn prepare(connection: &mut Connection, path: Option<&Path>) -> Result<(), StoreError> {
    connection.set_prepared_statement_cache_capacity(64);
    schema::migrate(connection, path, schema::STEPS)?;
    connection.pragma_update(None, "foreign_keys", true)?;
    Ok(())
}

/// The file holds scripts and results: it is made for its owner alone before SQLite writes to it.
fn make_private(path: &Path) -> Result<(), StoreError> {
    let mut options = std::fs::OpenOptions::new();
    options.create(true).append(true);
    #[cfg(unix)]
    {
        use std::os::unix::fs::OpenOptionsExt;
        options.mode(0o600);
    }
    options.open(path).map(drop).map_err(|source| StoreError::File { path: path.to_owned(), source })
}

/// Parses an id that this program stored.
fn stored<T: std::str::FromStr>(text: &str) -> Result<T, StoreError> {
    text.parse().map_err(|_| StoreError::corrupt(format!("the id `{text}`")))
}

/// Parses JSON that this program stored.
fn stored_json<T: serde::de::DeserializeOwned>(text: &str) -> Result<T, StoreError> {
    serde_json::from_str(text).map_err(|error| StoreError::corrupt(format!("JSON that cannot be read ({error})")))
}

/// The JSON text of a value that has one.
fn to_json<T: serde::Serialize>(value: &T) -> Result<String, StoreError> {
    serde_json::to_string(value).map_err(|error| StoreError::corrupt(format!("a value without JSON form ({error})")))
}

/// One row as `Option`, where the row's own reading can fail in our terms too.
fn optional<T>(
    connection: &Connection,
    sql: &str,
    params: impl rusqlite::Params,
    read: impl FnOnce(&rusqlite::Row<'_>) -> Result<T, StoreError>,
) -> Result<Option<T>, StoreError> {
    let mut statement = connection.prepare_cached(sql)?;
    let found = statement.query_row(params, |row| Ok(read(row))).optional()?;
    found.transpose()
}

/// All rows, where the row's own reading can fail in our terms too.
fn rows<T>(
    connection: &Connection,
    sql: &str,
    params: impl rusqlite::Params,
    mut read: impl FnMut(&rusqlite::Row<'_>) -> Result<T, StoreError>,
) -> Result<Vec<T>, StoreError> {
    let mut statement = connection.prepare_cached(sql)?;
    let mut found = statement.query(params)?;
    let mut all = Vec::new();
    while let Some(row) = found.next()? {
        all.push(read(row)?);
    }
    Ok(all)
}
