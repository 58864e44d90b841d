//! The worker's half of a run: one process that holds one script and nothing else.
//!
//! Two threads. The main one reads what the parent says, and ends the process at once when the parent's end of the pipe
//! closes, even while the script loops. The other one, with a stack of 64 MB, parses and runs the script. There is no
//! async runtime: the script's host calls are promises that the replies resolve.
//!
//! The process owns no state that outlives it, opens no file and no socket, and has an empty environment.
//!
//! - `memory`: the cap, and what else the operating system is asked to hold the process to.
//! - `executor`: the queue of microtasks.
//! - `realm`: what a script finds in its world, and what it doesn't.
//! - `host`: the verbs' way out, by promises.
//! - `script`: the life of one script, from its text to its result.
//! - `failure`: errors of the engine as [`crate::GraphError`]s.

mod executor;
mod failure;
mod host;
mod json;
mod memory;
mod realm;
mod script;
mod strings;

use std::io::{BufRead, Read};
use std::process::ExitCode;
use std::sync::mpsc;

pub use memory::CappedAllocator;

use crate::exit_code;
use crate::wire::ToWorker;

/// The native stack of the script's thread: 20,000 nested parentheses still parse.
const STACK_BYTES: usize = 64 * 1024 * 1024;

/// The longest line that a parent sends: a script and its arguments, or a reply.
const LINE_BYTES: u64 = 64 * 1024 * 1024;

/// The body of the hidden subcommand in which a script runs.
///
/// Reads JSON lines on stdin and writes JSON lines on stdout. Ends the process with one of [`crate::exit_code`] and
/// never returns normally; a memory cap holds only where [`CappedAllocator`] is the global allocator.
pub fn worker_main() -> ExitCode {
    memory::prepare_process();
    std::panic::set_hook(Box::new(|panic| {
        eprintln!("{panic}");
        exit(exit_code::PANIC);
    }));
    let (to_script, inbox) = mpsc::channel();
    let script = std::thread::Builder::new()
        .name("script".to_owned())
        .stack_size(STACK_BYTES)
        .spawn(move || script::live(inbox));
    if script.is_err() {
        exit(exit_code::MEMORY);
    }
    memory::close_in();
    read_messages(&to_script)
}

/// Hands the parent's messages to the script's thread until the parent is gone.
fn read_messages(to_script: &mpsc::Sender<ToWorker>) -> ! {
    let mut stdin = std::io::stdin().lock();
    let mut line = Vec::new();
    loop {
        line.clear();
        match (&mut stdin).take(LINE_BYTES).read_until(b'\n', &mut line) {
            Ok(0) | Err(_) => exit(exit_code::ORPHAN),
            Ok(_) => {}
        }
        let Ok(message) = serde_json::from_slice(&line) else { exit(exit_code::PROTOCOL) };
        if to_script.send(message).is_err() {
            exit(exit_code::PANIC);
        }
        line.shrink_to(64 * 1024);
    }
}

fn exit(code: u8) -> ! {
    memory::exit_now(code)
}
