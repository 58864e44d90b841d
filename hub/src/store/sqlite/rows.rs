//! From columns to values and back.

use std::fmt::Display;
use std::str::FromStr;

use jiff::Timestamp;
use protocol::CommandStatus;
use rusqlite::Row;
use serde::Serialize;
use serde::de::DeserializeOwned;

use crate::store::StoreError;

fn corrupt(what: &'static str, why: impl Display) -> StoreError {
    StoreError::Corrupt { what, why: why.to_string() }
}

/// A text column that must parse.
pub(super) fn parsed<T>(row: &Row<'_>, column: usize, what: &'static str) -> Result<T, StoreError>
where
    T: FromStr,
    T::Err: Display,
{
    row.get_ref(column)?.as_str().map_err(|e| corrupt(what, e))?.parse().map_err(|e: T::Err| corrupt(what, e))
}

/// A column of JSON text.
pub(super) fn json<T: DeserializeOwned>(row: &Row<'_>, column: usize, what: &'static str) -> Result<T, StoreError> {
    let text = row.get_ref(column)?.as_str().map_err(|e| corrupt(what, e))?;
    serde_json::from_str(text).map_err(|e| corrupt(what, e))
}

/// A column of JSON text, or NULL.
pub(super) fn optional_json<T: DeserializeOwned>(
    row: &Row<'_>,
    column: usize,
    what: &'static str,
) -> Result<Option<T>, StoreError> {
    let text = row.get_ref(column)?.as_str_or_null().map_err(|e| corrupt(what, e))?;
    text.map(serde_json::from_str).transpose().map_err(|e| corrupt(what, e))
}

/// A value as JSON text.
pub(super) fn to_json<T: Serialize + ?Sized>(value: &T) -> Result<String, StoreError> {
    serde_json::to_string(value).map_err(|e| corrupt("value", e))
}

/// A time column.
pub(super) fn time(row: &Row<'_>, column: usize, what: &'static str) -> Result<Timestamp, StoreError> {
    timestamp(row.get(column)?, what)
}

/// A time column, or NULL.
pub(super) fn optional_time(row: &Row<'_>, column: usize, what: &'static str) -> Result<Option<Timestamp>, StoreError> {
    row.get::<_, Option<i64>>(column)?.map(|ms| timestamp(ms, what)).transpose()
}

/// Milliseconds since the epoch as a time.
pub(super) fn timestamp(ms: i64, what: &'static str) -> Result<Timestamp, StoreError> {
    Timestamp::from_millisecond(ms).map_err(|e| corrupt(what, e))
}

/// A column that holds a status.
pub(super) fn status(row: &Row<'_>, column: usize) -> Result<CommandStatus, StoreError> {
    use CommandStatus::{Cancelled, Completed, Failed, Queued, Running};
    let text = row.get_ref(column)?.as_str().map_err(|e| corrupt("status", e))?;
    [Queued, Running, Completed, Failed, Cancelled]
        .into_iter()
        .find(|status| status.as_str() == text)
        .ok_or_else(|| corrupt("status", text))
}

/// All rows of a query, each read by `read`.
pub(super) fn all<T>(
    mut rows: rusqlite::Rows<'_>,
    mut read: impl FnMut(&Row<'_>) -> Result<T, StoreError>,
) -> Result<Vec<T>, StoreError> {
    let mut found = Vec::new();
    while let Some(row) = rows.next()? {
        found.push(read(row)?);
    }
    Ok(found)
}

/// The first row of a query, read by `read`.
pub(super) fn first<T>(
    mut rows: rusqlite::Rows<'_>,
    read: impl FnOnce(&Row<'_>) -> Result<T, StoreError>,
) -> Result<Option<T>, StoreError> {
    rows.next()?.map(read).transpose()
}
