//! The tables, and how an older file becomes a current one.

use rusqlite::Transaction;

use crate::{Error, Result};

/// The schema that this program writes.
pub const SCHEMA_VERSION: u32 = 1;

/// Entry `n` brings a file from version `n` to `n + 1`.
const STEPS: [&str; SCHEMA_VERSION as usize] = [
    // AUTOINCREMENT: an id is never given out twice, so that an answer which comes late, for an item that is gone,
    // cannot acknowledge another one.
    // The body has a table of its own: an update of the small row would otherwise write the whole body again, which
    // costs with every failure and needs free pages that a full disk does not have.
    "CREATE TABLE outbox_items (
        id              INTEGER PRIMARY KEY AUTOINCREMENT,
        key             TEXT    NOT NULL UNIQUE,
        destination     TEXT    NOT NULL,
        bytes           INTEGER NOT NULL,
        enqueued_at_ms  INTEGER NOT NULL,
        -- max_age counts from here: when it was enqueued, or retried as a dead letter.
        live_since_ms   INTEGER NOT NULL,
        attempts        INTEGER NOT NULL DEFAULT 0,
        next_try_ms     INTEGER NOT NULL,
        -- When next_try_ms was decided. If that lies in the future the clock was set back since, and the wait
        -- means nothing.
        scheduled_at_ms INTEGER NOT NULL,
        -- What the receiver's Retry-After forbids, whatever else makes the item due.
        not_before_ms   INTEGER,
        last_error      TEXT,
        -- Both set: a dead letter.
        dead_at_ms      INTEGER,
        death           TEXT CHECK (death IN ('refused', 'expired')),
        CHECK ((dead_at_ms IS NULL) = (death IS NULL))
    ) STRICT;
    CREATE TABLE outbox_bodies (
        id   INTEGER PRIMARY KEY,
        body BLOB NOT NULL
    ) STRICT;
    -- Not a foreign key: those hold only on connections that switch them on.
    CREATE TRIGGER outbox_body_goes_with_its_item AFTER DELETE ON outbox_items BEGIN
        DELETE FROM outbox_bodies WHERE id = OLD.id;
    END;",
];

/// Makes the outbox's tables in the caller's file, or brings them up to date, inside the caller's migration.
///
/// # Errors
/// [`Error::NewerSchema`] for a file that a newer program has written; it is left untouched.
pub fn migrate(tx: &Transaction<'_>) -> Result<()> {
    let found = version(tx)?;
    let pending = STEPS.get(found as usize..).ok_or(Error::NewerSchema { found, supported: SCHEMA_VERSION })?;
    if pending.is_empty() {
        return Ok(());
    }
    tx.execute_batch(
        "CREATE TABLE IF NOT EXISTS outbox_meta (
            only_row INTEGER PRIMARY KEY CHECK (only_row = 1),
            schema_version INTEGER NOT NULL
        ) STRICT;",
    )?;
    for step in pending {
        tx.execute_batch(step)?;
    }
    tx.execute("INSERT OR REPLACE INTO outbox_meta (only_row, schema_version) VALUES (1, ?1)", [SCHEMA_VERSION])?;
    Ok(())
}

fn version(tx: &Transaction<'_>) -> rusqlite::Result<u32> {
    let is_new: bool =
        tx.query_one("SELECT NOT EXISTS (SELECT 1 FROM sqlite_schema WHERE name = 'outbox_meta')", [], |r| r.get(0))?;
    if is_new {
        return Ok(0);
    }
    tx.query_one("SELECT coalesce(max(schema_version), 0) FROM outbox_meta", [], |r| r.get(0))
}
