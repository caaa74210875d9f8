//! A visible store cannot be repeated: it stands neither beside `prepare` and `commit` nor beside
//! `cpu()`.

// Before a commit.
atomseq::sequence! {
    pub unsafe fn visible_store(slot: Slot, a: Word, b: Word) {
        store(slot + 8, a);
        commit(slot + 16, b);
    }
}

// Beside a `prepare`.
atomseq::sequence! {
    pub unsafe fn visible_store_and_prepare(a: Word, b: Word) {
        prepare(a, 1);
        store(b, 2);
    }
}

// Beside a copy, which is a loop.
atomseq::sequence! {
    pub unsafe fn visible_store_and_copy(slot: Slot, from: Word) {
        prepare_copy(slot + 64, from, 4);
        store(slot + 8, 1);
    }
}

// Rolling forward does not keep the thread on its CPU.
atomseq::sequence! {
    pub unsafe fn visible_store_and_cpu(a: Word, home: Word) -> bool {
        if cpu() != home { return false }
        store(a, 1);
        true
    }
}

fn main() {}
