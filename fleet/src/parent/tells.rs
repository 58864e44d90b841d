//! What a script only says: log lines, phases, progress. Cut and counted here, since a worker is not trusted.

use std::sync::atomic::Ordering::SeqCst;

use serde::Deserialize;
use serde_json::{Value, json};

use super::calls::Caller;
use crate::limits::{ITEMS, LOG_BYTES, LOG_LINES};
use crate::text::{cut_bytes, cut_utf16};
use crate::wire::TellKind;
use crate::{Event, GraphError};

pub(super) const PHASE_UNITS: usize = 200;
/// Failed items and retries of a run that are told one by one.
const FAILURES: u32 = 4 * ITEMS as u32;

#[derive(Deserialize)]
struct Log {
    message: String,
    data: Option<Value>,
}

#[derive(Deserialize)]
struct Phase {
    title: String,
}

#[derive(Deserialize)]
struct Progress {
    done: f64,
    total: f64,
    message: Option<String>,
}

#[derive(Deserialize)]
struct Retry {
    attempt: u32,
    delay_ms: f64,
    error: GraphError,
}

/// Turns what was said into an event. What is malformed or too much is dropped, the latter with one warning.
pub(super) fn tell(caller: &Caller, kind: TellKind, input: Value) {
    let run = &caller.run;
    let (counter, most) = match kind {
        TellKind::ItemFailed | TellKind::Retry => (&run.failures_told, FAILURES),
        TellKind::Log | TellKind::Phase | TellKind::Progress => (&run.told, LOG_LINES),
    };
    let told = counter.fetch_add(1, SeqCst);
    if told == most {
        let message = format!("the Graph said more than {most} things; the rest is left out");
        run.tell(Event::Warning { message });
    }
    if told < most
        && let Some(event) = event(caller, kind, input)
    {
        run.tell(event);
    }
}

fn event(caller: &Caller, kind: TellKind, input: Value) -> Option<Event> {
    Some(match kind {
        TellKind::Log => {
            let Log { message, data } = serde_json::from_value(input).ok()?;
            Event::Log { message: cut_bytes(&message, LOG_BYTES).to_owned(), data: data.map(bounded) }
        }
        TellKind::Phase => {
            let Phase { mut title } = serde_json::from_value(input).ok()?;
            cut_utf16(&mut title, PHASE_UNITS);
            Event::PhaseStarted { title }
        }
        TellKind::Progress => {
            let Progress { done, total, message } = serde_json::from_value(input).ok()?;
            let message = message.map(|message| cut_bytes(&message, LOG_BYTES).to_owned());
            Event::Progress { done, total, message }
        }
        TellKind::ItemFailed => Event::ItemFailed { error: own(caller, serde_json::from_value(input).ok()?) },
        TellKind::Retry => {
            let Retry { attempt, delay_ms, error } = serde_json::from_value(input).ok()?;
            Event::RetryScheduled { attempt, delay_ms: delay_ms as u64, error: own(caller, error) }
        }
    })
}

fn bounded(data: Value) -> Value {
    let bytes = data.to_string().len();
    if bytes <= LOG_BYTES { data } else { json!(format!("{bytes} bytes of JSON, left out")) }
}

/// The script's own words, cut, and at its file.
pub(super) fn own(caller: &Caller, error: GraphError) -> GraphError {
    let file = error.line.map(|_| caller.file.clone());
    GraphError {
        retryable: error.retryable,
        line: error.line,
        column: error.column,
        file,
        ..GraphError::new(cut_bytes(&error.name, 100), cut_bytes(&error.code, 100), error.message)
    }
}
