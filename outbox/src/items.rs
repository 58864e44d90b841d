//! Items that wait to be sent.

use std::time::Duration;

use rusqlite::{Connection, OptionalExtension, named_params, params};

use crate::{Cap, Error, Policy, Result, as_ms, delay};

/// Of a failure's text, at most this many bytes are kept: it may quote what a server sent.
pub const MAX_WHY_BYTES: usize = 1_000;

/// What is to be sent.
#[derive(Debug, Clone, Copy)]
pub struct NewItem<'a> {
    /// Idempotency key: unique among all that is stored, and what the receiver knows a repetition by.
    pub key: &'a str,
    /// Where it goes; opaque but for the prefix of [`make_all_due`].
    pub destination: &'a str,
    /// The bytes to send, frozen from here on.
    pub body: &'a [u8],
}

/// An item to be sent now.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Item {
    /// Names the item to the other functions; never used twice.
    pub id: i64,
    /// Idempotency key.
    pub key: String,
    /// Where it goes.
    pub destination: String,
    /// The bytes to send.
    pub body: Vec<u8>,
    /// Failures so far.
    pub attempts: u32,
    /// When it was enqueued, in milliseconds as the caller counts them.
    pub enqueued_at_ms: i64,
}

/// What [`enqueue`] did.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Enqueued {
    /// The item is stored once the transaction is committed.
    Stored,
    /// An item or a dead letter with this key is stored; it stays as it is.
    AlreadyThere,
}

/// What [`fail`] did.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Failed {
    /// The item waits.
    Retry {
        /// When it is due again.
        next_try_ms: i64,
    },
    /// No such item waits: it was acknowledged, or is a dead letter, by now.
    Gone,
}

/// Stores an item, inside the caller's transaction. It is due at once.
///
/// # Errors
/// [`Error::Full`] where the item would exceed a cap. A key that is stored is [`Enqueued::AlreadyThere`] also then.
pub fn enqueue(conn: &Connection, item: &NewItem<'_>, policy: &Policy, now_ms: i64) -> Result<Enqueued> {
    let known: bool = conn
        .prepare_cached("SELECT EXISTS (SELECT 1 FROM outbox_items WHERE key = ?1)")?
        .query_one([item.key], |row| row.get(0))?;
    if known {
        return Ok(Enqueued::AlreadyThere);
    }
    if let Some(cap) = reached_cap(conn, policy, item.body.len() as u64)? {
        return Err(Error::Full(cap));
    }
    atomically(conn, || insert(conn, item, now_ms))?;
    Ok(Enqueued::Stored)
}

fn insert(conn: &Connection, item: &NewItem<'_>, now_ms: i64) -> Result<()> {
    conn.prepare_cached(
        "INSERT INTO outbox_items
             (key, destination, bytes, enqueued_at_ms, live_since_ms, next_try_ms, scheduled_at_ms)
         VALUES (:key, :destination, length(:body), :now, :now, :now, :now)",
    )?
    .execute(
        named_params! { ":key": item.key, ":destination": item.destination, ":body": item.body, ":now": now_ms },
    )?;
    let id = conn.last_insert_rowid();
    conn.prepare_cached("INSERT INTO outbox_bodies (id, body) VALUES (?1, ?2)")?.execute(params![id, item.body])?;
    Ok(())
}

/// Runs `statements` so that a failure leaves none of them behind, also where the caller commits all the same.
fn atomically(conn: &Connection, statements: impl FnOnce() -> Result<()>) -> Result<()> {
    conn.execute_batch("SAVEPOINT outbox")?;
    let done = statements();
    match &done {
        Ok(()) => conn.execute_batch("RELEASE outbox")?,
        // SQLite may have rolled back the whole transaction by itself, and the savepoint with it.
        Err(_) if conn.is_autocommit() => {}
        Err(_) => conn.execute_batch("ROLLBACK TO outbox; RELEASE outbox")?,
    }
    done
}

/// Whether an item with a body of `bytes` could be enqueued now. To be asked before work that ends in one.
pub fn has_room(conn: &Connection, policy: &Policy, bytes: u64) -> Result<bool> {
    Ok(reached_cap(conn, policy, bytes)?.is_none())
}

/// The cap that one more item would exceed. Counted, not kept as a running total that could drift from the rows.
fn reached_cap(conn: &Connection, policy: &Policy, bytes: u64) -> Result<Option<Cap>> {
    let (rows, stored) = conn
        .prepare_cached("SELECT count(*), coalesce(sum(bytes), 0) FROM outbox_items")?
        .query_one([], |row| Ok((row.get::<_, i64>(0)?, row.get::<_, i64>(1)?)))?;
    if rows >= i64::from(policy.max_rows) {
        return Ok(Some(Cap::Rows(policy.max_rows)));
    }
    let is_over = stored.unsigned_abs().saturating_add(bytes) > policy.max_bytes;
    Ok(is_over.then_some(Cap::Bytes(policy.max_bytes)))
}

