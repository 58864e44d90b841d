//! The database's versions.
//!
//! `user_version` counts the steps that a file has taken. A newer file is refused before anything is written
//! to it; an older one is copied beside itself, then taken through the missing steps in one transaction.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::time::Duration;

use rusqlite::{Connection, OpenFlags, Transaction};

use super::{StoreError, make_private};

/// One step from a version to the next.
pub(super) type Step = fn(&Transaction<'_>) -> Result<(), StoreError>;

/// Every step, the oldest first. A step that has been released never changes.
pub(super) const STEPS: &[Step] = &[first];

/// Refuses a file that a newer program has written, without touching it.
pub(super) fn refuse_newer(path: &Path, steps: &[Step], patience: Duration) -> Result<(), StoreError> {
    if !path.exists() {
        return Ok(());
    }
    let connection = Connection::open_with_flags(path, OpenFlags::SQLITE_OPEN_READ_ONLY)?;
    connection.busy_timeout(patience)?;
    let found = version(&connection)?;
    let known = steps.len();
    if found > known {
        return Err(StoreError::Newer { path: path.to_owned(), found, known });
    }
    Ok(())
}

/// Takes the file through the steps that it has not taken yet.
pub(super) fn migrate(connection: &mut Connection, path: Option<&Path>, steps: &[Step]) -> Result<(), StoreError> {
    let found = version(connection)?;
    if found == steps.len() {
        return Ok(());
    }
    if let (Some(path), 1..) = (path, found) {
        back_up(connection, path, found)?;
    }
    let tx = connection.transaction_with_behavior(rusqlite::TransactionBehavior::Exclusive)?;
    for step in &steps[found..] {
        step(&tx)?;
    }
    tx.pragma_update(None, "user_version", steps.len() as u32)?;
    Ok(tx.commit()?)
}

fn version(connection: &Connection) -> Result<usize, StoreError> {
    Ok(connection.pragma_query_value(None, "user_version", |row| row.get::<_, u32>(0))? as usize)
}

/// A whole copy, made by SQLite itself, so that pages still in the write-ahead log are in it.
fn back_up(connection: &Connection, path: &Path, found: usize) -> Result<(), StoreError> {
    let copy = beside(path, &format!(".v{found}.bak"));
    if copy.exists() {
        // An earlier attempt at this very step was cut short after its copy; that copy is the better one.
        return Ok(());
    }
    // It gets its name when it is whole: a copy that was cut short must not pass for one.
    let part = beside(path, &format!(".v{found}.bak.part"));
    let unusable = |source| StoreError::File { path: part.clone(), source };
    match fs::remove_file(&part) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(unusable(error)),
        _ => {}
    }
    make_private(&part)?;
    let name = part.to_str().ok_or_else(|| unusable(io::ErrorKind::InvalidFilename.into()))?;
    connection.execute("VACUUM INTO ?1", [name])?;
    fs::rename(&part, &copy).map_err(unusable)
}

fn beside(path: &Path, suffix: &str) -> PathBuf {
    let mut name = path.file_name().unwrap_or_default().to_owned();
    name.push(suffix);
    path.with_file_name(name)
}

fn first(tx: &Transaction<'_>) -> Result<(), StoreError> {
    tx.execute_batch(include_str!("schema_1.sql"))?;
    outbox::migrate(tx)?;
    Ok(())
}
