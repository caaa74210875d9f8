//! Aborts the process if a thread calls an allocator where it must not.

use std::alloc::{GlobalAlloc, Layout};
use std::sync::atomic::{AtomicUsize, Ordering};

use demo_allocator::pools::PoolAllocator;

/// The message on standard error before the abort.
pub const SEEN: &str = "an allocator was called from inside atomseq";

/// The threads that must not call an allocator, by `pthread_t`; 0 is an unused place.
struct Threads([AtomicUsize; 64]);

impl Threads {
    const fn new() -> Threads {
        Threads([const { AtomicUsize::new(0) }; 64])
    }

    fn me() -> usize {
        // SAFETY: no arguments; reads the thread pointer.
        unsafe { libc::pthread_self() as usize }
    }

    /// Relaxed, here and below: a thread searches for its own value only.
    fn has_me(&self) -> bool {
        let me = Self::me();
        self.0
            .iter()
            .any(|thread| thread.load(Ordering::Relaxed) == me)
    }

    fn with_me<R>(&self, work: impl FnOnce() -> R) -> R {
        let me = Self::me();
        let entry = self.0.iter().find(|thread| {
            thread
                .compare_exchange(0, me, Ordering::Relaxed, Ordering::Relaxed)
                .is_ok()
        });
        let Some(entry) = entry else {
            end("too many threads inside atomseq at once for this test");
        };
        let result = work();
        entry.store(0, Ordering::Relaxed);
        result
    }
}

/// Those that must not call the global allocator, because they are inside atomseq or inside the
/// global allocator itself.
static NO_GLOBAL: Threads = Threads::new();
/// Those that must not call the C library's allocator.
static NO_MALLOC: Threads = Threads::new();

/// Calls `work`, which must not call any allocator.
pub fn watched<R>(work: impl FnOnce() -> R) -> R {
    NO_GLOBAL.with_me(|| NO_MALLOC.with_me(work))
}

/// Calls `work`, which must not call the global allocator.
pub fn watched_for_the_global_allocator<R>(work: impl FnOnce() -> R) -> R {
    NO_GLOBAL.with_me(work)
}

fn end(sentence: &str) -> ! {
    for text in [sentence, "\n"] {
        // SAFETY: writes bytes to standard error, without allocation.
        unsafe { libc::write(2, text.as_ptr().cast(), text.len()) };
    }
    // SAFETY: aborts the process.
    unsafe { libc::abort() }
}

/// The demo's allocator, which must not be called from inside atomseq or from inside itself.
pub struct Watched;

impl Watched {
    fn calls<R>(&self, work: impl FnOnce() -> R) -> R {
        if NO_GLOBAL.has_me() {
            end(SEEN);
        }
        watched_for_the_global_allocator(work)
    }
}

// SAFETY: forwards every call to `PoolAllocator`.
unsafe impl GlobalAlloc for Watched {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        // SAFETY: the caller's promise is the one that `PoolAllocator` requires.
        self.calls(|| unsafe { PoolAllocator.alloc(layout) })
    }

    unsafe fn dealloc(&self, memory: *mut u8, layout: Layout) {
        // SAFETY: the caller's promise is the one that `PoolAllocator` requires.
        self.calls(|| unsafe { PoolAllocator.dealloc(memory, layout) })
    }

    unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        // SAFETY: the caller's promise is the one that `PoolAllocator` requires.
        self.calls(|| unsafe { PoolAllocator.alloc_zeroed(layout) })
    }

    unsafe fn realloc(&self, memory: *mut u8, layout: Layout, size: usize) -> *mut u8 {
        // SAFETY: the caller's promise is the one that `PoolAllocator` requires.
        self.calls(|| unsafe { PoolAllocator.realloc(memory, layout, size) })
    }
}

/// Wraps the C library's allocator: the program's definitions take precedence over the library's.
/// Only with sections: elsewhere atomseq takes its memory from the C library.
#[cfg(all(atomseq_sections, target_env = "gnu"))]
mod c_library {
    use super::{NO_MALLOC, SEEN, end};
    use core::ffi::c_void;

    unsafe extern "C" {
        fn __libc_malloc(size: usize) -> *mut c_void;
        fn __libc_calloc(count: usize, size: usize) -> *mut c_void;
        fn __libc_realloc(memory: *mut c_void, size: usize) -> *mut c_void;
        fn __libc_free(memory: *mut c_void);
    }

    fn check() {
        if NO_MALLOC.has_me() {
            end(SEEN);
        }
    }

    #[unsafe(no_mangle)]
    extern "C" fn malloc(size: usize) -> *mut c_void {
        check();
        // SAFETY: forwards to the C library's own function.
        unsafe { __libc_malloc(size) }
    }

    #[unsafe(no_mangle)]
    extern "C" fn calloc(count: usize, size: usize) -> *mut c_void {
        check();
        // SAFETY: forwards to the C library's own function.
        unsafe { __libc_calloc(count, size) }
    }

    #[unsafe(no_mangle)]
    unsafe extern "C" fn realloc(memory: *mut c_void, size: usize) -> *mut c_void {
        check();
        // SAFETY: the caller's promise is the one that the C library requires.
        unsafe { __libc_realloc(memory, size) }
    }

    #[unsafe(no_mangle)]
    unsafe extern "C" fn free(memory: *mut c_void) {
        if !memory.is_null() {
            check();
        }
        // SAFETY: the caller's promise is the one that the C library requires.
        unsafe { __libc_free(memory) }
    }
}
