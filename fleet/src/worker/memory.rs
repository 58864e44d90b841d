//! The worker's memory cap.
//!
//! A counting global allocator: portable, exact, and it catches the single absurd request as well as the slow leak.
//! When the cap is passed the process ends with [`crate::exit_code::MEMORY`]; there is no way to fail one allocation
//! of the interpreter that it would survive.

#![expect(unsafe_code, reason = "an allocator is unsafe by contract, and so are the calls of the C library")]

use std::alloc::{GlobalAlloc, Layout, System};
use std::sync::atomic::{AtomicIsize, AtomicUsize, Ordering::Relaxed};

use crate::exit_code;

/// In bytes; 0 is no cap, and no counting.
static CAP: AtomicUsize = AtomicUsize::new(0);
/// Bytes in use since the cap was set. Signed: what was allocated before may be freed after.
static USED: AtomicIsize = AtomicIsize::new(0);

/// The system allocator, which counts and caps what a worker uses.
///
/// A binary installs it with `#[global_allocator]`. It costs one load per allocation until [`crate::worker_main`] sets
/// the cap.
pub struct CappedAllocator;

// SAFETY: every call is handed on to the system allocator with the same layout; counting touches atomics only.
unsafe impl GlobalAlloc for CappedAllocator {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        grow(layout.size());
        // SAFETY: the caller's contract is the same as ours.
        checked(unsafe { System.alloc(layout) })
    }

    unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        grow(layout.size());
        // SAFETY: the caller's contract is the same as ours.
        checked(unsafe { System.alloc_zeroed(layout) })
    }

    unsafe fn dealloc(&self, pointer: *mut u8, layout: Layout) {
        shrink(layout.size());
        // SAFETY: the caller's contract is the same as ours.
        unsafe { System.dealloc(pointer, layout) }
    }

    unsafe fn realloc(&self, pointer: *mut u8, layout: Layout, size: usize) -> *mut u8 {
        if size > layout.size() {
            grow(size - layout.size());
        } else {
            shrink(layout.size() - size);
        }
        // SAFETY: the caller's contract is the same as ours.
        checked(unsafe { System.realloc(pointer, layout, size) })
    }
}

fn grow(bytes: usize) {
    let cap = CAP.load(Relaxed);
    if cap == 0 {
        return;
    }
    let bytes = isize::try_from(bytes).unwrap_or(isize::MAX / 2);
    let used = USED.fetch_add(bytes, Relaxed).saturating_add(bytes);
    if used > 0 && used as usize > cap {
        exit_now(exit_code::MEMORY);
    }
}

fn shrink(bytes: usize) {
    if CAP.load(Relaxed) != 0 {
        USED.fetch_sub(isize::try_from(bytes).unwrap_or(isize::MAX / 2), Relaxed);
    }
}

fn checked(pointer: *mut u8) -> *mut u8 {
    if pointer.is_null() && CAP.load(Relaxed) != 0 {
        exit_now(exit_code::MEMORY);
    }
    pointer
}

/// Bytes that the script uses.
pub(super) fn used() -> usize {
    usize::try_from(USED.load(Relaxed)).unwrap_or(0)
}

/// Sets the cap. Only a lower one than before is taken.
pub(super) fn set_cap(megabytes: u32) {
    let bytes = megabytes as usize * 1024 * 1024;
    let before = CAP.load(Relaxed);
    if before == 0 || bytes < before {
        CAP.store(bytes, Relaxed);
        backstop(bytes);
    }
}

/// Ends the process without running anything: called from inside the allocator and from a panic.
#[cfg(unix)]
pub(super) fn exit_now(code: u8) -> ! {
    // SAFETY: _exit takes any number and touches no memory of ours.
    unsafe { libc::_exit(i32::from(code)) }
}

#[cfg(not(unix))]
pub(super) fn exit_now(code: u8) -> ! {
    // The handlers that run at an exit may allocate.
    CAP.store(0, Relaxed);
    std::process::exit(i32::from(code))
}

/// No core dumps: a script that overflows its stack must not fill the owner's disk. On glibc, big blocks go back to
/// the system at once: a string grown by appending 100,000 times takes 1.3 s instead of 17.
pub(super) fn prepare_process() {
    #[cfg(unix)]
    limit(libc::RLIMIT_CORE, 0);
    #[cfg(all(target_os = "linux", target_env = "gnu"))]
    // SAFETY: mallopt sets two numbers of the allocator, before any other thread exists.
    unsafe {
        libc::mallopt(libc::M_MMAP_THRESHOLD, 1024 * 1024);
        libc::mallopt(libc::M_TRIM_THRESHOLD, 64 * 1024 * 1024);
    }
}

/// From here on the process can open nothing and start nothing, not even if a script breaks out of the interpreter: it
/// keeps its pipes and its threads. To be called once those exist.
pub(super) fn close_in() {
    #[cfg(unix)]
    {
        limit(libc::RLIMIT_NOFILE, 0);
        limit(libc::RLIMIT_NPROC, 0);
        limit(libc::RLIMIT_FSIZE, 0);
    }
}

/// The operating system's own limit, well above ours: for what does not come from the allocator.
fn backstop(bytes: usize) {
    #[cfg(target_os = "linux")]
    limit(libc::RLIMIT_AS, bytes as u64 * 2 + 1024 * 1024 * 1024);
    #[cfg(not(target_os = "linux"))]
    let _ = bytes;
}

#[cfg(target_os = "linux")]
fn limit(resource: libc::__rlimit_resource_t, bytes: u64) {
    let limit = libc::rlimit { rlim_cur: bytes, rlim_max: bytes };
    // SAFETY: setrlimit reads the struct that it is given.
    let _ = unsafe { libc::setrlimit(resource, &raw const limit) };
}

#[cfg(all(unix, not(target_os = "linux")))]
fn limit(resource: libc::c_int, bytes: u64) {
    let limit = libc::rlimit { rlim_cur: bytes as libc::rlim_t, rlim_max: bytes as libc::rlim_t };
    // SAFETY: setrlimit reads the struct that it is given.
    let _ = unsafe { libc::setrlimit(resource, &raw const limit) };
}
