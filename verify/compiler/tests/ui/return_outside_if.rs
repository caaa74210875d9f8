//! `return` stands in an `if`.

atomseq::sequence! {
    pub unsafe fn refused(slot: Slot, a: Word, b: Word) -> Word {
        commit(slot + 8, a);
        return a;
    }
}

fn main() {}
