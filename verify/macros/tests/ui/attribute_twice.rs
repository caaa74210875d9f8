//! An attribute that may stand once. In a file of its own: the macro's error hides later ones.

atomseq::sequence! {
    #[inline]
    #[inline(never)]
    unsafe fn inlined(word: Word) -> Word { load(word) }
}

fn main() {}
