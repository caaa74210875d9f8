//! Words: every operator, comparison and kind of constant; and their order. The arguments of one
//! statement are evaluated from left to right, so that a `load_acquire` orders the loads that are
//! written after it.

use atomseq::sequence::model::{self, Program};

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
const MORE: usize = 65_536;
const WIDE: u64 = 0xfedc_ba98_7654_3210;
const MINUS: isize = -1;

atomseq::sequence! {
    /// Operators.
    pub unsafe fn operators(slot: Slot, a: Word, b: Word) -> Word {
        let sum: Word = a + b - 1;
        let product = sum * 3 * a;
        let bits = (product & 0xff) | (a ^ b);
        let shifted = (bits << 3) >> (a & 63);
        let least = max(min(shifted, min(b, 100)), 3);
        commit(slot + 8, !least & !0xff | !N);
        !(least)
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

    /// Constants that no instruction holds, in every place for a word.
    pub unsafe fn large(a: Word, b: Word) -> (Word, Word) {
        if b == WIDE { return (WIDE, MINUS) }
        if load(a) > !MORE { return (0, 0) }
        let product = load(a + 8) * WIDE;
        let shifted = b << MORE;
        let far = a + MORE;
        prepare32(a + 16, WIDE);
        let mixed = WIDE ^ b;
        prepare(a + 24, min(product, MORE));
        commit(a + 32, (shifted + MINUS) ^ far);
        (mixed, MORE)
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

/// Both forms, each with both ways out.
#[test]
fn large_constants_are_words() {
    let (wide, minus) = (WIDE as usize, usize::MAX);
    type Form = unsafe fn(usize, usize) -> (usize, usize);
    let forms: [Form; 2] = [large::restarting, large::rolling];
    for form in forms {
        let mut words = [5usize, 3, 9, 9, 9];
        let a = &raw mut words as usize;
        // SAFETY: words of this function's own.
        let results = [wide, 6].map(|b| unsafe { form(a, b) });
        assert_eq!(results, [(wide, minus), (wide ^ 6, MORE)]);
        let half = wide & 0xffff_ffff;
        let last = (6usize << (MORE % 64)).wrapping_add(minus) ^ (a + MORE);
        assert_eq!(words, [5, 3, half, MORE, last]);
        let mut word = !MORE + 1;
        // SAFETY: a word of this function's own; this way out reads no other.
        assert_eq!(unsafe { form(&raw mut word as usize, 6) }, (0, 0));
    }
}

/// One run.
#[test]
fn constants_that_read_alike_and_differ_are_two() {
    let mut words = [0usize; 2];
    // SAFETY: words of this function's own.
    unsafe { lines::rolling(&raw mut words as usize) };
    assert_eq!(words[0] + 2, words[1]);
}

atomseq::sequence! {
    /// Stores that are prepared, a copy, and a commit.
    pub unsafe fn prepared(slot: Slot, a: Word) {
        prepare(load(a), load(a + 8));
        prepare32(load(a + 16), load(a + 24));
        prepare_copy(load(a + 32), load(a + 40), load(a + 48));
        commit(load_acquire(a + 56), load(a + 64));
    }

    /// A commit of half a word.
    pub unsafe fn halved(slot: Slot, a: Word) { commit32(load(a), load32(a + 8)); }

    /// A commit that releases.
    pub unsafe fn released(slot: Slot, a: Word) { commit_release(load(a), load(a + 8)); }

    /// Visible stores.
    pub unsafe fn stored(a: Word) {
        store(load(a), load(a + 8));
        store32(load(a + 16), load(a + 24));
    }

    /// A compare-and-swap.
    pub unsafe fn exchanged(slot: Slot, a: Word) -> bool {
        'abort: { return false }
        let found = cas(load(a), 1, load(a + 8));
        if found != 1 { return false }
        store(load(a + 16), load(a + 24));
        commit(slot + 8, 0);
        true
    }

    /// What has a value: a comparison, operators, a result.
    pub unsafe fn computed(a: Word) -> (Word, Word) {
        if load(a) < load(a + 8) { return (0, 0) }
        let least = min(load(a + 16), load(a + 24) - load(a + 32));
        (least + load(a + 40), load(a + 48) ^ least)
    }
}

/// Returns the offsets of what a model loads from its parameter `a`, in order.
fn offsets(model: &Program, a: usize) -> Vec<usize> {
    let loads = model.steps.iter().filter_map(|step| match step {
        model::Step::Load { from, .. } if from.base == a => Some(from.offset),
        _ => None,
    });
    loads.collect()
}

/// Every statement with several arguments, once: 9 of them, in 6 sequences.
#[test]
fn loads_of_a_statement_stand_in_the_order_of_its_text() {
    for (model, a, loads) in [
        (prepared::MODEL, 1, 9),
        (halved::MODEL, 1, 2),
        (released::MODEL, 1, 2),
        (stored::MODEL, 0, 4),
        (exchanged::MODEL, 1, 4),
        (computed::MODEL, 0, 7),
    ] {
        let textual: Vec<usize> = (0..loads).map(|index| 8 * index).collect();
        assert_eq!(offsets(&model, a), textual, "{}", model.name);
    }
}
