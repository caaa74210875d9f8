//! One part of a fixed size a CPU, with two guards before them whose gates are closed.

use std::alloc::{Layout, alloc_zeroed, dealloc, handle_alloc_error};
use std::ptr::NonNull;

const GUARDS: usize = 2;

/// Parts of `1 << SHIFT` bytes each: a gate, then whatever.
pub struct Parts<const SHIFT: u32> {
    base: NonNull<u8>,
    rseq: isize,
    cpus: usize,
}

// SAFETY: plain memory, used by sequences and atomic accesses only.
unsafe impl<const SHIFT: u32> Send for Parts<SHIFT> {}
// SAFETY: as above.
unsafe impl<const SHIFT: u32> Sync for Parts<SHIFT> {}

impl<const SHIFT: u32> Parts<SHIFT> {
    /// Zeroed parts, one for each CPU there may be.
    ///
    /// # Panics
    ///
    /// If sections do not run here.
    pub fn new() -> Parts<SHIFT> {
        assert!(atomseq::status().is_active(), "{}", atomseq::status());
        let cpus = atomseq::internals::cpu_slots();
        let layout = layout(cpus, SHIFT);
        // SAFETY: the size is not zero.
        let start = NonNull::new(unsafe { alloc_zeroed(layout) });
        let start = start.unwrap_or_else(|| handle_alloc_error(layout));
        for guard in 0..GUARDS {
            // SAFETY: inside the memory, aligned, and nobody else's yet.
            unsafe { start.add(guard << SHIFT).cast::<u32>().write(1) };
        }
        Parts {
            // SAFETY: the guards are part of the memory.
            base: unsafe { start.add(GUARDS << SHIFT) },
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
        assert!(cpu < self.cpus && offset < 1 << SHIFT && offset.is_multiple_of(8));
        // SAFETY: inside the part, aligned. Volatile: its CPU may change it.
        unsafe {
            self.base
                .add((cpu << SHIFT) + offset)
                .cast::<u64>()
                .read_volatile()
        }
    }
}

impl<const SHIFT: u32> Default for Parts<SHIFT> {
    fn default() -> Parts<SHIFT> {
        Parts::new()
    }
}

impl<const SHIFT: u32> Drop for Parts<SHIFT> {
    fn drop(&mut self) {
        // SAFETY: where the memory began, and its layout.
        unsafe {
            dealloc(
                self.base.sub(GUARDS << SHIFT).as_ptr(),
                layout(self.cpus, SHIFT),
            )
        }
    }
}

fn layout(cpus: usize, shift: u32) -> Layout {
    Layout::from_size_align((cpus + GUARDS) << shift, 1 << shift).expect("a few kilobytes a CPU")
}
