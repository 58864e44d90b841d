//! Connections to one SQLite file: several readers and one writer.
//!
//! SQLite lets one writer in at a time. A single writing connection makes them wait in line here, fairly, instead
//! of failing or spinning on a busy database. Calls run on tokio's blocking pool rather than on a thread of our own:
//! tokio's paused clock knows that such a call is under way and lets no timer fire meanwhile.

use std::path::Path;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use rusqlite::{Connection, OpenFlags, Transaction, TransactionBehavior};
use tokio::sync::Semaphore;

use crate::store::StoreError;

/// Another process may write too: the command line beside a serving hub.
const BUSY_TIMEOUT: Duration = Duration::from_secs(5);
/// More than the processors, since a reader may wait for the disk.
const READERS: usize = 4;
/// All statements of this store stay prepared.
const STATEMENTS: usize = 64;

/// A set of equal connections; a call takes one and gives it back.
struct Pool {
    idle: Mutex<Vec<Connection>>,
    free: Semaphore,
}

impl Pool {
    fn new(connections: Vec<Connection>) -> Arc<Self> {
        let free = Semaphore::new(connections.len());
        Arc::new(Self { idle: Mutex::new(connections), free })
    }

    async fn call<T, F>(self: &Arc<Self>, work: F) -> Result<T, StoreError>
    where
        T: Send + 'static,
        F: FnOnce(&mut Connection) -> Result<T, StoreError> + Send + 'static,
    {
        let permit = self.free.acquire().await.map_err(|_| StoreError::Interrupted)?;
        // Whoever holds the permit gives it back by returning the connection, also when the caller is gone.
        permit.forget();
        let mut lease = Lease { connection: self.lock().pop(), pool: Arc::clone(self) };
        let call = tokio::task::spawn_blocking(move || {
            let connection = lease.connection.as_mut().ok_or(StoreError::Interrupted)?;
            work(connection)
        });
        call.await.map_err(|_| StoreError::Interrupted)?
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, Vec<Connection>> {
        self.idle.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A connection on loan. It comes back even when the work panics: dropping a transaction rolls it back.
struct Lease {
    connection: Option<Connection>,
    pool: Arc<Pool>,
}

impl Drop for Lease {
    fn drop(&mut self) {
        if let Some(connection) = self.connection.take() {
            self.pool.lock().push(connection);
        }
        self.pool.free.add_permits(1);
    }
}

/// The database.
pub(super) struct Database {
    writer: Arc<Pool>,
    readers: Arc<Pool>,
}

impl Database {
    /// Opens the readers beside a writer that is open already. An in-memory database has but one connection.
    pub(super) fn new(writer: Connection, path: &Path, in_memory: bool) -> Result<Self, StoreError> {
        let writer = Pool::new(vec![writer]);
        if in_memory {
            return Ok(Self { readers: Arc::clone(&writer), writer });
        }
        let flags = OpenFlags::SQLITE_OPEN_READ_ONLY | OpenFlags::SQLITE_OPEN_NO_MUTEX;
        let readers = (0..READERS)
            .map(|_| {
                let connection = Connection::open_with_flags(path, flags)?;
                prepare(&connection)?;
                Ok(connection)
            })
            .collect::<Result<Vec<_>, rusqlite::Error>>()?;
        Ok(Self { readers: Pool::new(readers), writer })
    }

    /// Reads, in one snapshot.
    pub(super) async fn read<T, F>(&self, work: F) -> Result<T, StoreError>
    where
        T: Send + 'static,
        F: FnOnce(&Transaction<'_>) -> Result<T, StoreError> + Send + 'static,
    {
        self.readers.call(move |connection| work(&connection.transaction()?)).await
    }

    /// Writes, in one transaction, which is rolled back when the work fails.
    pub(super) async fn write<T, F>(&self, work: F) -> Result<T, StoreError>
    where
        T: Send + 'static,
        F: FnOnce(&Transaction<'_>) -> Result<T, StoreError> + Send + 'static,
    {
        let call = move |connection: &mut Connection| {
            let transaction = connection.transaction_with_behavior(TransactionBehavior::Immediate)?;
            let done = work(&transaction)?;
            transaction.commit()?;
            Ok(done)
        };
        self.writer.call(call).await
    }
}

/// Settings that every connection needs.
pub(super) fn prepare(connection: &Connection) -> Result<(), rusqlite::Error> {
    connection.busy_timeout(BUSY_TIMEOUT)?;
    connection.pragma_update(None, "foreign_keys", true)?;
    connection.set_prepared_statement_cache_capacity(STATEMENTS);
    Ok(())
}

impl From<rusqlite::Error> for StoreError {
    fn from(error: rusqlite::Error) -> Self {
        Self::Database(Box::new(error))
    }
}
