//! Text helpers: cutting without breaking a character, and durations as people write them.

use std::time::Duration;

/// Cuts `text` to at most `units` UTF-16 code units, never inside a character.
pub(crate) fn cut_utf16(text: &mut String, units: usize) {
    let mut used = 0;
    let end = text.char_indices().find_map(|(at, c)| {
        used += c.len_utf16();
        (used > units).then_some(at)
    });
    if let Some(end) = end {
        text.truncate(end);
    }
}

/// The longest start of `text` that has at most `bytes` bytes and ends between characters.
pub(crate) fn cut_bytes(text: &str, bytes: usize) -> &str {
    &text[..text.floor_char_boundary(bytes)]
}

/// Reads `1500ms`, `30s`, `5m`, `1h 30m`.
pub(crate) fn parse_duration(text: &str) -> Result<Duration, String> {
    humantime::parse_duration(text).map_err(|error| format!("'{text}' is no duration like '30s' or '5m': {error}"))
}

/// Serde of a [`Duration`] as text such as `10m`.
pub(crate) mod duration {
    use serde::{Deserialize, Deserializer, Serializer, de::Error};
    use std::time::Duration;

    pub(crate) fn serialize<S: Serializer>(value: &Duration, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(&humantime::format_duration(*value))
    }

    pub(crate) fn deserialize<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Duration, D::Error> {
        let text = String::deserialize(deserializer)?;
        super::parse_duration(&text).map_err(D::Error::custom)
    }
}

/// Serde of an optional [`Duration`] as text.
pub(crate) mod optional_duration {
    use serde::{Deserialize, Deserializer, Serializer, de::Error};
    use std::time::Duration;

    pub(crate) fn serialize<S: Serializer>(value: &Option<Duration>, serializer: S) -> Result<S::Ok, S::Error> {
        match value {
            Some(value) => super::duration::serialize(value, serializer),
            None => serializer.serialize_none(),
        }
    }

    pub(crate) fn deserialize<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<Duration>, D::Error> {
        let text = Option::<String>::deserialize(deserializer)?;
        text.map(|text| super::parse_duration(&text).map_err(D::Error::custom)).transpose()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_cut_message_never_ends_inside_a_character() {
        let mut text = "ab😀cd".to_owned();
        cut_utf16(&mut text, 3);
        assert_eq!(text, "ab");
        let mut text = "ab😀cd".to_owned();
        cut_utf16(&mut text, 4);
        assert_eq!(text, "ab😀");
        assert_eq!(cut_bytes("ab😀cd", 4), "ab");
    }
}
