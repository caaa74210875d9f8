//! What follows the last word that a copy prepares is not prepared yet.

const LENGTH: usize = 9;

atomseq::sequence! {
    pub unsafe fn refused(slot: Slot, a: Word) {
        prepare_copy(slot + 16, a, LENGTH);
        let last = load(slot + 80);
        let next = load(slot + 88);
        prepare(slot + 80, next);
        prepare(slot + 88, last);
        commit(slot + 8, a);
    }
}

fn main() {}
