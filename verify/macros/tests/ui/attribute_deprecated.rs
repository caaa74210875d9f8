//! A deprecated sequence is used, and a deprecated constant.
#![deny(deprecated)]

#[deprecated]
const OLD: usize = 8;

atomseq::sequence! {
    #[deprecated(note = "use another one")]
    unsafe fn old(word: Word) -> Word { load(word + OLD) }

    unsafe fn of_old(word: Word) -> Word { load(word + OLD) }
}

fn main() {
    let _ = old::MODEL;
    let _ = of_old::MODEL;
}
