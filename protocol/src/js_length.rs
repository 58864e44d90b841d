//! Counts what `JSON.stringify(value).length` would give, without building the text.

use serde::Serialize;

/// UTF-16 code units of `JSON.stringify(value)`.
pub fn js_length<T: Serialize + ?Sized>(value: &T) -> usize {
    // to be written: a streaming serde Serializer
    serde_json::to_string(value).map(|s| s.encode_utf16().count()).unwrap_or(0)
}

/// Whether [`js_length`] is above `limit`; stops counting there.
pub fn exceeds<T: Serialize + ?Sized>(value: &T, limit: usize) -> bool {
    js_length(value) > limit
}
