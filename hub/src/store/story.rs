//! The story that every store must be able to tell.
