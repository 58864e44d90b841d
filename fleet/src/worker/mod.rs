//! The worker's half of a run.
use std::alloc::System;

/// The counting allocator.
pub struct CappedAllocator;

#[expect(unsafe_code, reason = "an allocator is unsafe by contract")]
// SAFETY: forwards to the system allocator.
unsafe impl std::alloc::GlobalAlloc for CappedAllocator {
    unsafe fn alloc(&self, layout: std::alloc::Layout) -> *mut u8 {
        unsafe { System.alloc(layout) }
    }
    unsafe fn dealloc(&self, ptr: *mut u8, layout: std::alloc::Layout) {
        unsafe { System.dealloc(ptr, layout) }
    }
}

/// The body of a worker process.
pub fn worker_main() -> std::process::ExitCode {
    std::process::ExitCode::SUCCESS
}
