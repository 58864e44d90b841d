//! What can go wrong.

use std::fmt;

/// Result of this crate's functions.
pub type Result<T, E = Error> = std::result::Result<T, E>;

/// Why an operation on the outbox failed. Nothing was changed.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// A cap was reached. Refuse new work until items are acknowledged or dead letters dropped.
    #[error("the outbox is full: {0}")]
    Full(Cap),
    /// The file was written by a newer program.
    #[error("the outbox has schema version {found}, this program knows up to {supported}: use a newer one")]
    NewerSchema {
        /// The version in the file.
        found: u32,
        /// [`crate::SCHEMA_VERSION`].
        supported: u32,
    },
    /// SQLite failed; also how a full disk shows.
    #[error(transparent)]
    Sqlite(#[from] rusqlite::Error),
}

/// The cap that was reached, with its value.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Cap {
    /// [`crate::Policy::max_rows`].
    Rows(u32),
    /// [`crate::Policy::max_bytes`].
    Bytes(u64),
}

impl fmt::Display for Cap {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Rows(max) => write!(f, "at most {max} items"),
            Self::Bytes(max) => write!(f, "at most {max} bytes"),
        }
    }
}
