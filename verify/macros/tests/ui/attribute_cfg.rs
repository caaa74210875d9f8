//! A sequence whose condition does not hold is not there.

atomseq::sequence! {
    #[cfg(any())]
    unsafe fn absent(word: Word) -> Word { load(word) }
}

fn main() {
    let _ = absent::MODEL;
}
