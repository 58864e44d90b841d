//! The experiments, in the order of SPEC 7. Each is a function from a plan to a table.

mod cancel;
mod desktop_off;
mod five_at_once;
mod idempotency;
mod largest_result;
mod lost_report;
mod pickup;
#[cfg(test)]
mod tests;
mod watching;

use futures::FutureExt;

use crate::Experiment;

/// All of them.
pub const EXPERIMENTS: [Experiment; 8] = [
    Experiment { name: "pickup", samples: 2_000, run: |plan| pickup::table(plan).boxed_local() },
    Experiment { name: "five-at-once", samples: 1, run: |plan| five_at_once::table(plan).boxed_local() },
    Experiment { name: "cancel", samples: 2_000, run: |plan| cancel::table(plan).boxed_local() },
    Experiment { name: "idempotency", samples: 200, run: |plan| idempotency::table(plan).boxed_local() },
    Experiment { name: "desktop-off", samples: 1, run: |plan| desktop_off::table(plan).boxed_local() },
    Experiment { name: "lost-report", samples: 1, run: |plan| lost_report::table(plan).boxed_local() },
    Experiment { name: "largest-result", samples: 1, run: |plan| largest_result::table(plan).boxed_local() },
    Experiment { name: "watching", samples: 500, run: |plan| watching::table(plan).boxed_local() },
];
