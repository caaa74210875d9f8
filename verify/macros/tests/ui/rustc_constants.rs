//! What rustc judges of named constants: their range, as words and as offsets.

// Beyond 65,535 a word takes a register, and x86-64 has thirteen.
const LARGE: usize = 65_536;

atomseq::sequence! {
    pub unsafe fn no_register_for_constant(
        a: Word, b: Word, c: Word, d: Word, e: Word, f: Word, g: Word, h: Word, i: Word, j: Word,
        k: Word, l: Word,
    ) {
        commit(a, b ^ c ^ d ^ e ^ f ^ g ^ h ^ i ^ j ^ k ^ l ^ LARGE);
    }
}

// Nothing is cut off, neither in a result nor in an offset.
const WIDE: u128 = (1 << 64) + 5;
const LAST: u128 = u128::MAX - 7;

atomseq::sequence! {
    pub unsafe fn constant_wider_than_word(a: Word) -> Word {
        commit(a, WIDE);
        7
    }
    pub unsafe fn constant_wider_than_word_as_well(a: Word) {
        commit(a + LAST, 7);
    }
}

// An offset is a multiple of the access.
const ODD: usize = 12;

atomseq::sequence! {
    pub unsafe fn named_offset_unaligned(slot: Slot, a: Word, b: Word) {
        let next = load(a + ODD);
        commit(slot + 8, next);
    }
}

// An offset fits one instruction of every architecture.
const FAR: usize = 40_000;

atomseq::sequence! {
    pub unsafe fn named_offset_out_of_range(slot: Slot, a: Word, b: Word) {
        let next = load(a + FAR);
        commit(slot + 8, next);
    }
}

// An offset from a slot stays clear of the gate.
const GATE: usize = 0;

atomseq::sequence! {
    pub unsafe fn slot_named_gate(slot: Slot, a: Word, b: Word) {
        commit(slot + GATE, a);
    }
}

// And within its words.
const BEHIND: usize = 128;

atomseq::sequence! {
    pub unsafe fn slot_named_behind(slot: Slot, a: Word, b: Word) {
        commit(slot + BEHIND, a);
    }
}

// All words of a copy.
const SIXTEEN: usize = 16;

atomseq::sequence! {
    pub unsafe fn slot_copied_behind_by_constant(slot: Slot, a: Word, b: Word) {
        prepare_copy(a, slot + 8, min(b, SIXTEEN));
        commit(slot + 8, b);
    }
}

// The name of bulk memory does not lead to the gate.
atomseq::sequence! {
    pub unsafe fn slot_gate_by_bulk(slot: Slot, a: Word, b: Word) {
        commit(slot + atomseq::percpu::Area::BULK - 128, b);
    }
}

// So does a plain `fn`, whose callers vouch for nothing.
atomseq::sequence! {
    pub fn plain_behind(slot: Slot, a: Word) {
        let word = load(slot + BEHIND);
        commit(slot + 8, word + a);
    }
    pub fn plain_gate(slot: Slot, a: Word) {
        commit(slot + GATE, a);
    }
}

// The `cas` and its test name constants of two crates that read the same.
pub mod dollar_crate {
    pub const SIZE: usize = 1;
}

macro_rules! expect {
    ($name:ident) => {
        verify_macros::expect_sizes!($name, $crate::dollar_crate::SIZE);
    };
}

expect!(cas_tested_for_another_constant);

fn main() {}
