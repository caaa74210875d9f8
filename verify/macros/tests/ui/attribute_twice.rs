//! An attribute that may stand once.

atomseq::sequence! {
    #[inline]
    #[inline(never)]
    unsafe fn inlined(word: Word) -> Word { load(word) }
}

fn main() {}
