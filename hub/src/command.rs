//! The life of a command on the hub: a pure function from where it stands and what happens to where it goes.
//!
//! | state | event | next | effect |
//! |---|---|---|---|
//! | – | an assistant queues it | queued | |
//! | queued | start | running | takes the attempt and a lease |
//! | running | start, same or later attempt | running | the attempt and a new lease; a later one is a resumed run |
//! | running | start, earlier attempt | running | refused: a stale desktop |
//! | settled | start | same | refused with what stands |
//! | running | check | running | progress and a new lease |
//! | queued, settled | check | same | only told where it stands |
//! | queued, running | complete | its status | a desktop may end a command that it never started: consent missing |
//! | running, flagged | complete | cancelled | the Graph was over before its desktop read the flag (SPEC 1.6) |
//! | settled | complete, the same report | same | accepted again: the first answer was lost |
//! | settled | complete, another report | same | refused with what stands |
//! | queued | cancel | cancelled | no desktop ever sees it |
//! | running | cancel | running | the flag that the desktop reads |
//! | settled | cancel | same | |
//! | queued | expire | cancelled | waited longer than the hub lets commands wait |
//! | running | lost | failed | its desktop is online and does not know it |
//! | queued | device revoked | cancelled | nobody is left to run it |
//! | running | device revoked | failed | nobody is left to report |
//!
//! A store loads the row, calls [`step`] and writes what comes back, in one transaction.

use protocol::{CheckRequest, CommandStatus, Completion, CompletionStatus};

/// What the machine looks at.
#[derive(Debug, Clone, PartialEq)]
pub struct CommandState {
    /// Where the command stands.
    pub status: CommandStatus,
    /// The desktop's latest start; 0 before the first.
    pub attempt: u32,
    /// Whether the assistant asked for a running command to be cancelled.
    pub cancel_requested: bool,
    /// How it ended, once settled.
    pub completion: Option<Completion>,
}

/// What can happen to a command.
#[derive(Debug, Clone, PartialEq)]
pub enum Event {
    /// The desktop is about to spawn the worker.
    Start {
        /// Counts the desktop's starts from 1.
        attempt: u32,
    },
    /// The desktop says how the run goes.
    Check(CheckRequest),
    /// The desktop reports the end.
    Complete(Completion),
    /// The assistant, or the end of its connection, calls it off.
    Cancel,
    /// It waited too long in the queue.
    Expire,
    /// Its desktop no longer knows it.
    Lost,
    /// Its desktop was revoked.
    DeviceRevoked,
}

/// What a store must write. The state itself comes back whole; these are the columns that follow from the event.
#[derive(Debug, Clone, PartialEq)]
pub enum Write {
    /// Nothing changed.
    Nothing,
    /// It runs: note the time of the first start and give it a lease.
    Started,
    /// Keep the progress and renew the lease.
    Progress(CheckRequest),
    /// Only the cancel flag changed.
    CancelFlag,
    /// It is over: note the time.
    Settled,
}

/// The outcome of [`step`].
#[derive(Debug, Clone, PartialEq)]
pub struct Step {
    /// Where the command stands now.
    pub state: CommandState,
    /// What to write.
    pub write: Write,
    /// Whether the event was taken. A refused one left everything as it was.
    pub accepted: bool,
}

/// Applies one event.
pub fn step(state: CommandState, event: Event) -> Step {
    use CommandStatus::{Queued, Running};
    match (state.status, event) {
        (Queued, Event::Start { attempt }) => start(state, attempt),
        (Running, Event::Start { attempt }) if attempt >= state.attempt => start(state, attempt),
        (_, Event::Start { .. }) => same(state, false),

        (Running, Event::Check(progress)) => Step { state, write: Write::Progress(progress), accepted: true },
        (_, Event::Check(_)) => same(state, true),

        (Running, Event::Complete(completion)) if state.cancel_requested => {
            // The report is kept as it came, so that its repetition is known for one.
            let mut step = settle(state, completion);
            step.state.status = CommandStatus::Cancelled;
            step
        }
        (Queued | Running, Event::Complete(completion)) => settle(state, completion),
        (_, Event::Complete(completion)) => {
            let is_repeat = state.completion.as_ref() == Some(&completion);
            same(state, is_repeat)
        }

        (Queued, Event::Cancel) => end(state, CompletionStatus::Cancelled, "cancelled before it started"),
        (Running, Event::Cancel) if !state.cancel_requested => {
            Step { state: CommandState { cancel_requested: true, ..state }, write: Write::CancelFlag, accepted: true }
        }
        (_, Event::Cancel) => same(state, true),

        (Queued, Event::Expire) => {
            end(state, CompletionStatus::Cancelled, "it waited in the queue longer than this hub lets commands wait")
        }
        (_, Event::Expire) => same(state, false),

        (Running, Event::Lost) => end(state, CompletionStatus::Failed, "the desktop no longer knows this run"),
        (_, Event::Lost) => same(state, false),

        (Queued, Event::DeviceRevoked) => {
            end(state, CompletionStatus::Cancelled, "its desktop was removed from the hub")
        }
        (Running, Event::DeviceRevoked) => {
            end(state, CompletionStatus::Failed, "its desktop was removed from the hub while it ran")
        }
        (_, Event::DeviceRevoked) => same(state, false),
    }
}

