//! What random sequences are run on: arguments and the words in memory.

use crate::oracle::Memory;
use crate::random::{Parameter, Program, BULK_ADDRESS};

/// The bytes of a slot before its first word.
pub const GATE_BYTES: u64 = 8;
/// The bytes of a slot's words.
pub const SLOT_BYTES: u64 = 120;

/// The bytes of bulk memory that sequences reach.
pub const BULK_BYTES: u64 = 512;

/// A word that is likely to decide something.
fn word(random: &mut fastrand::Rng) -> u64 {
    match random.usize(0..6) {
        0 => random.u64(0..5),
        1 => u64::MAX - random.u64(0..5),
        2 => random.u64(..) & 0xffff_ffff,
        3 => 1 << random.u32(0..64),
        4 => random.u64(0..100) * 8,
        _ => random.u64(..),
    }
}

/// The words of a slot and its bulk memory, at their addresses.
pub fn memory(random: &mut fastrand::Rng, slot: u64, bulk: u64) -> Memory {
    let mut memory = Memory {
        stretches: vec![
            (slot + GATE_BYTES, vec![0; SLOT_BYTES as usize]),
            (bulk, vec![0; BULK_BYTES as usize]),
        ],
    };
    let addresses = (0..SLOT_BYTES / 8).map(|index| slot + GATE_BYTES + 8 * index);
    for address in addresses.chain((0..BULK_BYTES / 8).map(|index| bulk + 8 * index)) {
        memory.store(address, word(random), 8);
    }
    memory.store(slot + BULK_ADDRESS, bulk, 8);
    memory
}

/// Arguments; a slot's is its address.
pub fn arguments(random: &mut fastrand::Rng, program: &Program, slot: u64, bulk: u64) -> Vec<u64> {
    program
        .parameters
        .iter()
        .map(|parameter| match parameter {
            Parameter::Slot | Parameter::Base => slot,
            Parameter::Bulk => bulk,
            Parameter::Word => word(random),
        })
        .collect()
}
