//! The circuit breaker of one run: five like failures of a model in a row, and no further agent is sent there.

use std::collections::HashMap;
use std::sync::{Mutex, PoisonError};

use crate::GraphError;

/// Like failures in a row that open the circuit.
const FAILURES: u32 = 5;

/// Counts failures by model. It stays open for the rest of the run: a run is short, and its script can be run again.
#[derive(Default)]
pub(crate) struct Breaker {
    streaks: Mutex<HashMap<String, Streak>>,
}

struct Streak {
    code: String,
    failures: u32,
}

impl Breaker {
    /// Whether an agent may still be sent to this model.
    pub(crate) fn check(&self, model: &str) -> Result<(), GraphError> {
        let streaks = self.streaks.lock().unwrap_or_else(PoisonError::into_inner);
        match streaks.get(model) {
            Some(streak) if streak.failures >= FAILURES => {
                let message =
                    format!("{FAILURES} agents in a row failed at '{model}' with {}: no more are sent", streak.code);
                Err(GraphError::new("CircuitOpenError", "circuit_open", message))
            }
            _ => Ok(()),
        }
    }

    /// Takes in how an agent ended.
    pub(crate) fn record(&self, model: &str, error: Option<&GraphError>) {
        let mut streaks = self.streaks.lock().unwrap_or_else(PoisonError::into_inner);
        let Some(error) = error else {
            streaks.remove(model);
            return;
        };
        let streak = streaks.entry(model.to_owned()).or_insert_with(|| Streak { code: String::new(), failures: 0 });
        if streak.code != error.code {
            *streak = Streak { code: error.code.clone(), failures: 0 };
        }
        streak.failures += 1;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_like_failures_in_a_row_open_it() {
        let breaker = Breaker::default();
        let (auth, timeout) = (GraphError::agent("auth", ""), GraphError::agent("timeout", ""));
        for _ in 0..4 {
            breaker.record("a", Some(&auth));
        }
        breaker.record("a", Some(&timeout));
        breaker.record("a", Some(&auth));
        assert!(breaker.check("a").is_ok());
        breaker.record("a", None);
        for _ in 0..5 {
            assert!(breaker.check("a").is_ok());
            breaker.record("a", Some(&auth));
        }
        assert_eq!(breaker.check("a").unwrap_err().name, "CircuitOpenError");
        assert!(breaker.check("b").is_ok());
    }
}
