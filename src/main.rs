//! The one binary: the owner's command line, the daemon, the hub, and the worker in which a Graph runs.

use std::process::ExitCode;

/// Gives a worker its memory limit; in every other process it is the system's allocator.
#[global_allocator]
static ALLOCATOR: fleet::CappedAllocator = fleet::CappedAllocator;

fn main() -> ExitCode {
    // A worker starts before anything else is set up: it must be quick, and owns nothing but its pipes.
    if std::env::args_os().nth(1).is_some_and(|word| word == graph_relay::control::WORKER_SUBCOMMAND) {
        return fleet::worker_main();
    }
    graph_relay::cli::main()
}
