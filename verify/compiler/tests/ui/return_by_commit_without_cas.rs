//! A sequence that is restarted has one commit.

atomseq::sequence! {
    pub unsafe fn refused(slot: Slot, lock: Word, word: Word) -> Word {
        if word == 0 { commit(lock, 0); return 3 }
        commit(slot + 8, 0);
        0
    }
}

fn main() {}
