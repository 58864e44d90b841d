//! The Graph engine: runs a saved JavaScript program (a *Graph*) to its end, in a process of its own.
//!
//! The caller's process never parses JavaScript. Each execution gets a **worker process** that holds nothing but the
//! script and the interpreter; whatever the script wants from the world it asks of the **parent** over a pipe: agents,
//! tools, child Graphs, even the passing of time. So policy, budgets, secrets and files are out of the script's reach,
//! and a script that loops, recurses or eats memory is ended by ending its process.
//!
//! The crate knows nothing of projects, hubs or consent. It keeps no state on disk: after a crash of the caller the
//! workers notice that their pipe closed and end themselves at once, and what ran is over.
//!
//! - [`Engine`] is the seam that callers code against, [`Fleet`] the engine behind it.
//! - [`Event`]s tell a run as it happens, the [`Outcome`] how it ended.
//! - [`worker_main`] is the body of the hidden subcommand in which a worker runs, [`CappedAllocator`] the allocator
//!   that gives it a memory limit.

mod check;
mod engine;
mod error;
mod event;
pub mod exit_code;
mod limits;
mod meta;
mod models;
mod outcome;
mod parent;
mod schema;
mod text;
mod tools;
mod wire;
mod worker;

pub use check::{CheckError, Problem};
pub use engine::{
    Access, ChildGraph, Engine, EventSender, FolderGrant, Graphs, NoGraphs, RunRequest, Settings, WorkerCommand,
};
pub use error::GraphError;
pub use event::Event;
pub use limits::{EffectiveLimits, Limits};
pub use meta::{FolderRequest, Meta};
pub use models::{ModelConfig, Secret};
pub use outcome::{Outcome, Status, TokenUsage, Usage};
pub use parent::Fleet;
pub use worker::{CappedAllocator, worker_main};
