//! Waits for the threads of a trial; where none of them goes on any more, it says where each has
//! stopped.

use std::sync::atomic::{AtomicU64, Ordering};
use std::thread::{self, ScopedJoinHandle};
use std::time::{Duration, Instant};

/// How far a thread is, on a cache line of its own.
#[derive(Debug, Default)]
#[repr(align(128))]
pub struct Progress(AtomicU64);

impl Progress {
    /// So far.
    #[inline(always)]
    pub fn set(&self, operations: u64) {
        // Relaxed: a figure.
        self.0.store(operations, Ordering::Relaxed);
    }

    /// How far.
    pub fn get(&self) -> u64 {
        self.0.load(Ordering::Relaxed)
    }
}

/// How long nothing may go on, on a machine however busy.
const PATIENCE: Duration = Duration::from_secs(30);

/// Joins all; ends the process if nobody goes on.
pub fn join<T>(threads: Vec<ScopedJoinHandle<'_, T>>, progress: &[Progress]) -> Vec<T> {
    let so_far = || progress.iter().map(Progress::get).collect::<Vec<_>>();
    let (mut last, mut since) = (so_far(), Instant::now());
    while !threads.iter().all(ScopedJoinHandle::is_finished) {
        thread::sleep(Duration::from_millis(2));
        let now = so_far();
        if now != last {
            (last, since) = (now, Instant::now());
        }
        if since.elapsed() > PATIENCE {
            let stuck = threads.iter().zip(&last).enumerate();
            let stuck = stuck.filter(|(_, (thread, _))| !thread.is_finished());
            for (number, (_, operations)) in stuck {
                eprintln!(
                    "exclusion: thread {number} sleeps for ever after {operations} operations"
                );
            }
            std::process::exit(1);
        }
    }
    let joined = threads.into_iter().map(|thread| thread.join());
    joined
        .map(|result| result.expect("no thread panics"))
        .collect()
}
