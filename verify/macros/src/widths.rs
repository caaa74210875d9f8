//! A sequence computes the same with literals as with words, and reaches the same offsets, whether
//! words have 32 bits or 64. All of it is checked while this file is compiled, which `.ci/run` does
//! for targets of both widths.

use atomseq::sequence::model::{Operand, Program, Step};

const BEFORE: usize = 0_usize.wrapping_sub(8);
const SEVEN: usize = 7;

atomseq::sequence! {
    pub unsafe fn of_literals(words: Word) -> Word {
        let word = load(words + BEFORE);
        let shifted = (word ^ ((0 - 1) >> 8)) ^ (1 << 40);
        let least = (shifted ^ min(0 - 1, (1 << 40) - 1)) ^ ((1 << 20) * (1 << 20));
        (least ^ (3 - 7)) ^ 0xffff_ffff
    }

    /// `2 >> 32` is 0 where words have 64 bits, and 2 where they have 32.
    pub unsafe fn of_zero_at_one_width(word: Word) -> Word {
        let added = (word + (2 >> 32)) ^ (SEVEN + (2 >> 32));
        (added ^ ((2 >> 32) + SEVEN)) ^ (SEVEN - (2 >> 32))
    }

    /// A copy of one word where words have 64 bits, and of three where they have 32. Both include
    /// the word that is loaded.
    pub unsafe fn of_length_by_width(slot: Slot, a: Word) {
        prepare_copy(slot + 16, a, (2 >> 32) + 1);
        let first = load(slot + 16);
        prepare(slot + 16, first);
        commit(slot + 8, a);
    }
}

/// Returns the constant of the computation of this number.
const fn constant(program: &Program, number: usize) -> usize {
    let (mut step, mut found) = (0, 0);
    loop {
        if let Step::Binary {
            b: Operand::Constant(value),
            ..
        } = program.steps[step]
        {
            if found == number {
                return value;
            }
            found += 1;
        }
        step += 1;
    }
}

/// Returns the number of words in the first copy.
const fn copied(program: &Program) -> usize {
    let mut step = 0;
    loop {
        if let Step::Copy {
            words: Operand::Constant(words),
            ..
        } = program.steps[step]
        {
            return words;
        }
        step += 1;
    }
}

const _: () = {
    const LITERALS: &Program = &of_literals::MODEL;
    assert!(constant(LITERALS, 0) == usize::MAX.wrapping_shr(8));
    assert!(constant(LITERALS, 1) == 1_usize.wrapping_shl(40));
    let limit = 1_usize.wrapping_shl(40).wrapping_sub(1);
    assert!(constant(LITERALS, 2) == limit);
    let square = (1_usize << 20).wrapping_mul(1 << 20);
    assert!(constant(LITERALS, 3) == square);
    assert!(constant(LITERALS, 4) == 3_usize.wrapping_sub(7));
    assert!(constant(LITERALS, 5) == 0xffff_ffff);

    const ZEROS: &Program = &of_zero_at_one_width::MODEL;
    let two = 2_usize.wrapping_shr(32);
    assert!(constant(ZEROS, 0) == two);
    assert!(constant(ZEROS, 1) == 7 + two && constant(ZEROS, 2) == 7 + two);
    assert!(constant(ZEROS, 3) == 7 - two);

    assert!(copied(&of_length_by_width::MODEL) == 1 + two);
};
