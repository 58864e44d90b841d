//! What an operator can set.

use std::time::Duration;

/// The hub's settings; [`Settings::default`] is a hub on this machine alone.
#[derive(Debug, Clone)]
pub struct Settings {
    /// Where the hub is reached from outside, without a trailing slash. Its host is the one that requests may
    /// name, and the metadata for assistants is built on it.
    pub public_url: String,
    /// How long a running command stays alive without a word from its desktop while that desktop is online.
    /// Also how recent the last sync must be for a desktop to count as online.
    pub lease: Duration,
    /// How long a command may wait for its desktop; `None` lets it wait for ever.
    pub queue_ttl: Option<Duration>,
    /// How often desktops are asked to sync, answered as `next_poll_s`.
    pub poll: Duration,
}

impl Default for Settings {
    fn default() -> Self {
        Self {
            public_url: "http://127.0.0.1:8787".to_owned(),
            lease: Duration::from_secs(60),
            queue_ttl: Some(Duration::from_secs(7 * 24 * 60 * 60)),
            poll: Duration::from_secs(20),
        }
    }
}
