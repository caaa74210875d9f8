//! A copy that moves words within themselves cannot start again.

const LENGTH: usize = 4;

atomseq::sequence! {
    pub unsafe fn refused(slot: Slot) {
        prepare_copy(slot + 16, slot + 40, LENGTH);
        commit(slot + 72, 7);
    }
}

fn main() {}
