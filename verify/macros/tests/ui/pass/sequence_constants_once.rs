//! A sequence evaluates each of its constants once: what its rules are checked with is what it
//! runs.
#![allow(dead_code, unused_braces)]

use atomseq::sequence;
use verify_hostile::{counts_up, once};

struct Word<const OFFSET: usize>;

impl<const OFFSET: usize> Word<OFFSET> {
    const N: usize = OFFSET;
}

sequence! {
    unsafe fn on_cpu(slot: Slot, other: Word) -> Option<Word> {
        let first = load(slot + Word::<{ once!(a: 8) }>::N);
        if first == Word::<{ once!(b: 16) }>::N { return None }
        prepare(slot + <Word<{ once!(c: 16) }>>::N, other & Word::<{ once!(d: 24) }>::N);
        prepare_copy(slot + Word::<{ once!(e: 64) }>::N, other, Word::<{ once!(f: 2) }>::N);
        commit(slot + Word::<{ once!(g: 8) }>::N, first + Word::<{ once!(h: 1) }>::N);
        Some(first)
    }
    unsafe fn claims(slot: Slot, other: Word) -> Word {
        'abort: { return Word::<{ once!(i: 3) }>::N }
        let found = cas(other + Word::<{ once!(j: 8) }>::N, 0, Word::<{ once!(k: 1) }>::N);
        if found != 0 { return Word::<{ once!(l: 4) }>::N }
        commit(slot + 8, 1);
        Word::<{ once!(m: 5) }>::N
    }
    unsafe fn against_handlers(words: Word) -> (Word, Word) {
        let both = load(words + min(Word::<{ once!(n: 8) }>::N, Word::<{ once!(o: 16) }>::N));
        let shifted = both << Word::<{ once!(p: 3) }>::N;
        commit32(words + Word::<{ once!(q: 8) }>::N, shifted ^ Word::<{ once!(r: 9) }>::N);
        (both, Word::<{ once!(s: 9) }>::N)
    }
    unsafe fn counted(words: Word) -> (Word, Word) {
        let first = load(words + Word::<{ counts_up!() }>::N);
        (first, Word::<{ counts_up!() }>::N)
    }
}

fn main() {
    let words = [1_usize, 2, 3, 4];
    // SAFETY: the sequence reads the second word, whichever it takes that for, and this thread has
    // no handlers.
    let counted = unsafe { counted::rolling((&raw const words).addr()) };
    // Paths with a macro inside are two constants, though they read the same.
    assert_eq!(counted, (2, 16));
}
