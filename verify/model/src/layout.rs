//! Where things lie in the memory of a model: the slots as in an `Area`, each with its bulk memory
//! behind it and a gap to the next one, and what belongs to the callers.

use atomseq::percpu::Area;

/// How many CPUs a model has, unless a structure is small enough for more.
pub const CPUS: usize = 2;

/// The address of CPU 0's slot.
const SLOTS: usize = 0x1_0000;
const STRIDE: usize = 0x1000;

/// The first byte of memory that callers own: nodes, buffers.
pub const CALLERS: usize = 0x4_0000;
const CALLERS_END: usize = 0x5_0000;

/// What an aborted attempt may leave in a word it prepared: aligned, so that it can be taken for an
/// address, and mapped nowhere.
pub const GARBAGE: usize = 0x6A5B_A6E0_5CA3_B1E8;

/// The address of a CPU's slot.
pub const fn slot(cpu: usize) -> usize {
    SLOTS + cpu * STRIDE
}

/// The address of one of a slot's fifteen words.
pub const fn word(cpu: usize, index: usize) -> usize {
    slot(cpu) + Area::FIRST_WORD + 8 * index
}

/// The address of a CPU's bulk memory.
pub const fn bulk(cpu: usize) -> usize {
    slot(cpu) + Area::BULK
}

/// May a sequence touch this byte at all? The gates are read by the code around it, never by it.
pub fn is_mapped(address: usize, cpus: usize, bulk_bytes: usize) -> bool {
    let in_slots = (SLOTS..slot(cpus)).contains(&address)
        && (Area::FIRST_WORD..Area::BULK + bulk_bytes).contains(&((address - SLOTS) % STRIDE));
    in_slots || (CALLERS..CALLERS_END).contains(&address)
}
