//! Nobody would ever see it.

atomseq::sequence! {
    pub unsafe fn refused(a: Word) {
        prepare(a, 1);
    }
}

fn main() {}
