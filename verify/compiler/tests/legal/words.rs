//! Every operator, comparison and kind of constant.

/// A module of constants.
pub mod layout {
    /// A named offset.
    pub const FIRST: usize = 16;
    /// Constants of any integer type are words.
    pub const STRIDE: u8 = 8;
    /// So is one of two values.
    pub const BIT: bool = true;
}

/// A type with a constant, named like a type that `sequence!` uses itself.
pub struct Step;

impl Step {
    /// An associated constant.
    pub const SIZE: usize = 40;
}

/// A trait with a constant.
pub trait Sized32 {
    /// Of an implementation.
    const BYTES: i32;
}

impl Sized32 for Step {
    const BYTES: i32 = 4;
}

const N: usize = 3;

atomseq::sequence! {
    /// Operators.
    pub unsafe fn operators(slot: Slot, a: Word, b: Word) -> Word {
        let sum: Word = a + b - 1;
        let product = sum * 3 * a;
        let bits = (product & 0xff) | (a ^ b);
        let shifted = (bits << 3) >> (a & 63);
        let least = min(shifted, min(b, 100));
        commit(slot + 8, least);
        least
    }

    /// Comparisons, with constants on either side.
    pub unsafe fn comparisons(slot: Slot, a: Word, b: Word) -> bool {
        if a == b { return false }
        if a != 7 { return false }
        if 5 < b { return false }
        if (a) <= 0xffff_ffff_ffff_ffff { return true; }
        if a > b + 1 { return false }
        if load(a) >= load(b) { return false }
        commit(slot + 8, 0);
        true
    }

    /// Constants: literals of every form, names by every path, computed ones.
    pub unsafe fn constants(slot: Slot, a: Word) -> (Word, Word) {
        let large = a + 0xdead_beef_0000_0001usize;
        let named = a + layout::FIRST + Step::SIZE - N * 2 + <Step as Sized32>::BYTES + layout::BIT;
        let masked = (a & (1 << 20) - 1) | 0b1010 | 0o17;
        let field = load(a + layout::FIRST - layout::STRIDE);
        prepare(a + Step::SIZE + 8, masked + field);
        commit(slot + layout::FIRST, large);
        (named, usize::MAX)
    }
}

#[test]
fn words_compiles() {
    let _ = (operators::MODEL, comparisons::MODEL, constants::MODEL);
}
