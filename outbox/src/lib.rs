//! A durable outbox inside the caller's SQLite database
