//! Shows a counter that threads on all CPUs increment without an atomic instruction.
//!
//! ```text
//! cargo run --release -p atomseq --example counter
//! ```
//!
//! Each increment is one plain add to the memory of the CPU that the thread is on. The sum is exact
//! once the threads have finished. A plain `AtomicU64` does the same work for comparison.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Instant;

use atomseq::percpu::Counter;

const THREADS: u64 = 8;
const INCREMENTS: u64 = 250_000;

fn main() {
    println!("atomseq: {}", atomseq::status());

    let requests = Counter::new();
    let nanoseconds = time(|| requests.increment());
    println!(
        "percpu::Counter  sum {}, {nanoseconds:.1} ns per increment",
        requests.sum()
    );
    assert_eq!(requests.sum(), THREADS * INCREMENTS);

    let shared = AtomicU64::new(0);
    let nanoseconds = time(|| _ = shared.fetch_add(1, Ordering::Relaxed));
    let sum = shared.into_inner();
    println!("AtomicU64        sum {sum}, {nanoseconds:.1} ns per increment");
    assert_eq!(sum, THREADS * INCREMENTS);
}

/// Calls `increment` on several threads at once. Returns the nanoseconds per call and CPU.
fn time(increment: impl Fn() + Sync) -> f64 {
    let start = Instant::now();
    std::thread::scope(|scope| {
        for _ in 0..THREADS {
            scope.spawn(|| (0..INCREMENTS).for_each(|_| increment()));
        }
    });
    let cpus = std::thread::available_parallelism().map_or(1, |cpus| cpus.get() as u64);
    let calls_on_one_cpu = THREADS * INCREMENTS / cpus.min(THREADS);
    start.elapsed().as_nanos() as f64 / calls_on_one_cpu as f64
}
