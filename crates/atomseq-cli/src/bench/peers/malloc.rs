//! Allocators, called directly: the C library's `malloc` and `free`, mimalloc's, and jemalloc's
//! where the command was built with it. All have thread caches of their own, which is what a pool
//! must beat. The block is black-boxed and written to, so the pair cannot be removed.

use std::ffi::c_void;
use std::hint::black_box;
use std::marker::PhantomData;
use std::ptr::NonNull;

use crate::bench::workloads::borrowing::{Block, Blocks};

/// An allocator.
///
/// # Safety
///
/// What `allocate` returns is null, or 64 bytes that are the caller's alone until `free`, aligned
/// for any type.
pub unsafe trait Allocator: Sync {
    /// Allocates 64 bytes.
    fn allocate() -> *mut c_void;

    /// Frees them, on any thread.
    ///
    /// # Safety
    ///
    /// They came from `allocate` of the same allocator, and are no longer used.
    unsafe fn free(block: *mut c_void);
}

/// The C library's allocator.
pub struct Malloc;

// SAFETY: that is what the C library's malloc does.
unsafe impl Allocator for Malloc {
    #[inline(always)]
    fn allocate() -> *mut c_void {
        // SAFETY: malloc may be called with any size.
        unsafe { libc::malloc(64) }
    }

    #[inline(always)]
    unsafe fn free(block: *mut c_void) {
        // SAFETY: the caller's promise.
        unsafe { libc::free(block) };
    }
}

/// mimalloc, as the crate of that name configures it.
pub struct Mimalloc;

// SAFETY: that is what mi_malloc does.
unsafe impl Allocator for Mimalloc {
    #[inline(always)]
    fn allocate() -> *mut c_void {
        // SAFETY: mi_malloc may be called with any size.
        unsafe { libmimalloc_sys::mi_malloc(64) }
    }

    #[inline(always)]
    unsafe fn free(block: *mut c_void) {
        // SAFETY: the caller's promise.
        unsafe { libmimalloc_sys::mi_free(block) };
    }
}

/// jemalloc, as the crate of that name configures it.
#[cfg(feature = "jemalloc")]
pub struct Jemalloc;

// SAFETY: that is what jemalloc's malloc does.
#[cfg(feature = "jemalloc")]
unsafe impl Allocator for Jemalloc {
    #[inline(always)]
    fn allocate() -> *mut c_void {
        // SAFETY: malloc may be called with any size.
        unsafe { tikv_jemalloc_sys::malloc(64) }
    }

    #[inline(always)]
    unsafe fn free(block: *mut c_void) {
        // SAFETY: the caller's promise.
        unsafe { tikv_jemalloc_sys::free(block) };
    }
}

/// A block of an allocator, whose first word is initialised.
pub struct Allocated<A>(NonNull<u64>, PhantomData<A>);

// SAFETY: a block is its holder's alone, and any thread may free it.
unsafe impl<A> Send for Allocated<A> {}

impl<A: Allocator> Blocks for A {
    type Block = Allocated<A>;

    #[inline(always)]
    fn get(&self) -> Allocated<A> {
        match NonNull::new(A::allocate().cast()) {
            Some(block) => {
                // SAFETY: 64 bytes that this caller owns exclusively.
                unsafe { block.write(0) };
                Allocated(block, PhantomData)
            }
            None => std::alloc::handle_alloc_error(std::alloc::Layout::new::<[u64; 8]>()),
        }
    }

    #[inline(always)]
    fn put(&self, block: Allocated<A>) {
        // SAFETY: the block came from `allocate` in `get` and is given up here; `Allocated` is not
        // Clone.
        unsafe { A::free(block.0.as_ptr().cast()) };
    }
}

impl<A> Block for Allocated<A> {
    #[inline(always)]
    fn keeps(&mut self, mark: u64) -> bool {
        self.write(mark);
        // SAFETY: as in `read`.
        unsafe { black_box(self.0.as_ptr()).read() == mark }
    }

    #[inline(always)]
    fn write(&mut self, mark: u64) {
        // SAFETY: the block is this holder's alone until it is put back.
        unsafe { self.0.write(mark) };
    }

    #[inline(always)]
    fn read(&self) -> u64 {
        // SAFETY: as in `write`; the word was initialised when the block was got.
        unsafe { self.0.read() }
    }
}
