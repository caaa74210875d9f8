//! Two computations that never yield and a coroutine that wants to run every few milliseconds, on
//! one kernel thread: the end of a slice makes the computations yield.
//!
//! ```text
//! cargo run --release -p atomseq-threads --example slices
//! ```

use std::cell::Cell;
use std::rc::Rc;
use std::time::{Duration, Instant};

use atomseq_threads::coroutine::{self, Builder, Error};

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

/// Runs them, with slices or without; returns the longest time that the third one waited.
fn longest_wait(slice: Option<Duration>) -> Result<Duration, Error> {
    let builder = Builder::new();
    let builder = slice.map_or(builder.clone(), |slice| builder.slice(slice));
    let wait = || {
        let running = Rc::new(Cell::new(2));
        for _ in 0..2 {
            let running = Rc::clone(&running);
            drop(coroutine::spawn(move || {
                // SAFETY: computes with variables of its own.
                let steps = unsafe { coroutine::preemptible(|| collatz(300_000)) };
                assert_eq!(steps, 35_669_725);
                running.set(running.get() - 1);
            }));
        }
        let mut longest = Duration::ZERO;
        while running.get() > 0 {
            let begin = Instant::now();
            coroutine::yield_now();
            longest = longest.max(begin.elapsed());
        }
        longest
    };
    // SAFETY: switches outside of thread-locals.
    unsafe { builder.run(wait) }
}

fn main() -> Result<(), Error> {
    println!("without slices: waited up to {:?}", longest_wait(None)?);
    let slice = Duration::from_millis(5);
    println!(
        "slices of 5 ms: waited up to {:?}",
        longest_wait(Some(slice))?
    );
    Ok(())
}
