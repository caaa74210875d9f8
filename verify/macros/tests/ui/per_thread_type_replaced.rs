//! A cell, which a handler could find half written.
#![forbid(unsafe_code)]

use std::cell::Cell;
use std::sync::atomic::AtomicU64;

struct Holder {
    _cell: Cell<u64>,
}

impl Holder {
    const fn new(number: u64) -> Holder {
        Holder { _cell: Cell::new(number) }
    }
}

atomseq::local::per_thread! {
    #[verify_hostile::replaces(AtomicU64, Holder)]
    static CELL: AtomicU64 = AtomicU64::new(0);
}

fn main() {
    let _ = AtomicU64::new(0);
}
