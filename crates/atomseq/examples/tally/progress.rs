//! How far a pass is, on standard error.

use std::io::Write;
use std::sync::mpsc::{self, RecvTimeoutError};
use std::thread;
use std::time::Duration;

use atomseq::percpu::Counter;

/// Does some work and shows meanwhile which part of `total` the counter has reached, if it should.
pub fn during<R>(
    label: &str,
    done: &Counter,
    total: u64,
    show: bool,
    work: impl FnOnce() -> R,
) -> R {
    if !show {
        return work();
    }
    thread::scope(|scope| {
        let (finished, wait) = mpsc::channel::<()>();
        scope.spawn(move || {
            while wait.recv_timeout(Duration::from_millis(100)) == Err(RecvTimeoutError::Timeout) {
                let percent = 100 * done.sum() / total.max(1);
                print(&format!("\r{label}: {} %\x1b[K", percent.min(100)));
            }
            print("\r\x1b[K");
        });
        let result = work();
        drop(finished);
        result
    })
}

fn print(text: &str) {
    // Progress that cannot be shown is no reason to stop.
    let _ = std::io::stderr().write_all(text.as_bytes());
}
