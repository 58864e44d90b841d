//! The Graph engine: each script in a worker process, every effect in the parent
