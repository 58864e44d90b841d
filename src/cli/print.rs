//! The two streams: data on standard output, and on standard error what happens on the way.
//!
//! A reader may go away in the middle, as `head -1` does. That is no mistake of anybody: the command goes on to its
//! end and says nothing more. Data that could not be written for another reason is an error.

use std::fmt::Display;
use std::io::{self, Write};

use super::error::CliError;

/// A line of data.
///
/// # Errors
/// When it cannot be written, as to a full disk.
pub(super) fn put(text: impl Display) -> Result<(), CliError> {
    put_exactly(format_args!("{text}\n"))
}

/// Data without an end of line of its own.
///
/// # Errors
/// As [`put`].
pub(super) fn put_exactly(text: impl Display) -> Result<(), CliError> {
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
    let _ = writeln!(io::stderr(), "{text}");
}
