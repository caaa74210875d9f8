//! Nobody would be told that what was claimed is still claimed.

atomseq::sequence! {
    pub unsafe fn refused(slot: Slot, lock: Word, word: Word) -> Word {
        let found = cas(lock, 0, 1);
        if found != 0 { return 2 }
        store(word, 1);
        commit(lock, 0);
        0
    }
}

fn main() {}
