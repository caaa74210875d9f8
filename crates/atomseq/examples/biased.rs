//! Shows a mutex biased to the CPU that uses it most: locking it there takes no atomic instruction.
//!
//! ```text
//! cargo run --release -p atomseq --example biased
//! ```
//!
//! One thread locks the mutex a million times; another visits a few times, as a monitor would. A
//! visit from another CPU costs several microseconds. So `Biased` pays where visits are rare, less
//! than about one in ten thousand. `std`'s mutex does the same work for comparison.

use std::time::{Duration, Instant};

use atomseq::mutex::Biased;

const UPDATES: u64 = 1_000_000;
const VISITS: u64 = 10;

static BIASED: Biased<u64> = Biased::new(0);
static PLAIN: std::sync::Mutex<u64> = std::sync::Mutex::new(0);

fn main() {
    println!("atomseq: {}", atomseq::status());

    let add_biased = || *BIASED.lock() += 1;
    let add_plain = || *PLAIN.lock().expect("no thread panics") += 1;

    let nanoseconds = time(add_biased);
    println!(
        "mutex::Biased    {} updates, {nanoseconds:.1} ns each",
        *BIASED.lock()
    );
    assert_eq!(*BIASED.lock(), UPDATES + VISITS);

    let nanoseconds = time(add_plain);
    let sum = *PLAIN.lock().expect("no thread panics");
    println!("std::sync::Mutex {sum} updates, {nanoseconds:.1} ns each");
    assert_eq!(sum, UPDATES + VISITS);
}

/// Calls `update` a million times, and a few times from another thread. Returns the nanoseconds per
/// call of the first thread.
fn time(update: impl Fn() + Sync) -> f64 {
    std::thread::scope(|scope| {
        let visitor = scope.spawn(|| {
            for _ in 0..VISITS {
                std::thread::sleep(Duration::from_micros(200));
                update();
            }
        });
        let start = Instant::now();
        (0..UPDATES).for_each(|_| update());
        let nanoseconds = start.elapsed().as_nanos() as f64 / UPDATES as f64;
        visitor.join().expect("the visitor does not panic");
        nanoseconds
    })
}
