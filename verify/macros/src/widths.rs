//! A sequence computes the same of literals as of words, and reaches the same offsets, whether words have 32 bits or 64. All
//! of it is checked while this file is compiled, which `.ci/run` does for targets of both widths.

use atomseq::sequence::model::{Operand, Program, Step};

const BEFORE: usize = 0_usize.wrapping_sub(8);

atomseq::sequence! {
    pub unsafe fn of_literals(words: Word) -> Word {
        let word = load(words + BEFORE);
        let shifted = (word ^ ((0 - 1) >> 8)) ^ (1 << 40);
        let least = (shifted ^ min(0 - 1, (1 << 40) - 1)) ^ ((1 << 20) * (1 << 20));
        (least ^ (3 - 7)) ^ 0xffff_ffff
    }
}

/// The constant of the computation of this number.
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
};
