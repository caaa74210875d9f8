//! Shows a pool of reusable buffers: each CPU keeps some, so most requests find one without an
//! atomic instruction.
//!
//! ```text
//! cargo run --release -p atomseq --example pool
//! ```
//!
//! A pool asks its source for a new object only where the CPU has none and no other CPU has handed
//! in a surplus. Here the source is a closure that allocates and counts.

use std::sync::atomic::{AtomicU64, Ordering};

use atomseq::percpu::{Counter, Pool};

const THREADS: u64 = 8;
const REQUESTS: u64 = 20_000;

fn main() {
    let allocated = AtomicU64::new(0);
    let buffers = Pool::with_capacity_per_cpu(64, || {
        // Relaxed: a statistic, read after all threads have been joined.
        allocated.fetch_add(1, Ordering::Relaxed);
        Box::new([0u8; 4096])
    });
    let bytes = Counter::new();

    std::thread::scope(|scope| {
        for _ in 0..THREADS {
            scope.spawn(|| {
                for request in 0..REQUESTS {
                    // The lease puts the buffer back when it is dropped.
                    let mut buffer = buffers.lease().expect("this source never fails");
                    bytes.add(answer(request, &mut buffer));
                }
            });
        }
    });

    let allocated = allocated.load(Ordering::Relaxed);
    println!(
        "{} requests used a buffer of 4 KiB each",
        THREADS * REQUESTS
    );
    println!(
        "{allocated} buffers were allocated; the pool keeps {} of them",
        buffers.cached()
    );
    println!("{} bytes of answers", bytes.sum());

    let expected: u64 = (0..REQUESTS)
        .map(|request| answer(request, &mut [0; 4096]))
        .sum();
    assert_eq!(bytes.sum(), THREADS * expected);
    assert!(allocated < THREADS * REQUESTS / 10, "buffers are reused");
}

/// Writes an answer into the buffer, and returns its length.
fn answer(request: u64, buffer: &mut [u8; 4096]) -> u64 {
    let text = format!("answer to request {request}");
    buffer[..text.len()].copy_from_slice(text.as_bytes());
    text.len() as u64
}
