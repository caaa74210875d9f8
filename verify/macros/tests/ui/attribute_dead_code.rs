//! A sequence that nobody uses, and one that is used although it is not expected to be.
#![deny(dead_code, unfulfilled_lint_expectations)]

const STEP: usize = 8;

atomseq::sequence! {
    unsafe fn unused(slot: Slot) { commit(slot + STEP, STEP) }

    pub unsafe fn unused_too(word: Word) -> Word { load(word) }

    #[expect(dead_code)]
    unsafe fn used(slot: Slot) { commit(slot + STEP, STEP) }
}

fn main() {
    let _ = used::MODEL;
}
