//! The address layout of a model's memory: the slots as in an `Area`, each followed by its bulk
//! memory and a gap, and the memory of callers.

use atomseq::percpu::Area;

/// The number of CPUs of a model, unless a structure is small enough for more.
pub const CPUS: usize = 2;

/// The address of CPU 0's slot.
const SLOTS: usize = 0x1_0000;
const STRIDE: usize = 0x1000;

/// The first address of callers' memory: nodes, buffers.
pub const CALLERS: usize = 0x4_0000;
const CALLERS_END: usize = 0x5_0000;

/// The garbage that an aborted attempt may leave in a prepared word: aligned, so that it can be
/// taken for an address, and not mapped.
pub const GARBAGE: usize = 0x6A5B_A6E0_5CA3_B1E8;

/// Returns the address of a CPU's slot.
pub const fn slot(cpu: usize) -> usize {
    SLOTS + cpu * STRIDE
}

/// Returns the address of one of a slot's fifteen words.
pub const fn word(cpu: usize, index: usize) -> usize {
    slot(cpu) + Area::FIRST_WORD + 8 * index
}

/// Returns the address of a CPU's bulk memory.
pub const fn bulk(cpu: usize) -> usize {
    slot(cpu) + Area::BULK
}

/// Returns whether a sequence may touch this byte at all. Gates are excluded: the code around a
/// sequence reads them.
pub fn is_mapped(address: usize, cpus: usize, bulk_bytes: usize) -> bool {
    let in_slots = (SLOTS..slot(cpus)).contains(&address)
        && (Area::FIRST_WORD..Area::BULK + bulk_bytes).contains(&((address - SLOTS) % STRIDE));
    in_slots || (CALLERS..CALLERS_END).contains(&address)
}
