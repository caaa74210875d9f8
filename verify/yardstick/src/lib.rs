//! The best assembly we can write by hand for a counter and a stack, with which the emitted code is
//! compared.
//!
//! It may use facts that a compiler of sequences cannot know, such as that a counter's parts are
//! 128 bytes apart. It offers the same: capacities chosen at run time, a part for each CPU, one
//! store to arm, the CPU's number, the gate, one commit. There is no slow path: a thread that finds
//! the gate closed receives an error.

#![cfg(all(atomseq_sections, target_arch = "x86_64"))]

pub mod counter;
pub mod stack;

use std::alloc::{Layout, alloc_zeroed, dealloc, handle_alloc_error};
use std::ptr::NonNull;

const GUARDS: usize = 2;

/// The parts of all CPUs: a gate, then the structure's words. The assembly relies on the offsets of
/// the first two fields.
#[repr(C)]
pub struct Parts {
    base: NonNull<u8>,
    size: usize,
    rseq: isize,
    cpus: usize,
}

// SAFETY: plain memory, used by sequences and atomic accesses only.
unsafe impl Send for Parts {}
// SAFETY: plain memory, used by sequences and atomic accesses only.
unsafe impl Sync for Parts {}

impl Parts {
    /// Makes zeroed parts of this many bytes, one for each possible CPU.
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
            // SAFETY: inside the memory, aligned, and not shared yet.
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

    /// Returns the address of CPU 0's part.
    #[inline(always)]
    pub fn base(&self) -> NonNull<u8> {
        self.base
    }

    /// Returns the offset of a thread's `struct rseq` from its thread pointer.
    #[inline(always)]
    pub fn rseq(&self) -> isize {
        self.rseq
    }

    /// Returns the number of parts.
    pub fn cpus(&self) -> usize {
        self.cpus
    }

    /// Reads a word of a part, without synchronization with its CPU.
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
        // SAFETY: the beginning of the memory, and its layout.
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
