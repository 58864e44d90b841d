//! JSON text on its way out of the script.

use crate::GraphError;
use crate::limits::JSON_VALUES;
use crate::wire::{JSON_DEPTH, values};

/// Why a value cannot leave.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Unfit {
    TooDeep,
    TooMany,
}

impl Unfit {
    pub(super) fn error(self, what: &str) -> GraphError {
        match self {
            Self::TooDeep => GraphError::new("TypeError", "", format!("{what} nests too deeply for JSON")),
            Self::TooMany => {
                let message = format!("{what} has more than {JSON_VALUES} values: join them into texts");
                GraphError::new("GraphError", "too_large", message)
            }
        }
    }
}

/// Makes `JSON.stringify` output what a strict parser takes: lone surrogates, which JavaScript writes as escapes,
/// become U+FFFD. Refuses what nests deeper, or has more values, than the parent reads.
pub(super) fn clean(mut text: String) -> Result<String, Unfit> {
    if values(text.as_bytes()) > JSON_VALUES {
        return Err(Unfit::TooMany);
    }
    let mut lone = Vec::new();
    let bytes = text.as_bytes();
    let (mut depth, mut in_string, mut at) = (0_usize, false, 0);
    while let Some(&byte) = bytes.get(at) {
        match byte {
            b'\\' => {
                // JSON.stringify writes pairs as themselves, so that an escaped surrogate is always a lone one.
                let surrogate = bytes.get(at + 1..at + 4).is_some_and(|escape| {
                    escape[0] == b'u'
                        && escape[1].eq_ignore_ascii_case(&b'd')
                        && matches!(escape[2], b'8'..=b'9' | b'a'..=b'f' | b'A'..=b'F')
                });
                if surrogate {
                    lone.push(at);
                }
                at += 1;
            }
            b'"' => in_string = !in_string,
            b'[' | b'{' if !in_string => {
                depth += 1;
                if depth > JSON_DEPTH {
                    return Err(Unfit::TooDeep);
                }
            }
            b']' | b'}' if !in_string => depth -= 1,
            _ => {}
        }
        at += 1;
    }
    for at in lone {
        text.replace_range(at..at + "\\udc00".len(), "\\ufffd");
    }
    Ok(text)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_lone_surrogate_becomes_the_replacement_character() {
        assert_eq!(clean(r#"["a\ud83db"]"#.to_owned()).unwrap(), r#"["a\ufffdb"]"#);
        assert_eq!(clean(r#"["\\ud83d"]"#.to_owned()).unwrap(), r#"["\\ud83d"]"#);
        assert_eq!(clean(r#"["\u001f\n"]"#.to_owned()).unwrap(), r#"["\u001f\n"]"#);
    }

    #[test]
    fn depth_counts_brackets_outside_of_strings_only() {
        let deep = |levels: usize| "[".repeat(levels) + &"]".repeat(levels);
        assert!(clean(deep(JSON_DEPTH)).is_ok());
        assert_eq!(clean(deep(JSON_DEPTH + 1)), Err(Unfit::TooDeep));
        assert!(clean(format!("\"{}\"", "[".repeat(500))).is_ok());
        assert!(serde_json::from_str::<serde_json::Value>(&deep(JSON_DEPTH)).is_ok());
    }
}
