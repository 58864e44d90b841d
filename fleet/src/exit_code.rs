//! The exit codes of a worker process, and what each means. The parent turns them into the run's error.

/// The result was handed over and the parent closed the pipe.
pub const DONE: u8 = 0;
/// The script wanted more memory than the worker's cap, or the system had none left.
pub const MEMORY: u8 = 101;
/// The interpreter panicked: a defect of the engine that the script ran into.
pub const PANIC: u8 = 102;
/// The parent is gone: its end of the pipe closed before the script ended.
pub const ORPHAN: u8 = 103;
/// The script nested or recursed deeper than the stack of its thread. A process cannot choose its code for that: on
/// Unix the system ends it with SIGABRT or SIGSEGV, on Windows with 0xC00000FD, and the parent reads those as this one.
pub const STACK: u8 = 104;
/// The parent spoke something that this worker doesn't understand: two versions of the program are mixed.
pub const PROTOCOL: u8 = 105;
