//! No match.

atomseq::sequence! {
    pub unsafe fn refused(slot: Slot, a: Word, b: Word) {
        match a {
            _ => commit(slot + 8, a),
        }
    }
}

fn main() {}
