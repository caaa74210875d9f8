//! Nothing would tell of an interruption.

atomseq::sequence! {
    pub unsafe fn refused(lock: Word, word: Word) -> Word {
        'abort: { return 1 }
        let found = cas(lock, 0, 1);
        if found != 0 { return 2 }
        store(word, 1);
        commit(lock, 0);
        0
    }
}

fn main() {}
