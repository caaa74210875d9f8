//! Without a slot, the CPU number must decide something.

atomseq::sequence! {
    pub unsafe fn refused(a: Word, b: Word) {
        commit(a, b);
    }
}

fn main() {}
