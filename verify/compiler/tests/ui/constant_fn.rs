//! No `const`.

atomseq::sequence! {
    pub const unsafe fn refused(slot: Slot, a: Word) {
        commit(slot + 8, a);
    }
}

fn main() {}
