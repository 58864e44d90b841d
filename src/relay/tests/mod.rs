//! The whole relay in virtual time: the real loop, store and client, against a hub and an engine that do what the
//! test says. Time stands still while anything works, so every second below is exact.

mod fake_engine;
mod fake_hub;
mod harness;

mod cancel;
mod commands;
mod consent;
mod crash;
mod cycle;
mod disk;
mod http;
mod report;
mod soak;
mod start;
mod trouble;
mod wake_channel;
