//! Before the slot lies another CPU's memory.

atomseq::sequence! {
    pub unsafe fn refused(slot: Slot, a: Word, b: Word) {
        let other = load(slot - 8);
        commit(slot + 8, other);
    }
}

fn main() {}
