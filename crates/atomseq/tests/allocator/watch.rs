//! Sees every call of an allocator that a thread makes while it should not, and ends the process.

use std::alloc::{GlobalAlloc, Layout};
use std::sync::atomic::{AtomicUsize, Ordering};

use super::pools::PoolAllocator;

/// What the process says on standard error before it ends.
pub const SEEN: &str = "an allocator was called from inside atomseq";

/// The threads that must not call an allocator, by `pthread_t`; 0 is nobody.
struct Threads([AtomicUsize; 64]);

impl Threads {
    const fn new() -> Threads {
        Threads([const { AtomicUsize::new(0) }; 64])
    }

    fn me() -> usize {
        // SAFETY: no arguments; reads the thread pointer.
        unsafe { libc::pthread_self() as usize }
    }

    /// Relaxed, here and below: a thread looks for itself alone.
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

/// Those that must not call the global allocator: inside atomseq, or inside the global allocator
/// itself.
static NO_GLOBAL: Threads = Threads::new();
/// Those that must not call the C library's either.
static NO_MALLOC: Threads = Threads::new();

/// Does something that must call no allocator.
pub fn watched<R>(work: impl FnOnce() -> R) -> R {
    NO_GLOBAL.with_me(|| NO_MALLOC.with_me(work))
}

/// Does something that must not call the global allocator.
pub fn watched_for_the_global_allocator<R>(work: impl FnOnce() -> R) -> R {
    NO_GLOBAL.with_me(work)
}

fn end(sentence: &str) -> ! {
    for text in [sentence, "\n"] {
        // SAFETY: writes to standard error, without a buffer to allocate.
        unsafe { libc::write(2, text.as_ptr().cast(), text.len()) };
    }
    // SAFETY: ends the process.
    unsafe { libc::abort() }
}

/// The example's allocator under watch: what it calls must not come back to it.
pub struct Watched;

impl Watched {
    fn calls<R>(&self, work: impl FnOnce() -> R) -> R {
        if NO_GLOBAL.has_me() {
            end(SEEN);
        }
        watched_for_the_global_allocator(work)
    }
}

// SAFETY: passes everything on.
unsafe impl GlobalAlloc for Watched {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        // SAFETY: the caller's promise, here and below.
        self.calls(|| unsafe { PoolAllocator.alloc(layout) })
    }

    unsafe fn dealloc(&self, memory: *mut u8, layout: Layout) {
        // SAFETY: as above.
        self.calls(|| unsafe { PoolAllocator.dealloc(memory, layout) })
    }

    unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        // SAFETY: as above.
        self.calls(|| unsafe { PoolAllocator.alloc_zeroed(layout) })
    }

    unsafe fn realloc(&self, memory: *mut u8, layout: Layout, size: usize) -> *mut u8 {
        // SAFETY: as above.
        self.calls(|| unsafe { PoolAllocator.realloc(memory, layout, size) })
    }
}

/// The C library's allocator with a look at who calls: the program's definitions go before its own.
/// Not where atomseq has its memory from there, for want of system calls.
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

    fn look() {
        if NO_MALLOC.has_me() {
            end(SEEN);
        }
    }

    #[unsafe(no_mangle)]
    extern "C" fn malloc(size: usize) -> *mut c_void {
        look();
        // SAFETY: the C library's own.
        unsafe { __libc_malloc(size) }
    }

    #[unsafe(no_mangle)]
    extern "C" fn calloc(count: usize, size: usize) -> *mut c_void {
        look();
        // SAFETY: the C library's own.
        unsafe { __libc_calloc(count, size) }
    }

    #[unsafe(no_mangle)]
    unsafe extern "C" fn realloc(memory: *mut c_void, size: usize) -> *mut c_void {
        look();
        // SAFETY: the caller's promise to the C library.
        unsafe { __libc_realloc(memory, size) }
    }

    #[unsafe(no_mangle)]
    unsafe extern "C" fn free(memory: *mut c_void) {
        if !memory.is_null() {
            look();
        }
        // SAFETY: the caller's promise to the C library.
        unsafe { __libc_free(memory) }
    }
}
