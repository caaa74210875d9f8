//! Attributes of sequences take effect: unused and expected sequences, deprecated ones and their
//! constants, results that must be used.
#![deny(dead_code, deprecated, unfulfilled_lint_expectations, unused_must_use)]

const STEP: usize = 8;

#[deprecated]
const OLD: usize = 8;

atomseq::sequence! {
    unsafe fn unused(slot: Slot) { commit(slot + STEP, STEP) }

    pub unsafe fn unused_too(word: Word) -> Word { load(word) }

    #[expect(dead_code)]
    unsafe fn used(slot: Slot) { commit(slot + STEP, STEP) }

    #[deprecated(note = "use another one")]
    unsafe fn old(word: Word) -> Word { load(word + OLD) }

    unsafe fn of_old(word: Word) -> Word { load(word + OLD) }

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
    let _ = used::MODEL;
    let _ = old::MODEL;
    let _ = of_old::MODEL;
    let mut words = [0_usize; 2];
    let at = (&raw mut words).expose_provenance();
    unsafe {
        plainly::restarting(at);
        plainly::rolling(at);
        because::rolling(at);
    }
}