/// The first `limit` items that are due, oldest first: in the order in which they were enqueued.
///
/// One page only. To keep items that fail over and over from standing in front of the rest, walk on with
/// [`due_after`].
pub fn due(conn: &Connection, now_ms: i64, limit: u32) -> Result<Vec<Item>> {
    due_after(conn, now_ms, 0, limit)
}

/// The first `limit` due items behind the one with id `after_id` (0: from the start), oldest first.
///
/// A cycle that starts at 0 and goes on from the last id of each page, until a page is empty, offers every due item
/// once, also when an item that failed is due again at once.
pub fn due_after(conn: &Connection, now_ms: i64, after_id: i64, limit: u32) -> Result<Vec<Item>> {
    let mut statement = conn.prepare_cached(
        "SELECT id, key, destination, attempts, enqueued_at_ms, body
         FROM outbox_items JOIN outbox_bodies USING (id)
         WHERE id > :after AND dead_at_ms IS NULL AND (next_try_ms <= :now OR scheduled_at_ms > :now)
         ORDER BY id LIMIT :limit",
    )?;
    let items = statement.query_map(named_params! { ":after": after_id, ":now": now_ms, ":limit": limit }, |row| {
        Ok(Item {
            id: row.get("id")?,
            key: row.get("key")?,
            destination: row.get("destination")?,
            body: row.get("body")?,
            attempts: row.get("attempts")?,
            enqueued_at_ms: row.get("enqueued_at_ms")?,
        })
    })?;
    Ok(items.collect::<rusqlite::Result<_>>()?)
}

/// Removes an item that the receiver has taken, also one that became a dead letter while its request was under way.
///
/// False: it was gone already.
pub fn acknowledge(conn: &Connection, id: i64) -> Result<bool> {
    Ok(conn.prepare_cached("DELETE FROM outbox_items WHERE id = ?1")?.execute([id])? == 1)
}

/// Lets an item wait after a failure that may pass. How long: [`delay`].
///
/// `why` is kept for the owner, at most [`MAX_WHY_BYTES`]; `jitter` is a random number from 0 to 1.
pub fn fail(
    conn: &Connection,
    id: i64,
    why: &str,
    retry_after: Option<Duration>,
    policy: &Policy,
    jitter: f64,
    now_ms: i64,
) -> Result<Failed> {
    let earlier: Option<u32> = conn
        .prepare_cached("SELECT attempts FROM outbox_items WHERE id = ?1 AND dead_at_ms IS NULL")?
        .query_one([id], |row| row.get(0))
        .optional()?;
    let Some(earlier) = earlier else {
        return Ok(Failed::Gone);
    };
    let attempts = earlier.saturating_add(1);
    let after = |wait| now_ms.saturating_add(as_ms(wait));
    let next_try_ms = after(delay(attempts, retry_after, policy, jitter));
    let not_before_ms = retry_after.map(|wait| after(wait.min(crate::MAX_RETRY_AFTER)));
    conn.prepare_cached(
        "UPDATE outbox_items SET attempts = :attempts, next_try_ms = :next, not_before_ms = :not_before,
             scheduled_at_ms = :now, last_error = :why
         WHERE id = :id",
    )?
    .execute(named_params! {
        ":id": id, ":attempts": attempts, ":next": next_try_ms, ":not_before": not_before_ms,
        ":now": now_ms, ":why": bounded(why),
    })?;
    Ok(Failed::Retry { next_try_ms })
}

/// Ends the waits of all items whose destination begins with `destination_prefix`: it was just seen to answer.
///
/// A `Retry-After` stays in force. Give the prefix with its closing slash, or `https://hub` is also the beginning of
/// `https://hub2`. Returns how many waits were cut short.
pub fn make_all_due(conn: &Connection, destination_prefix: &str, now_ms: i64) -> Result<usize> {
    // An item scheduled in the future, by a clock that was set back since, is due as it is.
    let mut statement = conn.prepare_cached(
        "UPDATE outbox_items SET next_try_ms = max(?1, coalesce(not_before_ms, ?1)), scheduled_at_ms = ?1
         WHERE dead_at_ms IS NULL AND scheduled_at_ms <= ?1
           AND next_try_ms > max(?1, coalesce(not_before_ms, ?1)) AND instr(destination, ?2) = 1",
    )?;
    Ok(statement.execute(params![now_ms, destination_prefix])?)
}

/// The beginning of `why` that is kept, cut between two characters.
pub(crate) fn bounded(why: &str) -> &str {
    &why[..why.floor_char_boundary(MAX_WHY_BYTES)]
}
