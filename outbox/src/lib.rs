//! A transactional outbox inside the caller's SQLite file.
//!
//! What must reach another machine is written here in the same transaction as the fact that it tells of, is sent
//! by the caller as often as it takes, and is removed only when the other side has acknowledged it. The outbox
//! does not know what it carries, opens no connection and reads no clock; connection, transactions and time are the
//! caller's.
//!
//! **State.** Three tables, `outbox_items`, `outbox_bodies` and `outbox_meta`, made by [`migrate`] with a schema
//! version of their own.
//!
//! **After a crash.** An item is there exactly if the transaction that enqueued it was committed. One that was
//! sent and not acknowledged is still due, so that the receiver may see it twice: the idempotency key is what it
//! tells them apart by. An item's key, destination and body never change once it is stored.
//!
//! **The life of an item.** [`enqueue`] → [`due`] → [`acknowledge`] (gone), [`fail`] (waits, then is due again) or
//! [`refuse`] (a dead letter). A dead letter is kept until its owner calls [`retry_dead`] or [`drop_dead`].
//!
//! # What happens at each cap
//!
//! | cap of [`Policy`] | counts | when it is reached |
//! |---|---|---|
//! | `max_rows` | waiting items and dead letters | [`enqueue`] is refused with [`Error::Full`]; what is stored stays |
//! | `max_bytes` | the bodies of both | the same |
//! | `max_age` | the time since an item was enqueued or, for a dead letter, retried | [`expire`] makes it a dead letter |
//!
//! Nothing is ever dropped to make room. The caller asks [`has_room`] before it takes on work that will end in an
//! item, so that a full outbox refuses new work and not the report of work done. Dead letters count because they
//! take the same disk; the owner makes room by dropping them.
//!
//! A full disk shows as an error of the statement that met it, upon which SQLite rolls back the caller's whole
//! transaction: give it up, and the store is as it was before.
//!
//! # Sending
//!
//! Items are handed out in the order in which they were enqueued. One that keeps failing blocks no other as long as
//! the caller walks all that is due, page by page, with [`due_after`].

mod backoff;
mod dead;
mod error;
mod items;
mod schema;
mod view;

#[cfg(test)]
mod tests;

use std::time::Duration;

pub use backoff::{MAX_RETRY_AFTER, delay};
pub use dead::{drop_dead, expire, refuse, retry_dead};
pub use error::{Cap, Error, Result};
pub use items::{
    Enqueued, Failed, Item, MAX_WHY_BYTES, NewItem, acknowledge, due, due_after, enqueue, fail, has_room, make_all_due,
};
pub use schema::{SCHEMA_VERSION, migrate};
pub use view::{Death, DeathCause, Entry, Stats, dead_letters, list, stats};

/// How much is kept, for how long, and how often it is tried.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Policy {
    /// Items and dead letters together.
    pub max_rows: u32,
    /// Bytes of all their bodies together.
    pub max_bytes: u64,
    /// How long an item is tried before it becomes a dead letter.
    pub max_age: Duration,
    /// The wait after the second failure in a row, before jitter; it doubles with each further one.
    pub base: Duration,
    /// The longest wait, before jitter.
    pub max_backoff: Duration,
}

impl Default for Policy {
    fn default() -> Self {
        Self {
            max_rows: 10_000,
            max_bytes: 256 * 1024 * 1024,
            max_age: Duration::from_secs(30 * 24 * 3600),
            base: Duration::from_secs(20),
            max_backoff: Duration::from_secs(15 * 60),
        }
    }
}

/// A duration in the unit in which the tables keep time; one too long for it becomes the longest.
fn as_ms(duration: Duration) -> i64 {
    i64::try_from(duration.as_millis()).unwrap_or(i64::MAX)
}
