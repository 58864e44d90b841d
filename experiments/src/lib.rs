//! The published experiments, on a virtual clock, with the real relay and hub
