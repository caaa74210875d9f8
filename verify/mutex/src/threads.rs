//! Threads that end in the middle, and threads that sleep.

use std::sync::mpsc::channel;
use std::thread;
use std::time::{Duration, Instant};

/// Runs `work` on a thread that then ends by the system call, as no Rust thread does: nothing is
/// dropped, nobody unwinds. Returns when the kernel has ended it.
pub fn ended_after(work: impl FnOnce() + Send + 'static) {
    let (send, receive) = channel();
    // Never joined: it has no result.
    let _detached = thread::spawn(move || {
        work();
        send.send(this_thread()).expect("the test waits");
        // SAFETY: ends this thread, and no other; its stack stays mapped.
        unsafe { libc::syscall(libc::SYS_exit, 0) };
        unreachable!("it has ended");
    });
    let thread = receive.recv().expect("the thread's number");
    wait_until_exited(thread);
}

/// This thread's number.
pub fn this_thread() -> i32 {
    // SAFETY: it only asks.
    unsafe { libc::gettid() }
}

fn task(thread: i32) -> std::path::PathBuf {
    format!("/proc/self/task/{thread}").into()
}

/// Waits until the kernel says that a thread sleeps.
pub fn wait_until_asleep(thread: i32) {
    wait_until(|| {
        let text = std::fs::read_to_string(task(thread).join("stat")).unwrap_or_default();
        let state = text.rsplit_once(") ").map(|(_, rest)| rest);
        state.is_some_and(|state| state.starts_with('S'))
    });
}

/// Waits until the kernel has ended a thread of this process.
pub fn wait_until_exited(thread: i32) {
    wait_until(|| !task(thread).exists());
}

/// Waits until it is so.
///
/// # Panics
///
/// If that takes ten seconds.
pub fn wait_until(condition: impl Fn() -> bool) {
    let start = Instant::now();
    while !condition() {
        assert!(start.elapsed() < Duration::from_secs(10), "it never is");
        thread::sleep(Duration::from_millis(1));
    }
}
