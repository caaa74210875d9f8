//! The best assembly we can write by hand for a counter and a stack, to hold the emitted code
//! against.
//!
//! It may use what a compiler of sequences cannot know, such as that a counter's parts are 128
//! bytes apart. It offers the same: capacities chosen at run time, a part for each CPU, one store
//! to arm, the number of the CPU, the gate, one commit. There is no slow path: who finds the gate
//! closed is told so.

#![cfg(all(atomseq_sections, target_arch = "x86_64"))]

pub mod counter;
pub mod stack;

use std::alloc::{Layout, alloc_zeroed, dealloc, handle_alloc_error};
use std::ptr::NonNull;

const GUARDS: usize = 2;

/// Parts of a size: a gate, then whatever. The assembly knows where the first two words are.
#[repr(C)]
pub struct Parts {
    base: NonNull<u8>,
    size: usize,
    rseq: isize,
    cpus: usize,
}

// SAFETY: plain memory, used by sequences and atomic accesses only.
unsafe impl Send for Parts {}
// SAFETY: as above.
unsafe impl Sync for Parts {}

impl Parts {
    /// Zeroed parts of so many bytes, one for each CPU there may be.
    ///
    /// # Panics
    ///
    /// If sections do not run here.
    pub fn new(size: usize) -> Parts {
        assert!(atomseq::status().is_active(), "{}", atomseq::status());
        let cpus = atomseq::internals::cpu_slots();
        let layout = layout(cpus, size);
        // SAFETY: the size is not zero.
        let start = NonNull::new(unsafe { alloc_zeroed(layout) });
        let start = start.unwrap_or_else(|| handle_alloc_error(layout));
        for guard in 0..GUARDS {
            // SAFETY: inside the memory, aligned, and nobody else's yet.
            unsafe { start.add(guard * size).cast::<u32>().write(1) };
        }
        Parts {
            // SAFETY: the guards are part of the memory.
            base: unsafe { start.add(GUARDS * size) },
            size,
            rseq: atomseq::internals::rseq_offset(),
            cpus,
        }
    }

    /// The address of CPU 0's part.
    #[inline(always)]
    pub fn base(&self) -> NonNull<u8> {
        self.base
    }

    /// Where a thread's `struct rseq` lies, from its thread pointer.
    #[inline(always)]
    pub fn rseq(&self) -> isize {
        self.rseq
    }

    /// How many parts there are.
    pub fn cpus(&self) -> usize {
        self.cpus
    }

    /// A word of a part, read without synchronization with its CPU.
    pub fn peek(&self, cpu: usize, offset: usize) -> u64 {
        assert!(cpu < self.cpus && offset < self.size && offset.is_multiple_of(8));
        // SAFETY: inside the part, aligned. Volatile: its CPU may change it.
        unsafe {
            self.base
                .add(cpu * self.size + offset)
                .cast::<u64>()
                .read_volatile()
        }
    }
}

impl Drop for Parts {
    fn drop(&mut self) {
        // SAFETY: where the memory began, and its layout.
        unsafe {
            dealloc(
                self.base.sub(GUARDS * self.size).as_ptr(),
                layout(self.cpus, self.size),
            )
        }
    }
}

fn layout(cpus: usize, size: usize) -> Layout {
    Layout::from_size_align((cpus + GUARDS) * size, 128).expect("parts fit into memory")
}
