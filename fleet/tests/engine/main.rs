//! The engine from outside: real worker processes, real files, a real HTTP server in a model's place.

#![expect(clippy::unwrap_used, reason = "a test that panics has failed")]

mod agents;
mod cancel;
mod errors;
mod files;
mod hostile;
mod support;
mod untrusted;
mod verbs;