fn start(state: CommandState, attempt: u32) -> Step {
    let state = CommandState { status: CommandStatus::Running, attempt, ..state };
    Step { state, write: Write::Started, accepted: true }
}

fn settle(state: CommandState, completion: Completion) -> Step {
    let status = completion.status.into();
    let state = CommandState { status, completion: Some(completion), ..state };
    Step { state, write: Write::Settled, accepted: true }
}

fn end(state: CommandState, status: CompletionStatus, why: &str) -> Step {
    settle(state, Completion::without_run(status, why))
}

fn same(state: CommandState, accepted: bool) -> Step {
    Step { state, write: Write::Nothing, accepted }
}

/// Whether a running command that its desktop does not list is given up: its lease has run out, and the desktop
/// has been online for a whole lease, so that one that wakes up after a week has the time to speak for it. Times in
/// milliseconds since the epoch.
pub fn is_lost(lease_until: i64, online_since: i64, lease_ms: i64, now: i64) -> bool {
    lease_until <= now && online_since.saturating_add(lease_ms) <= now
}

#[cfg(test)]
mod tests {
    use std::fmt::Write as _;

    use super::*;

    fn states() -> Vec<(&'static str, CommandState)> {
        let state = |status, attempt, cancel_requested, completion| CommandState {
            status,
            attempt,
            cancel_requested,
            completion,
        };
        use CommandStatus::{Cancelled, Completed, Failed, Queued, Running};
        vec![
            ("queued", state(Queued, 0, false, None)),
            ("running", state(Running, 2, false, None)),
            ("running, flagged", state(Running, 2, true, None)),
            ("completed", state(Completed, 2, false, Some(report()))),
            ("failed", state(Failed, 2, false, Some(Completion::without_run(CompletionStatus::Failed, "x")))),
            ("cancelled", state(Cancelled, 0, false, Some(Completion::without_run(CompletionStatus::Cancelled, "x")))),
        ]
    }

    fn report() -> Completion {
        Completion { result: Some(7.into()), ..Completion::without_run(CompletionStatus::Completed, "") }
    }

    fn events() -> Vec<(&'static str, Event)> {
        vec![
            ("start 1", Event::Start { attempt: 1 }),
            ("start 2", Event::Start { attempt: 2 }),
            ("start 3", Event::Start { attempt: 3 }),
            ("check", Event::Check(CheckRequest::default())),
            ("complete", Event::Complete(report())),
            ("complete as cancelled", Event::Complete(Completion::without_run(CompletionStatus::Cancelled, "no"))),
            ("cancel", Event::Cancel),
            ("expire", Event::Expire),
            ("lost", Event::Lost),
            ("device revoked", Event::DeviceRevoked),
        ]
    }

    /// Every edge of the table, so that a change of any of them has to be meant.
    #[test]
    fn every_event_in_every_state() {
        let mut edges = String::new();
        for (from, state) in states() {
            for (name, event) in events() {
                let Step { state, write, accepted } = step(state.clone(), event);
                let to = state.status.as_str();
                let flag = if state.cancel_requested { ", flagged" } else { "" };
                let write = match write {
                    Write::Progress(_) => "Progress".to_owned(),
                    other => format!("{other:?}"),
                };
                let verdict = if accepted { "" } else { " (refused)" };
                writeln!(edges, "{from} -- {name} --> {to}{flag}: {write}{verdict}").unwrap();
            }
        }
        insta::assert_snapshot!(edges);
    }

    #[test]
    fn a_settled_command_never_changes() {
        for (_, before) in states().into_iter().filter(|(_, state)| state.status.is_settled()) {
            for (name, event) in events() {
                let after = step(before.clone(), event);
                assert_eq!((after.state, after.write), (before.clone(), Write::Nothing), "{name}");
            }
        }
    }

    #[test]
    fn a_desktop_that_wakes_up_gets_a_lease_to_speak_for_its_runs() {
        let (lease, woke) = (60_000, 1_000_000);
        assert!(!is_lost(500, woke, lease, woke), "the lease ran out while the laptop slept");
        assert!(!is_lost(500, woke, lease, woke + lease - 1));
        assert!(is_lost(500, woke, lease, woke + lease));
        assert!(!is_lost(woke + lease + 1, woke, lease, woke + lease), "its lease is still good");
    }
}
