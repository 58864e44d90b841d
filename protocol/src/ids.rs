//! Identifiers. Each can only be made by parsing or by generating, so a value of the type is a valid id.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Deserializer, Serialize, Serializer, de};
use uuid::Uuid;

/// Why a text is not the id it should be.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{kind} must be {rule}, got `{got}`")]
pub struct IdError {
    kind: &'static str,
    rule: &'static str,
    /// At most 60 characters of the offending text: it may come from outside and be of any length.
    got: String,
}

impl IdError {
    fn new(kind: &'static str, rule: &'static str, text: &str) -> Self {
        let mut got: String = text.chars().take(60).flat_map(char::escape_debug).collect();
        if text.chars().nth(60).is_some() {
            got.push('…');
        }
        Self { kind, rule, got }
    }
}

macro_rules! text_id {
    ($(#[$doc:meta])* $name:ident) => {
        $(#[$doc])*
        #[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub struct $name(String);

        impl $name {
            /// The id as it is written on the wire and in both databases.
            pub fn as_str(&self) -> &str {
                &self.0
            }
        }

        impl_text!($name);
    };
}

/// Display, Debug and serde through the text form, so that no id can be deserialised without its check.
macro_rules! impl_text {
    ($name:ident) => {
        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                self.0.fmt(f)
            }
        }

        impl fmt::Debug for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                write!(f, concat!(stringify!($name), "({})"), self.0)
            }
        }

        impl Serialize for $name {
            fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
                serializer.collect_str(&self.0)
            }
        }

        impl<'de> Deserialize<'de> for $name {
            fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
                String::deserialize(deserializer)?.parse().map_err(de::Error::custom)
            }
        }
    };
}

macro_rules! uuid_id {
    ($(#[$doc:meta])* $name:ident, $kind:literal) => {
        $(#[$doc])*
        #[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub struct $name(Uuid);

        impl $name {
            /// A new id. Version 7, so that ids sort in the order in which they were made.
            #[expect(clippy::new_without_default, reason = "a default that differs each time would surprise")]
            pub fn new() -> Self {
                Self(Uuid::now_v7())
            }

            /// The id as a UUID.
            pub fn as_uuid(&self) -> Uuid {
                self.0
            }
        }

        impl From<Uuid> for $name {
            fn from(id: Uuid) -> Self {
                Self(id)
            }
        }

        impl FromStr for $name {
            type Err = IdError;

            fn from_str(text: &str) -> Result<Self, IdError> {
                // `Uuid` also reads braces, a urn: prefix and the form without hyphens: one id, one spelling.
                match Uuid::try_parse(text) {
                    Ok(id) if text.len() == 36 => Ok(Self(id)),
                    _ => Err(IdError::new($kind, "a UUID", text)),
                }
            }
        }

        impl_text!($name);
    };
}

uuid_id!(
    /// One queued run of a Graph session.
    CommandId,
    "a command id"
);

uuid_id!(
    /// One run of a Graph on the desktop.
    ExecutionId,
    "an execution id"
);

impl CommandId {
    /// The channel on which this command's run is bound to its project (SPEC 1.4).
    pub fn channel(&self) -> String {
        format!("graph:external:{self}")
    }
}

text_id!(
    /// The fixed id of one Graph saved on one desktop: `gs_` and 32 lowercase hex digits.
    GraphSessionId
);

impl GraphSessionId {
    /// A new, random session id.
    pub fn generate() -> Self {
        Self(format!("gs_{}", Uuid::new_v4().simple()))
    }
}

impl FromStr for GraphSessionId {
    type Err = IdError;

    fn from_str(text: &str) -> Result<Self, IdError> {
        let is_hex = |digits: &str| digits.bytes().all(|b| matches!(b, b'0'..=b'9' | b'a'..=b'f'));
        match text.strip_prefix("gs_") {
            Some(digits) if digits.len() == 32 && is_hex(digits) => Ok(Self(text.to_owned())),
            _ => Err(IdError::new("a Graph session id", "`gs_` and 32 lowercase hex digits", text)),
        }
    }
}

/// Opaque ids are given out by a hub; the rule only keeps them safe to log, to store and to put into a URL.
fn parse_opaque(kind: &'static str, text: &str) -> Result<String, IdError> {
    let is_safe = |b: u8| b.is_ascii_alphanumeric() || b == b'_' || b == b'-';
    if (1..=100).contains(&text.len()) && text.bytes().all(is_safe) {
        return Ok(text.to_owned());
    }
    Err(IdError::new(kind, "1 to 100 letters, digits, `_` or `-`", text))
}

text_id!(
    /// A project on the hub.
    ProjectId
);

impl FromStr for ProjectId {
    type Err = IdError;

    fn from_str(text: &str) -> Result<Self, IdError> {
        parse_opaque("a project id", text).map(Self)
    }
}

text_id!(
    /// One desktop, as it names itself to a hub.
    DeviceId
);

impl FromStr for DeviceId {
    type Err = IdError;

    fn from_str(text: &str) -> Result<Self, IdError> {
        parse_opaque("a device id", text).map(Self)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_command_id_has_one_spelling() {
        let id = "0199c0de-0000-7000-8000-000000000001";
        assert_eq!(id.parse::<CommandId>().unwrap().to_string(), id);
        for other in
            ["", "1", "0199c0de000070008000000000000001", "{0199c0de-0000-7000-8000-000000000001}", "../../etc"]
        {
            assert!(other.parse::<CommandId>().is_err(), "{other}");
        }
    }

    #[test]
    fn a_session_id_is_gs_and_32_lowercase_hex_digits() {
        let id = GraphSessionId::generate();
        assert_eq!(id.as_str().parse::<GraphSessionId>().unwrap(), id);
        let upper = id.as_str().to_uppercase();
        for bad in ["gs_", &upper, &id.as_str()[..34], &format!("{id}0"), &id.as_str().replace("gs_", "gr_")] {
            assert!(bad.parse::<GraphSessionId>().is_err(), "{bad}");
        }
    }

    #[test]
    fn an_error_shows_a_bounded_escaped_part_of_what_came() {
        let error = format!("\u{1b}[31m{}", "x".repeat(10_000)).parse::<ProjectId>().unwrap_err().to_string();
        assert!(error.len() < 250 && !error.contains('\u{1b}'), "{error}");
    }
}
