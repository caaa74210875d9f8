//! `Arc` makes nothing of one thread fit for two.

use std::sync::Arc;

use atomseq::local::Ring;

fn main() {
    let ring: Arc<Ring<u64, 4>> = Arc::new(Ring::new());
    let other = Arc::clone(&ring);
    std::thread::spawn(move || other.push(1));
}
