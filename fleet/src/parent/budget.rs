//! What a run may still use: tokens, agents, and places at work.
//!
//! A child Graph has a budget of its own inside its parent's: what it spends counts in both, and the narrower refuses.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering::SeqCst};

use tokio::sync::{OwnedSemaphorePermit, Semaphore};

use crate::{EffectiveLimits, GraphError};

/// The budget of one Graph.
pub(super) struct Budget {
    parent: Option<Arc<Budget>>,
    total: Option<u64>,
    max_agents: u32,
    spent: AtomicU64,
    agents: AtomicU32,
    places: Arc<Semaphore>,
}

/// A place at work, in a Graph and in all Graphs around it.
pub(super) struct Place {
    #[expect(dead_code, reason = "held until the agent has ended")]
    permits: Vec<OwnedSemaphorePermit>,
}

impl Budget {
    pub(super) fn new(limits: &EffectiveLimits, parent: Option<Arc<Budget>>) -> Arc<Self> {
        Arc::new(Self {
            parent,
            total: limits.max_tokens,
            max_agents: limits.max_agents,
            spent: AtomicU64::new(0),
            agents: AtomicU32::new(0),
            places: Arc::new(Semaphore::new(limits.max_concurrency as usize)),
        })
    }

    /// From this Graph's to the outermost.
    fn levels(&self) -> impl Iterator<Item = &Budget> {
        std::iter::successors(Some(self), |budget| budget.parent.as_deref())
    }

    /// The total that binds first, as a script sees it.
    pub(super) fn total(&self) -> Option<u64> {
        let left = self.levels().filter_map(|level| Some(level.total?.saturating_sub(level.spent()))).min();
        left.map(|left| self.spent().saturating_add(left))
    }

    /// Tokens of this Graph and its children.
    pub(super) fn spent(&self) -> u64 {
        self.spent.load(SeqCst)
    }

    /// Agents started by this Graph and its children.
    pub(super) fn agents(&self) -> u32 {
        self.agents.load(SeqCst)
    }

    /// Waits for a place in each Graph, the inner one first, so that nobody holds an outer place while waiting for an
    /// inner one.
    pub(super) async fn place(&self) -> Place {
        let mut permits = Vec::new();
        for level in self.levels() {
            let permit = Arc::clone(&level.places).acquire_owned().await;
            permits.push(permit.expect("the semaphore is never closed"));
        }
        Place { permits }
    }

    /// Admits one agent that has its place. The ceiling is looked at here and nowhere else: an agent at work finishes,
    /// so that a run overshoots by at most `max_concurrency − 1` agents.
    pub(super) fn admit(&self) -> Result<(), GraphError> {
        if let Some(full) = self.levels().find(|level| level.total.is_some_and(|total| level.spent() >= total)) {
            let message = format!("{} tokens are spent of {}", full.spent(), full.total.unwrap_or_default());
            return Err(GraphError::new("BudgetExceededError", "budget", message));
        }
        for (index, level) in self.levels().enumerate() {
            if level.agents.fetch_add(1, SeqCst) >= level.max_agents {
                for level in self.levels().take(index + 1) {
                    level.agents.fetch_sub(1, SeqCst);
                }
                let message = format!("this Graph may start {} agents (limits.max_agents)", level.max_agents);
                return Err(GraphError::limit("max_agents", message));
            }
        }
        Ok(())
    }

    /// Counts what an agent used.
    pub(super) fn record(&self, tokens: u64) {
        for level in self.levels() {
            level.spent.fetch_add(tokens, SeqCst);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Limits;

    fn limits(max_tokens: Option<u64>, max_agents: u32) -> EffectiveLimits {
        Limits { max_tokens, max_agents: Some(max_agents), ..Limits::default() }.as_ceiling()
    }

    #[test]
    fn agents_are_refused_once_the_ceiling_is_reached_and_not_before() {
        let budget = Budget::new(&limits(Some(100), 10), None);
        budget.record(99);
        assert!(budget.admit().is_ok());
        budget.record(1);
        assert_eq!(budget.admit().unwrap_err().name, "BudgetExceededError");
        assert_eq!(budget.agents(), 1);
    }

    #[test]
    fn a_child_spends_from_its_parent_and_is_bound_by_the_narrower() {
        let parent = Budget::new(&limits(Some(100), 2), None);
        let child = Budget::new(&limits(Some(1_000), 200), Some(Arc::clone(&parent)));
        parent.record(40);
        child.record(50);
        assert_eq!((parent.spent(), child.spent()), (90, 50));
        assert_eq!(child.total(), Some(60));
        assert!(child.admit().is_ok() && parent.admit().is_ok());
        assert_eq!(child.admit().unwrap_err().code, "max_agents");
        assert_eq!((parent.agents(), child.agents()), (2, 1));
    }
}
