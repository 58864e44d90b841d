//! Bearer tokens: 256 random bits that are shown once and stored only as a hash.

use std::fmt;

use sha2::{Digest, Sha256};

/// A new token in the clear. `Display` shows it, for the one moment in which its owner reads it; `Debug` does not,
/// so that it cannot reach a log by way of a struct that holds it.
#[derive(Clone, PartialEq, Eq)]
pub struct Token(String);

impl Token {
    /// A random token for a connection: `grc_` and 64 hex digits.
    pub(crate) fn for_connection() -> Self {
        Self::random("grc_")
    }

    /// A random token for a desktop: `grd_` and 64 hex digits.
    pub(crate) fn for_device() -> Self {
        Self::random("grd_")
    }

    /// The prefix tells people, and scanners for leaked secrets, what they are looking at.
    fn random(prefix: &str) -> Self {
        let secret: [u8; 32] = rand::random();
        Self(format!("{prefix}{}", hex::encode(secret)))
    }

    /// The form in which it is stored.
    pub(crate) fn hash(&self) -> TokenHash {
        TokenHash::of(&self.0)
    }
}

impl fmt::Display for Token {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl fmt::Debug for Token {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Token(…)")
    }
}

/// SHA-256 of a token, in hex. A plain hash is enough: the token has 256 random bits, so there is nothing to guess.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct TokenHash(String);

impl TokenHash {
    /// Hashes a token as it came in.
    pub fn of(token: &str) -> Self {
        Self(hex::encode(Sha256::digest(token)))
    }

    /// The stored text.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_token_cannot_leak_through_debug() {
        let token = Token::for_connection();
        let shown = token.to_string();
        assert!(shown.starts_with("grc_") && shown.len() == 4 + 64, "{shown}");
        assert_eq!(format!("{token:?}"), "Token(…)");
        assert_ne!(Token::for_connection(), token);
    }
}
