//! What the loop does next, decided without IO.
//!
//! | event          | a cycle is on     | no cycle is on                          |
//! |----------------|-------------------|-----------------------------------------|
//! | tick           | skipped           | a cycle starts                          |
//! | nudge          | one more cycle after it | a cycle starts                    |
//! | cycle ended    | –                 | the owed cycle starts; an idle worker takes what waits |
//! | run ended      | one more cycle after it | a cycle starts; the worker takes what waits |
//!
//! A cycle accepts new commands only while the worker is idle and nothing waits for it.

/// What happened.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Event {
    /// The poll interval passed.
    Tick,
    /// Something changed that the hub should know, or might answer to: the owner shared a Graph, the laptop woke
    /// up, the hub's wake channel spoke.
    Nudge,
    /// A cycle is over; `waiting` commands are stored and not yet run.
    CycleEnded {
        /// Commands that wait for the worker.
        waiting: u32,
    },
    /// The worker is idle again.
    RunEnded {
        /// Commands that wait for the worker.
        waiting: u32,
        /// Whether the next one should be left for the next cycle: the hub did not agree to start it.
        hold: bool,
    },
}

/// What to do.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Action {
    /// Flush, sync, store.
    Cycle {
        /// Whether new commands may be taken.
        accept: bool,
    },
    /// Run the command that has waited longest.
    Run,
}

/// What the loop knows.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Dispatcher {
    cycle_on: bool,
    cycle_owed: bool,
    worker_busy: bool,
    waiting: u32,
}

impl Dispatcher {
    /// Takes the event in and says what to do, in order.
    pub fn on(&mut self, event: Event) -> Vec<Action> {
        let mut actions = Vec::new();
        match event {
            Event::Tick if self.cycle_on => {}
            Event::Tick => self.start_cycle(&mut actions),
            Event::Nudge => self.request_cycle(&mut actions),
            Event::CycleEnded { waiting } => {
                self.cycle_on = false;
                self.waiting = waiting;
                self.start_run(&mut actions);
                if std::mem::take(&mut self.cycle_owed) {
                    self.start_cycle(&mut actions);
                }
            }
            Event::RunEnded { waiting, hold } => {
                self.worker_busy = false;
                self.waiting = waiting;
                if !hold {
                    self.start_run(&mut actions);
                    self.request_cycle(&mut actions);
                }
            }
        }
        actions
    }

    fn request_cycle(&mut self, actions: &mut Vec<Action>) {
        if self.cycle_on {
            self.cycle_owed = true;
        } else {
            self.start_cycle(actions);
        }
    }

    fn start_cycle(&mut self, actions: &mut Vec<Action>) {
        self.cycle_on = true;
        actions.push(Action::Cycle { accept: !self.worker_busy && self.waiting == 0 });
    }

    fn start_run(&mut self, actions: &mut Vec<Action>) {
        if !self.worker_busy && self.waiting > 0 {
            self.worker_busy = true;
            actions.push(Action::Run);
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn a_tick_during_a_cycle_is_skipped_a_nudge_is_owed() {
        let mut loop_ = Dispatcher::default();
        assert_eq!(loop_.on(Event::Tick), [Action::Cycle { accept: true }]);
        assert_eq!(loop_.on(Event::Tick), []);
        assert_eq!(loop_.on(Event::CycleEnded { waiting: 0 }), []);

        loop_.on(Event::Tick);
        assert_eq!(loop_.on(Event::Nudge), []);
        assert_eq!(loop_.on(Event::Nudge), []);
        assert_eq!(loop_.on(Event::CycleEnded { waiting: 0 }), [Action::Cycle { accept: true }]);
        assert_eq!(loop_.on(Event::CycleEnded { waiting: 0 }), []);
    }

    #[test]
    fn while_a_run_is_on_cycles_go_on_but_take_nothing() {
        let mut loop_ = Dispatcher::default();
        loop_.on(Event::Tick);
        assert_eq!(loop_.on(Event::CycleEnded { waiting: 1 }), [Action::Run]);
        assert_eq!(loop_.on(Event::Tick), [Action::Cycle { accept: false }]);
        assert_eq!(loop_.on(Event::CycleEnded { waiting: 0 }), []);
        let idle = Event::RunEnded { waiting: 0, hold: false };
        assert_eq!(loop_.on(idle), [Action::Cycle { accept: true }], "a worker that falls idle asks at once");
    }

    #[test]
    fn what_was_queued_together_runs_one_after_the_other() {
        let mut loop_ = Dispatcher::default();
        loop_.on(Event::Tick);
        assert_eq!(loop_.on(Event::CycleEnded { waiting: 3 }), [Action::Run]);
        let next = [Action::Run, Action::Cycle { accept: false }];
        assert_eq!(loop_.on(Event::RunEnded { waiting: 2, hold: false }), next);
    }

    #[test]
    fn a_start_that_the_hub_did_not_answer_waits_for_the_next_cycle() {
        let mut loop_ = Dispatcher::default();
        loop_.on(Event::Tick);
        loop_.on(Event::CycleEnded { waiting: 1 });
        assert_eq!(loop_.on(Event::RunEnded { waiting: 1, hold: true }), [], "no hammering");
        assert_eq!(loop_.on(Event::Tick), [Action::Cycle { accept: false }]);
        assert_eq!(loop_.on(Event::CycleEnded { waiting: 1 }), [Action::Run]);
    }

    proptest! {
        /// Whatever happens in whatever order: never two runs at once, never two cycles at once, and none taken
        /// while the worker is busy.
        #[test]
        fn one_run_and_one_cycle_at_a_time(steps in prop::collection::vec((0u8..4, 0u32..3, any::<bool>()), 1..200)) {
            let mut loop_ = Dispatcher::default();
            let (mut cycles, mut runs) = (0, 0);
            for (kind, waiting, hold) in steps {
                let event = match kind {
                    0 => Event::Tick,
                    1 => Event::Nudge,
                    2 if cycles == 1 => { cycles = 0; Event::CycleEnded { waiting } }
                    3 if runs == 1 => { runs = 0; Event::RunEnded { waiting, hold } }
                    _ => continue,
                };
                for action in loop_.on(event) {
                    match action {
                        Action::Cycle { accept } => {
                            cycles += 1;
                            prop_assert!(!accept || runs == 0);
                        }
                        Action::Run => runs += 1,
                    }
                }
                prop_assert!(cycles <= 1 && runs <= 1);
            }
        }
    }
}
