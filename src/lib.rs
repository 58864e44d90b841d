//! graph-relay on the desktop: the daemon that fetches what assistants asked for and runs what its owner shares,
//! and the command line with which the owner decides.
//!
//! [`command`] and [`consent`] decide, without IO. [`store`] keeps, [`relay`] acts, [`control`] lets the command
//! line reach the daemon, [`cli`] talks to people.

pub mod assistant;
pub mod cli;
pub mod command;
pub mod config;
pub mod consent;
pub mod control;
pub mod paths;
pub mod relay;
pub mod runner;
pub mod store;
