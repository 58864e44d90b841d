//! The hub through its router, without sockets: what desktops and assistants rely on.

#![expect(clippy::unwrap_used, reason = "a test that panics has failed")]

mod hostile;
mod mcp;
mod relay;
mod resilience;
mod runs;
mod world;
