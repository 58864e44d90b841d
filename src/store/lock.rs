//! The lock that a process holds for as long as it has the database open.
//!
//! It is the operating system's own file lock, so it ends with its process however that ends; the note beside
//! it only tells people who holds it, and is never trusted.

use std::fs::{self, File, TryLockError};
use std::io;
use std::path::{Path, PathBuf};
use std::thread;
use std::time::Duration;

use super::StoreError;

const LOOK_AGAIN: Duration = Duration::from_millis(20);

/// Held while the database is open.
#[derive(Debug)]
pub(super) struct Lock {
    _file: File,
}

/// Takes the lock beside `database`, or says who has it after waiting for `patience`.
pub(super) fn acquire(database: &Path, holder: &str, patience: Duration) -> Result<Lock, StoreError> {
    let path = database.with_extension("lock");
    let unusable = |source| StoreError::File { path: path.clone(), source };
    let file = File::options().create(true).append(true).open(&path).map_err(unusable)?;
    let mut waited = Duration::ZERO;
    loop {
        match file.try_lock() {
            Ok(()) => {
                // A note that cannot be written costs a good message, nothing else.
                let _ = fs::write(note(database), format!("{holder}, process {}", std::process::id()));
                return Ok(Lock { _file: file });
            }
            Err(TryLockError::WouldBlock) if waited < patience => {
                thread::sleep(LOOK_AGAIN);
                waited += LOOK_AGAIN;
            }
            Err(TryLockError::WouldBlock) => {
                return Err(StoreError::Locked { path: database.to_owned(), holder: read_note(database) });
            }
            Err(TryLockError::Error(source)) => return Err(unusable(source)),
        }
    }
}

fn note(database: &Path) -> PathBuf {
    database.with_extension("holder")
}

fn read_note(database: &Path) -> String {
    let text: io::Result<String> = fs::read_to_string(note(database));
    match text {
        Ok(text) if !text.trim().is_empty() => text.trim().chars().take(200).collect(),
        _ => "another process".to_owned(),
    }
}
