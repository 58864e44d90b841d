//! The hub: the server that desktops poll and that assistants reach over MCP.
//!
//! It queues runs of Graph sessions for the desktops that share them, hands them out at a sync, and keeps what
//! came of them. It knows nothing of Graph scripts and never sees their source.
//!
//! Requests keep no state between them but in the store: after a crash or a restart, every command that was
//! acknowledged is there, and assistants and desktops notice nothing but the pause.

mod admin;
mod app;
pub mod command;
mod mcp;
mod model;
mod oauth;
mod patience;
mod settings;
pub mod store;
mod token;
mod wake;
mod web;

pub use admin::{Admin, AdminError};
pub use app::{Hub, serve};
pub use model::{Action, Connection, DeviceRecord, Grant, NewConnection, NewDevice, Scope, UnknownName};
pub use settings::Settings;
pub use store::{Store, StoreError, open_store};
pub use token::{Token, TokenHash};
