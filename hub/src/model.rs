//! The people, machines and permissions that the hub knows.

use std::fmt;
use std::str::FromStr;

use jiff::Timestamp;
use protocol::{DeviceId, Project, ProjectId};

/// A text that names none of the values that are allowed.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("unknown {kind} `{got}`; expected one of {expected}")]
pub struct UnknownName {
    kind: &'static str,
    got: String,
    expected: String,
}

macro_rules! named {
    ($(#[$doc:meta])* $name:ident, $kind:literal, { $($(#[$vdoc:meta])* $variant:ident = $text:literal),+ $(,)? }) => {
        $(#[$doc])*
        #[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub enum $name { $($(#[$vdoc])* $variant),+ }

        impl $name {
            /// Every value, in the order in which lists show them.
            pub const ALL: &'static [Self] = &[$(Self::$variant),+];

            /// The word used on the wire and in the database.
            pub fn as_str(self) -> &'static str {
                match self { $(Self::$variant => $text),+ }
            }
        }

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.pad(self.as_str())
            }
        }

        impl FromStr for $name {
            type Err = UnknownName;

            fn from_str(text: &str) -> Result<Self, UnknownName> {
                Self::ALL.iter().copied().find(|value| value.as_str() == text).ok_or_else(|| UnknownName {
                    kind: $kind,
                    got: text.chars().take(60).collect(),
                    expected: words(Self::ALL),
                })
            }
        }
    };
}

named!(
    /// What a token may be used for (SPEC 4.1).
    Scope, "scope", {
        /// See sessions, runs and results.
        Read = "osfoundry:read",
        /// Leave notes and status.
        Write = "osfoundry:write",
        /// Start and cancel work.
        Run = "osfoundry:run",
        /// Use the owner's models.
        Models = "osfoundry:models",
    }
);

named!(
    /// What the owner lets a connection do in one project: its grant (SPEC 4.2).
    Action, "action", {
        /// See sessions, runs and results.
        Read = "read",
        /// Leave notes and status.
        Write = "write",
        /// Start and cancel work.
        Run = "run",
    }
);

/// Space-separated words, the form of a scope list in OAuth and of both lists in the database.
pub(crate) fn words<T: fmt::Display>(values: &[T]) -> String {
    values.iter().map(ToString::to_string).collect::<Vec<_>>().join(" ")
}

/// Reads what [`words`] wrote.
pub(crate) fn parse_words<T: FromStr>(text: &str) -> Result<Vec<T>, T::Err> {
    text.split_whitespace().map(str::parse).collect()
}

/// One assistant that may use the hub on behalf of its owner.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Connection {
    /// `con_` and 24 hex digits.
    pub id: String,
    /// What the owner calls it.
    pub name: String,
    /// The user on whose behalf it acts.
    pub owner: String,
    /// What its token may be used for.
    pub scopes: Vec<Scope>,
    /// What it may do, project by project.
    pub grants: Vec<Grant>,
    /// When it was made.
    pub created_at: Timestamp,
    /// When it was revoked, if it was.
    pub revoked_at: Option<Timestamp>,
}

/// What the owner lets one connection do in one project.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Grant {
    /// The project.
    pub project: Project,
    /// The actions, in a fixed order.
    pub actions: Vec<Action>,
}

impl Connection {
    /// The projects in which the owner granted `action`.
    pub fn projects_with(&self, action: Action) -> impl Iterator<Item = &Project> {
        self.grants.iter().filter(move |grant| grant.actions.contains(&action)).map(|grant| &grant.project)
    }
}

/// What is needed to make a connection.
#[derive(Debug, Clone)]
pub struct NewConnection {
    /// What the owner calls it.
    pub name: String,
    /// The user on whose behalf it acts: a member of some project.
    pub owner: String,
    /// The projects it may use; empty means all in which the owner is a member now.
    pub projects: Vec<ProjectId>,
    /// What its token may be used for.
    pub scopes: Vec<Scope>,
    /// What it may do in each of those projects.
    pub actions: Vec<Action>,
}

/// One desktop that may fetch commands.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DeviceRecord {
    /// The hub's own id for it: the one that its token stands for, whatever the desktop calls itself.
    pub id: DeviceId,
    /// What the owner calls it.
    pub name: String,
    /// The user whose laptop it is.
    pub owner: String,
    /// When it was made.
    pub created_at: Timestamp,
    /// Its last sync.
    pub last_seen_at: Option<Timestamp>,
    /// When it was revoked, if it was.
    pub revoked_at: Option<Timestamp>,
}

/// What is needed to make a device.
#[derive(Debug, Clone)]
pub struct NewDevice {
    /// What the owner calls it.
    pub name: String,
    /// The user whose laptop it is: a member of some project.
    pub owner: String,
}
