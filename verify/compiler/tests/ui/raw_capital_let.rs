//! A word is in lower case, written as a raw identifier or not.

atomseq::sequence! {
    pub unsafe fn refused(slot: Slot) {
        let r#LIMIT = load(slot + 8);
        commit(slot + 8, r#LIMIT + 1);
    }
}

fn main() {}
