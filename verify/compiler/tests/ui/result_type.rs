//! A result is made of words.

atomseq::sequence! {
    pub unsafe fn refused(slot: Slot, a: Word, b: Word) -> u32 {
        commit(slot + 8, a);
        a
    }
}

fn main() {}
