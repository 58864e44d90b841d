//! Dead letters: items that are not sent any more and wait for their owner's decision.

use rusqlite::{Connection, named_params, params};

use crate::items::bounded;
use crate::{Policy, Result, as_ms};

/// Makes an item a dead letter, because the receiver will never take it (for HTTP: 404, 410, 422).
///
/// False: no such item waits.
pub fn refuse(conn: &Connection, id: i64, why: &str, now_ms: i64) -> Result<bool> {
    let changed = conn
        .prepare_cached(
            "UPDATE outbox_items SET dead_at_ms = :now, death = 'refused', last_error = :why, attempts = attempts + 1
             WHERE id = :id AND dead_at_ms IS NULL",
        )?
        .execute(named_params! { ":id": id, ":now": now_ms, ":why": bounded(why) })?;
    Ok(changed == 1)
}

/// Makes every item older than [`Policy::max_age`] a dead letter. Its last failure stays readable.
///
/// Returns how many.
pub fn expire(conn: &Connection, policy: &Policy, now_ms: i64) -> Result<u32> {
    let oldest_ms = now_ms.saturating_sub(as_ms(policy.max_age));
    let changed = conn
        .prepare_cached(
            "UPDATE outbox_items SET dead_at_ms = ?1, death = 'expired'
             WHERE dead_at_ms IS NULL AND live_since_ms < ?2",
        )?
        .execute(params![now_ms, oldest_ms])?;
    Ok(u32::try_from(changed).unwrap_or(u32::MAX))
}

/// Makes a dead letter an item again: due at once, with its key and body, its age and failures counted anew.
///
/// False: there is no such dead letter.
pub fn retry_dead(conn: &Connection, id: i64, now_ms: i64) -> Result<bool> {
    let changed = conn
        .prepare_cached(
            "UPDATE outbox_items SET dead_at_ms = NULL, death = NULL, attempts = 0, live_since_ms = ?2,
                 next_try_ms = ?2, scheduled_at_ms = ?2, not_before_ms = NULL
             WHERE id = ?1 AND dead_at_ms IS NOT NULL",
        )?
        .execute(params![id, now_ms])?;
    Ok(changed == 1)
}

/// Deletes a dead letter, which makes room. An item that waits cannot be dropped.
///
/// False: there is no such dead letter.
pub fn drop_dead(conn: &Connection, id: i64) -> Result<bool> {
    let dropped =
        conn.prepare_cached("DELETE FROM outbox_items WHERE id = ?1 AND dead_at_ms IS NOT NULL")?.execute([id])?;
    Ok(dropped == 1)
}
