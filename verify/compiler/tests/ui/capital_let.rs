//! A name in capitals is a constant, never a `let`.

const NEXT: usize = 7;

atomseq::sequence! {
    pub unsafe fn refused(slot: Slot, a: Word, b: Word) {
        let NEXT = load(slot + 16);
        commit(slot + 8, NEXT);
    }
}

fn main() {}
