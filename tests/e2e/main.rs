//! End-to-end tests: the real program as hub, relay and command line, and an assistant over real MCP.

#![expect(clippy::unwrap_used, reason = "a test that panics has failed")]

mod commands;
mod crash;
mod demo;
mod hostile;
mod mistakes;
mod owner;
mod world;
