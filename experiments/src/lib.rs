//! The published experiments (SPEC 7), rerun on a virtual clock with the real relay loop and the real hub router.
//!
//! One process, one thread, no sockets: the relay's transport calls the hub's router directly, the assistant speaks
//! MCP to the same router, and tokio's clock is paused, so that it jumps to the next timer whenever nobody has
//! anything to do. Only the engine is replaced, by one whose runs take the time that they are asked to take: a
//! worker process lives in real time. Two days of polls take some seconds.
//!
//! It keeps no state: databases are in memory, and a seed gives the same tables each time.
//!
//! An experiment is one file in `published`, entered in [`EXPERIMENTS`]: a function from a [`Plan`] to a [`Table`]
//! that builds as many worlds as it has variants.

mod assistant;
mod draw;
mod failure;
mod published;
mod stats;
mod table;
mod world;

use futures::future::LocalBoxFuture;

pub use failure::Failure;
pub use published::EXPERIMENTS;
pub use table::{Row, Table};

/// What an experiment is run with.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Plan {
    /// Same seed, same tables.
    pub seed: u64,
    /// Samples of each variant; experiments that look at one case ignore it.
    pub samples: usize,
}

/// One published experiment.
#[derive(Debug, Clone, Copy)]
pub struct Experiment {
    /// By which the command line knows it.
    pub name: &'static str,
    /// The published number of samples; 1 for a single case.
    pub samples: usize,
    run: fn(Plan) -> LocalBoxFuture<'static, Result<Table, Failure>>,
}

impl Experiment {
    /// Runs it on a clock of its own, which begins at zero.
    ///
    /// # Errors
    /// [`Failure`], when hub or relay did not do what the experiment takes for granted.
    pub fn run(&self, plan: Plan) -> Result<Table, Failure> {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_time().start_paused(true).build()?;
        runtime.block_on((self.run)(plan))
    }
}
