//! A store has no value.

atomseq::sequence! {
    pub unsafe fn refused(slot: Slot, a: Word, b: Word) {
        let done = prepare(slot + 16, a);
        commit(slot + 8, done);
    }
}

fn main() {}
