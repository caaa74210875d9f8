//! The platform layer never allocates through Rust's global allocator, which may itself be built on
//! it.
#![cfg(not(target_family = "wasm"))]

use atomseq::internals as platform;
use core::cell::Cell;
use std::alloc::{GlobalAlloc, Layout, System};

struct Counting;

std::thread_local!(static CALLS: Cell<usize> = const { Cell::new(0) });

// SAFETY: passes every request on to the system's allocator.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        CALLS.set(CALLS.get() + 1);
        // SAFETY: the caller's promise, passed on.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, start: *mut u8, layout: Layout) {
        CALLS.set(CALLS.get() + 1);
        // SAFETY: the caller's promise, passed on.
        unsafe { System.dealloc(start, layout) }
    }
}

#[global_allocator]
static COUNTING: Counting = Counting;

fn calls(action: impl FnOnce()) -> usize {
    let before = CALLS.get();
    action();
    CALLS.get() - before
}

#[test]
fn the_count_counts() {
    assert_eq!(calls(|| drop(std::hint::black_box(Box::new(1)))), 2);
}

#[test]
fn start_up_and_everything_after_allocate_nothing() {
    assert_eq!(calls(|| _ = platform::start()), 0, "start-up");
    assert_eq!(
        calls(|| _ = platform::register_this_thread()),
        0,
        "registration"
    );
    assert_eq!(calls(|| _ = platform::current_cpu()), 0);
    assert_eq!(calls(|| drop(platform::SignalsBlocked::enter())), 0);
    if platform::start().gates_active() {
        assert_eq!(calls(|| platform::membarrier_rseq(0)), 0);
    }
    let word = core::sync::atomic::AtomicU32::new(1);
    assert_eq!(calls(|| _ = platform::wait(&word, 0)), 0);
    assert_eq!(calls(|| _ = platform::wake_one(&word)), 0);
    let mapping = calls(|| {
        let start = platform::map(1 << 16).expect("64 KB");
        // SAFETY: mapped above, and not used.
        unsafe { platform::unmap(start, 1 << 16) };
    });
    assert_eq!(mapping, 0);
}

/// A forking thread may hold the allocator's lock while it waits for a thread that changes
/// handlers. A look at the standard library's fault handlers is part of the first installation.
#[test]
fn handlers_are_changed_without_the_allocator() {
    use atomseq::signal;

    fn handler(_: &mut signal::Event<'_>) {}
    if !platform::SECTIONS {
        return;
    }
    let made = calls(|| {
        // SAFETY: the handler does nothing.
        let installed = unsafe { signal::install(libc::SIGUSR1, handler) };
        assert_eq!(installed, Ok(()));
        let _ = signal::repair();
        assert_eq!(signal::uninstall(libc::SIGUSR1), Ok(()));
    });
    assert_eq!(made, 0);
}
