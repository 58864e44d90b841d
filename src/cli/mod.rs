//! The command line: what the owner types, and what he reads.
//!
//! Standard output carries data only (tables, results, JSON); what happens on the way goes to standard error. One
//! place ([`error`]) turns what went wrong into a message, a hint and an exit code.

#![deny(
    clippy::print_stdout,
    clippy::print_stderr,
    reason = "the macros panic when nobody reads any more; `print` does not"
)]

mod ask;
mod daemon;
mod demo;
pub mod error;
mod graph;
mod history;
mod hub;
mod live;
mod logs;
mod options;
mod print;
mod sharing;
mod status;
mod text;

use std::process::ExitCode;

use clap::Parser;

use self::error::CliError;
use self::options::{Command, Options};

/// Runs the command that the arguments name and gives back its exit code.
pub fn main() -> ExitCode {
    // Fails only if a provider is installed already, which is as good.
    let _ = rustls::crypto::ring::default_provider().install_default();
    let options = Options::parse();
    let runtime = match tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build() {
        Ok(runtime) => runtime,
        Err(error) => return CliError::internal(format!("no runtime: {error}")).report(),
    };
    let done = runtime.block_on(run(options));
    // A blocking read of a stuck disk must not keep the command from ending.
    runtime.shutdown_background();
    match done {
        Ok(code) => code,
        Err(error) => error.report(),
    }
}

async fn run(options: Options) -> Result<ExitCode, CliError> {
    match options.command {
        Command::Run => daemon::run().await,
        Command::Status { json } => status::status(json).await,
        Command::Graph(command) => graph::run(command).await,
        Command::Project(command) => sharing::project(command).await,
        Command::Share { graph, project } => sharing::share(graph, project, true).await,
        Command::Unshare { graph, project } => sharing::share(graph, project, false).await,
        Command::History(args) => history::history(args).await,
        Command::Cancel { id } => history::cancel(id).await,
        Command::Outbox(command) => history::outbox(command).await,
        Command::Hub(args) => hub::run(args).await,
        Command::Demo(args) => demo::run(args).await,
    }
}
