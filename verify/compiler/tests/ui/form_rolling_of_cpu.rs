//! What asks for its CPU has no form that leaves it there unguarded.

atomseq::sequence! {
    pub unsafe fn takes(word: Word, home: Word) -> bool {
        if cpu() != home { return false }
        commit(word, 1);
        true
    }
}

fn main() {
    let mut word = 0usize;
    unsafe { takes::rolling(&raw mut word as usize, 0) };
}
