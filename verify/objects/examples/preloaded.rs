//! A shared object whose `malloc` starts atomseq up at a call of choice, for `tests/closed.rs` to
//! preload. The dynamic linker calls it in the middle of loading another object.

#[cfg(all(atomseq_sections, target_env = "gnu"))]
mod shared {
    use std::ffi::c_void;
    use std::sync::atomic::{AtomicU64, Ordering};

    /// How many calls of `malloc` to come start atomseq up with the last of them; 0: none.
    static CALLS: AtomicU64 = AtomicU64::new(0);

    unsafe extern "C" {
        fn __libc_malloc(bytes: usize) -> *mut c_void;
    }

    /// Allocates as glibc does, which frees it.
    ///
    /// # Safety
    ///
    /// That of C.
    #[unsafe(no_mangle)]
    pub unsafe extern "C" fn malloc(bytes: usize) -> *mut c_void {
        let less = |calls: u64| calls.checked_sub(1);
        if CALLS.fetch_update(Ordering::SeqCst, Ordering::SeqCst, less) == Ok(1) {
            atomseq::status();
        }
        // SAFETY: the function that `malloc` is an alias of.
        unsafe { __libc_malloc(bytes) }
    }

    /// Makes the call of `malloc` with this number, from now on, start atomseq up; 0: none. Returns
    /// how many calls before that one were missing.
    #[unsafe(no_mangle)]
    pub extern "C" fn preloaded_calls(calls: u64) -> u64 {
        CALLS.swap(calls, Ordering::SeqCst)
    }
}
