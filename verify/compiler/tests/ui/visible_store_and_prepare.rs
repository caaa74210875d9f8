//! What is visible cannot be repeated, so nothing is prepared for a repetition.

atomseq::sequence! {
    pub unsafe fn refused(a: Word, b: Word) {
        prepare(a, 1);
        store(b, 2);
    }
}

fn main() {}
