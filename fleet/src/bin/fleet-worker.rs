//! A worker on its own, for this crate's tests. The product runs it as a hidden subcommand of its one binary.
#[global_allocator]
static ALLOCATOR: fleet::CappedAllocator = fleet::CappedAllocator;

fn main() -> std::process::ExitCode {
    fleet::worker_main()
}
