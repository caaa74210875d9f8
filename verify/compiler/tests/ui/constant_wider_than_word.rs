//! A named constant fits a word: nothing of it is cut off, neither in a result nor in an offset.

const WIDE: u128 = (1 << 64) + 5;
const LAST: u128 = u128::MAX - 7;

atomseq::sequence! {
    pub unsafe fn refused(a: Word) -> Word {
        commit(a, WIDE);
        7
    }
    pub unsafe fn refused_as_well(a: Word) {
        commit(a + LAST, 7);
    }
}

fn main() {}
