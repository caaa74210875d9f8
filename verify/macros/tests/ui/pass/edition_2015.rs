//! Tokens of the first edition change nothing in what the macros expand to.
#![allow(dead_code)]

mod honest {
    use atomseq::dcas::{Covered, Cell};

    type Held = Cell;

    verify_edition_2015::shelf! { #[derive(Covered)] Shelf }
}

mod thread {
    use atomseq::local::Counter;

    type Held = Counter;

    verify_edition_2015::per_thread! { HITS = Counter::new() }
}

mod sequences {
    const STEP: u16 = 3;

    verify_edition_2015::sequence! { adds }
}

fn main() {
    thread::HITS.with(|count| count.increment());
    assert_eq!(thread::HITS.with(|count| count.sum()), 1);
}
