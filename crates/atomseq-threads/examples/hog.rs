//! Two computations that never yield, one closure that blocks in the kernel, and a thread that
//! wants to run every few milliseconds, all on one worker.
//!
//! ```text
//! cargo run --release -p atomseq-threads --example hog
//! ```

use std::sync::atomic::{AtomicUsize, Ordering::SeqCst};
use std::time::{Duration, Instant};

use atomseq_threads::runtime::{self, Error, Options};

/// Returns how many steps by 3n + 1 or n / 2 lead from the numbers up to a limit to 1.
fn collatz(limit: u64) -> u64 {
    let mut steps = 0;
    for start in 1..=limit {
        let mut n = start;
        while n != 1 {
            n = if n % 2 == 0 { n / 2 } else { 3 * n + 1 };
            steps += 1;
        }
    }
    steps
}

fn main() -> Result<(), Error> {
    let slice = Duration::from_millis(5);
    let runtime = Options::new().workers(1).slice(slice).start()?;
    let running = AtomicUsize::new(3);
    let longest = runtime.scope(|scope| {
        for _ in 0..2 {
            scope.spawn(|| {
                assert_eq!(collatz(300_000), 35_669_725);
                running.fetch_sub(1, SeqCst);
            });
        }
        // The standard library's sleep: it blocks the kernel thread.
        scope.spawn(|| {
            std::thread::sleep(Duration::from_millis(50));
            running.fetch_sub(1, SeqCst);
        });
        let watcher = scope.spawn(|| {
            let mut longest = Duration::ZERO;
            while running.load(SeqCst) > 0 {
                let begin = Instant::now();
                runtime::yield_now();
                longest = longest.max(begin.elapsed());
            }
            longest
        });
        watcher.join().unwrap()
    });
    println!("slices of {slice:?}: waited up to {longest:?}");
    println!("kernel threads: {}", runtime.kernel_threads());
    Ok(())
}
