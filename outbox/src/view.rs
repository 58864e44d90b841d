//! What the owner may see of the outbox. Bodies stay on disk: they may be large, and many.

use rusqlite::types::{FromSql, FromSqlError, FromSqlResult, ValueRef};
use rusqlite::{Connection, Row};

use crate::Result;

/// An item or a dead letter, without its body.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Entry {
    /// Names it to the other functions.
    pub id: i64,
    /// Idempotency key.
    pub key: String,
    /// Where it goes.
    pub destination: String,
    /// Size of its body.
    pub bytes: u64,
    /// Failures so far; counted anew after [`crate::retry_dead`].
    pub attempts: u32,
    /// When it was enqueued.
    pub enqueued_at_ms: i64,
    /// When it is due.
    pub next_try_ms: i64,
    /// The last failure's text.
    pub last_error: Option<String>,
    /// Set for a dead letter.
    pub death: Option<Death>,
}

/// How an item became a dead letter.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Death {
    /// When.
    pub at_ms: i64,
    /// Why.
    pub cause: DeathCause,
}

/// Why an item became a dead letter.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum DeathCause {
    /// The receiver refused it for good; [`Entry::last_error`] says how.
    Refused,
    /// It could not be delivered within [`crate::Policy::max_age`].
    Expired,
}

impl FromSql for DeathCause {
    fn column_result(value: ValueRef<'_>) -> FromSqlResult<Self> {
        match value.as_str()? {
            "refused" => Ok(Self::Refused),
            "expired" => Ok(Self::Expired),
            _ => Err(FromSqlError::InvalidType),
        }
    }
}

/// How full the outbox is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Stats {
    /// Items that are due or wait for their next try.
    pub waiting: u32,
    /// Dead letters.
    pub dead: u32,
    /// Bytes of the bodies of both.
    pub bytes: u64,
    /// When the oldest of the waiting items was enqueued.
    pub oldest_waiting_ms: Option<i64>,
}

/// The items that are due or wait, oldest first.
pub fn list(conn: &Connection) -> Result<Vec<Entry>> {
    entries(conn, "dead_at_ms IS NULL")
}

/// The dead letters, oldest first.
pub fn dead_letters(conn: &Connection) -> Result<Vec<Entry>> {
    entries(conn, "dead_at_ms IS NOT NULL")
}

fn entries(conn: &Connection, which: &str) -> Result<Vec<Entry>> {
    let mut statement = conn.prepare_cached(&format!(
        "SELECT id, key, destination, attempts, enqueued_at_ms, next_try_ms, last_error, dead_at_ms, death, bytes
         FROM outbox_items WHERE {which} ORDER BY id"
    ))?;
    let entries = statement.query_map([], entry)?;
    Ok(entries.collect::<rusqlite::Result<_>>()?)
}

fn entry(row: &Row<'_>) -> rusqlite::Result<Entry> {
    let death = match row.get("dead_at_ms")? {
        Some(at_ms) => Some(Death { at_ms, cause: row.get("death")? }),
        None => None,
    };
    Ok(Entry {
        id: row.get("id")?,
        key: row.get("key")?,
        destination: row.get("destination")?,
        bytes: row.get::<_, i64>("bytes")?.unsigned_abs(),
        attempts: row.get("attempts")?,
        enqueued_at_ms: row.get("enqueued_at_ms")?,
        next_try_ms: row.get("next_try_ms")?,
        last_error: row.get("last_error")?,
        death,
    })
}

/// Counts what is stored.
pub fn stats(conn: &Connection) -> Result<Stats> {
    let mut statement = conn.prepare_cached(
        "SELECT count(*) FILTER (WHERE dead_at_ms IS NULL) AS waiting, count(dead_at_ms) AS dead,
             coalesce(sum(bytes), 0) AS bytes,
             min(enqueued_at_ms) FILTER (WHERE dead_at_ms IS NULL) AS oldest_waiting_ms
         FROM outbox_items",
    )?;
    Ok(statement.query_one([], |row| {
        Ok(Stats {
            waiting: row.get("waiting")?,
            dead: row.get("dead")?,
            bytes: row.get::<_, i64>("bytes")?.unsigned_abs(),
            oldest_waiting_ms: row.get("oldest_waiting_ms")?,
        })
    })?)
}
