//! The outbox against real SQLite files.
