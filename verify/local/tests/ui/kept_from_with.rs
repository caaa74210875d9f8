//! A reference that would outlive its thread.

use std::sync::atomic::AtomicUsize;

use atomseq::local::per_thread;

per_thread! {
    static HITS: AtomicUsize = AtomicUsize::new(0);
}

fn main() {
    let kept: &'static AtomicUsize = HITS.with(|hits| hits);
    std::thread::spawn(move || kept);
}
