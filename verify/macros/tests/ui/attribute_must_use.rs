//! What must be used is not.
#![deny(unused_must_use)]

atomseq::sequence! {
    #[must_use]
    unsafe fn plainly(slot: Slot) -> Word {
        let old = load(slot + 8);
        commit(slot + 8, 1);
        old
    }

    #[must_use = "it says what was there"]
    unsafe fn because(word: Word) -> Word { load(word) }
}

fn main() {
    let mut words = [0_usize; 2];
    let at = (&raw mut words).expose_provenance();
    unsafe {
        plainly::restarting(at);
        plainly::rolling(at);
        because::rolling(at);
    }
}
