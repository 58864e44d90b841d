//! How the command line reaches the daemon: one request and its answer over a local socket, in JSON lines.
//!
//! The socket is a Unix socket or a named pipe that only its owner can open, never a TCP port. Without a daemon
//! the command line opens the database itself and asks the same [`Desktop`] in its own process, so that each
//! request has one implementation.

pub mod client;
mod desktop;
mod graph_requests;
mod message;
mod server;
mod sharing_requests;
mod socket;
mod views;

pub use desktop::{Desktop, NoRelay, OpenError, WORKER_SUBCOMMAND, worker_command};
pub use message::{Failure, FailureKind, Frame, Hello, PROTOCOL, Reply, Request, RunTarget};
pub use server::Server;
pub use views::{GraphView, OutboxItem, ProjectView, RunView, StatusView};
