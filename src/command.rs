//! The life of a command on the desktop, as one pure function.
//!
//! | state    | event                                                | next       |
//! |----------|------------------------------------------------------|------------|
//! | –        | [`Event::Brought`]: a sync brought an unknown id      | `received` |
//! | any      | [`Event::Brought`]: a known id again                  | no change  |
//! | received | [`Event::Rejected`]: no consent, or it makes no sense | `finished` |
//! | received | [`Event::StartDenied`]: cancelled or gone at the hub  | `dropped`  |
//! | received | [`Event::Started`]: the hub agreed                    | `running`  |
//! | running  | [`Event::Ended`]: the script is over                  | `finished` |
//! | running  | [`Event::DaemonDied`]: seen at the next start         | `finished` |
//! | finished | [`Event::Acknowledged`]: the hub has the report       | `reported` |
//! | finished | [`Event::RefusedForGood`]: the hub will never take it | `reported` |
//!
//! Everything else is a bug and says so. Each step is stored in the transaction that does what the step stands
//! for, so that a crash leaves a command in exactly one of these states.

use std::fmt;

/// Where a command stands.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum State {
    /// Stored, waiting for the worker.
    Received,
    /// Its binding and its execution are written; the worker is at work.
    Running,
    /// Over; its report is in the outbox.
    Finished,
    /// Over, and nothing more is to be sent.
    Reported,
    /// Never ran, and there is nothing to report: the hub itself had ended it.
    Dropped,
}

/// What can happen to a command.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Event {
    /// A sync brought it.
    Brought,
    /// It ends without a run.
    Rejected,
    /// The hub answered `start` with "cancelled" or "gone".
    StartDenied,
    /// The hub answered `start` with "running".
    Started,
    /// The run is over, however it went.
    Ended,
    /// The daemon stopped while the run was on.
    DaemonDied,
    /// The hub has the report.
    Acknowledged,
    /// The hub refused the report for good; it is kept as a dead letter.
    RefusedForGood,
}

/// An event that cannot happen in this state.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("a command that is {} cannot be {event:?}", .state.map_or("unknown", State::as_str))]
pub struct Illegal {
    /// The state; none for a command that is not known.
    pub state: Option<State>,
    /// What was to happen.
    pub event: Event,
}

/// The next state.
///
/// # Errors
/// [`Illegal`], for an edge that the table does not have.
pub fn next(state: Option<State>, event: Event) -> Result<State, Illegal> {
    use State::{Dropped, Finished, Received, Reported, Running};
    Ok(match (state, event) {
        (None, Event::Brought) => Received,
        (Some(known), Event::Brought) => known,
        (Some(Received), Event::Rejected) => Finished,
        (Some(Received), Event::StartDenied) => Dropped,
        (Some(Received), Event::Started) => Running,
        (Some(Running), Event::Ended | Event::DaemonDied) => Finished,
        (Some(Finished), Event::Acknowledged | Event::RefusedForGood) => Reported,
        _ => return Err(Illegal { state, event }),
    })
}

impl State {
    /// All states.
    pub const ALL: [Self; 5] = [Self::Received, Self::Running, Self::Finished, Self::Reported, Self::Dropped];

    /// The word in the database.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Received => "received",
            Self::Running => "running",
            Self::Finished => "finished",
            Self::Reported => "reported",
            Self::Dropped => "dropped",
        }
    }

    /// Reads the word in the database.
    pub fn from_word(word: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|state| state.as_str() == word)
    }
}

impl fmt::Display for State {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const EVENTS: [Event; 8] = [
        Event::Brought,
        Event::Rejected,
        Event::StartDenied,
        Event::Started,
        Event::Ended,
        Event::DaemonDied,
        Event::Acknowledged,
        Event::RefusedForGood,
    ];

    /// Every edge there is; all other pairs are refused. Losing one would run a Graph twice or lose its report.
    #[test]
    fn the_table_is_complete() {
        let mut edges = Vec::new();
        for state in [None].into_iter().chain(State::ALL.map(Some)) {
            for event in EVENTS {
                if let Ok(to) = next(state, event) {
                    edges.push(format!("{} {event:?} {to}", state.map_or("-", State::as_str)));
                }
            }
        }
        let expected = [
            "- Brought received",
            "received Brought received",
            "received Rejected finished",
            "received StartDenied dropped",
            "received Started running",
            "running Brought running",
            "running Ended finished",
            "running DaemonDied finished",
            "finished Brought finished",
            "finished Acknowledged reported",
            "finished RefusedForGood reported",
            "reported Brought reported",
            "dropped Brought dropped",
        ];
        assert_eq!(edges, expected);
    }

    #[test]
    fn a_command_that_ended_can_never_run_again() {
        for state in [State::Finished, State::Reported, State::Dropped] {
            for event in EVENTS {
                assert_ne!(next(Some(state), event), Ok(State::Running), "{state} {event:?}");
            }
        }
    }

    #[test]
    fn words_survive_the_database() {
        for state in State::ALL {
            assert_eq!(State::from_word(state.as_str()), Some(state));
        }
        assert_eq!(State::from_word("paused"), None);
    }
}
