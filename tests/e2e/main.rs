//! End-to-end tests: the real program as hub, relay and command line, and an assistant over real MCP.

mod commands;
mod crash;
mod demo;
mod hostile;
mod owner;
mod world;
