//! A copy is a loop: only the kernel restarts it.

atomseq::sequence! {
    pub unsafe fn refused(to: Word, from: Word, flag: Word) {
        prepare_copy(to, from, 4);
        commit(flag, 1);
    }
}

fn main() {}
