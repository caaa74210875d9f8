//! What only the kernel can restart or end needs a `Slot` or a decision by `cpu()`.

// The CPU's number decides nothing.
atomseq::sequence! {
    pub unsafe fn cpu_only_stored(a: Word) {
        commit(a, cpu());
    }
}

// A copy is a loop, and a clone has no backward branch.
atomseq::sequence! {
    pub unsafe fn copy_without_cpu(to: Word, from: Word, flag: Word) {
        prepare_copy(to, from, 4);
        commit(flag, 1);
    }
}

// Only the kernel reports the interruption.
atomseq::sequence! {
    pub unsafe fn cas_without_cpu(lock: Word, word: Word) -> Word {
        'abort: { return 1 }
        let found = cas(lock, 0, 1);
        if found != 0 { return 2 }
        store(word, 1);
        commit(lock, 0);
        0
    }
}

fn main() {}
