//! A CPU number that is only stored decides nothing.

atomseq::sequence! {
    pub unsafe fn refused(a: Word) {
        commit(a, cpu());
    }
}

fn main() {}
