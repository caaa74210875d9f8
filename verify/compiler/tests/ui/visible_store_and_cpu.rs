//! A rollforward does not keep the thread on its CPU.

atomseq::sequence! {
    pub unsafe fn refused(a: Word, home: Word) -> bool {
        if cpu() != home { return false }
        store(a, 1);
        true
    }
}

fn main() {}
