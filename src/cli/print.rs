//! The two streams: data on standard output, and on standard error what happens on the way.
//!
//! A reader may go away in the middle, as `head -1` does. That is no mistake of anybody: the command goes on to its
//! end and says nothing more. Data that could not be written for another reason is an error.
//!
//! Scripts, models and hubs write much of what is shown: whatever goes through here cannot command the terminal.

use std::fmt::Display;
use std::io::{self, IsTerminal, Write};

use super::error::CliError;
use super::text::harmless;

/// A line of data.
///
/// # Errors
/// When it cannot be written, as to a full disk.
pub(super) fn put(text: impl Display) -> Result<(), CliError> {
    write(format_args!("{}\n", harmless(&text.to_string())))
}

/// Data byte for byte, without an end of line of its own; on a terminal it is as harmless as all else.
///
/// # Errors
/// As [`put`].
pub(super) fn put_exactly(text: impl Display) -> Result<(), CliError> {
    if io::stdout().is_terminal() { write(harmless(&text.to_string())) } else { write(text) }
}

fn write(text: impl Display) -> Result<(), CliError> {
    let mut stdout = io::stdout().lock();
    match write!(stdout, "{text}").and_then(|()| stdout.flush()) {
        Err(error) if error.kind() != io::ErrorKind::BrokenPipe => {
            Err(CliError::internal(format!("cannot write to standard output: {error}")))
        }
        _ => Ok(()),
    }
}

/// A line for whoever watches.
pub(super) fn say(text: impl Display) {
    // There is no other place to tell that nobody can be told.
    let _ = writeln!(io::stderr(), "{}", harmless(&text.to_string()));
}
