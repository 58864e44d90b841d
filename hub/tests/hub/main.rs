//! The hub through its router, without sockets: what desktops and assistants rely on.

mod mcp;
mod relay;
mod resilience;
mod runs;
mod world;
