//! Shows a histogram that threads on all CPUs record into, and quantiles of what they recorded.
//!
//! ```text
//! cargo run --release -p atomseq --example histogram
//! ```
//!
//! Recording a value is one plain add, without an atomic instruction. A snapshot adds up the
//! buckets of all CPUs. A quantile is known up to the bounds of the bucket that contains it.

use atomseq::percpu::{Histogram, Quantile};

const THREADS: u64 = 4;
const REQUESTS: u64 = 100_000;

/// Upper bounds in microseconds, inclusive. Larger values go to one more bucket.
static LATENCY: Histogram = Histogram::with_bounds(&[10, 20, 50, 100, 200, 500, 1000]).with_sum();

fn main() {
    std::thread::scope(|scope| {
        for thread in 0..THREADS {
            scope.spawn(move || {
                for request in 0..REQUESTS {
                    LATENCY.record(latency_of(thread * REQUESTS + request));
                }
            });
        }
    });

    let snapshot = LATENCY.snapshot();
    let mean = snapshot.sum().unwrap_or(0) / snapshot.total();
    println!("{} requests, {mean} µs on average", snapshot.total());
    for (bound, count) in snapshot.buckets() {
        let share = 100.0 * count as f64 / snapshot.total() as f64;
        let bar = "#".repeat((share / 2.0) as usize);
        match bound {
            u64::MAX => println!("  more         {count:>8}  {bar}"),
            _ => println!("  to {bound:>4} µs   {count:>8}  {bar}"),
        }
    }
    for (name, part) in [("median", 0.5), ("90 %", 0.9), ("99.9 %", 0.999)] {
        let quantile = snapshot.quantile(part).expect("the histogram is not empty");
        println!("{name:>8}: {quantile} µs");
    }

    assert_eq!(snapshot.total(), THREADS * REQUESTS);
    assert_eq!(snapshot.quantile(0.5), Some(Quantile::AtMost(50)));
    assert_eq!(snapshot.quantile(0.9), Some(Quantile::AtMost(200)));
}

/// Returns a made-up latency in microseconds: mostly short, with a long tail.
fn latency_of(request: u64) -> u64 {
    match request % 1000 {
        0..=1 => 900,
        2..=99 => 210 + request % 100,
        100..=499 => 60 + request % 80,
        rest => 5 + rest % 40,
    }
}
