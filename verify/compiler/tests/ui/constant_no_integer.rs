//! A named constant is an integer: neither a fraction nor a sign is taken off.

const HALF: f64 = 7.9;
const MINUS: f32 = -3.0;

atomseq::sequence! {
    pub unsafe fn refused(a: Word) -> (Word, Word) {
        commit(a, 1);
        (HALF, MINUS)
    }
}

fn main() {}
