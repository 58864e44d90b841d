//! Models: how the owner configures one, and the conversation of one agent with it.

mod config;

pub use config::{ModelConfig, Secret};
