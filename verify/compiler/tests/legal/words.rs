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

/// A number.
pub struct Number<const NUMBER: u32>;

impl<const NUMBER: u32> Number<NUMBER> {
    /// The number itself.
    pub const VALUE: u32 = NUMBER;
}

const N: usize = 3;
const EIGHT: usize = 8;

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

    /// A constant as a raw identifier, which is the same name.
    pub unsafe fn raw(a: Word) { store(a + r#EIGHT, r#N + load(a + EIGHT)); }

    /// A prepared word that is loaded, and prepared again, at addresses that read alike.
    pub unsafe fn again(a: Word, slot: Slot) {
        prepare(a + Number::<8>::VALUE, 5);
        let prepared = load(a + Number::<8>::VALUE);
        prepare(a + Number::<8>::VALUE, prepared + 1);
        commit(a, prepared);
    }

    /// Constants that read alike and differ.
    pub unsafe fn lines(a: Word) {
        store(a, Number::<{ 2 * line!() }>::VALUE);
        store(a + 8, Number::<{ 2 * line!() }>::VALUE);
    }
}

#[test]
fn words_compiles() {
    let _ = (
        operators::MODEL,
        comparisons::MODEL,
        constants::MODEL,
        again::MODEL,
    );
    let mut words = [1usize, 2];
    // SAFETY: words of this function's own.
    unsafe { raw::rolling(&raw mut words as usize) };
    assert_eq!(words, [1, 2 + N]);
}

/// One run.
#[test]
fn constants_that_read_alike_and_differ_are_two() {
    let mut words = [0usize; 2];
    // SAFETY: words of this function's own.
    unsafe { lines::rolling(&raw mut words as usize) };
    assert_eq!(words[0] + 2, words[1]);
}
