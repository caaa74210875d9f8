//! Threads that exit without unwinding, and threads that sleep.

use std::sync::mpsc::channel;
use std::thread;
use std::time::{Duration, Instant};

/// Runs `work` on a thread that then exits by the system call, as no Rust thread does: nothing is
/// dropped, and nothing unwinds. Returns after the thread has exited.
pub fn ended_after(work: impl FnOnce() + Send + 'static) {
    let (send, receive) = channel();
    // It has no result, so it is never joined.
    let _detached = thread::spawn(move || {
        work();
        send.send(this_thread()).expect("the test waits");
        // SAFETY: exits this thread only; its stack stays mapped.
        unsafe { libc::syscall(libc::SYS_exit, 0) };
        unreachable!("it has exited");
    });
    let thread = receive.recv().expect("the thread's number");
    wait_until_exited(thread);
}

/// Returns the thread ID of the calling thread.
pub fn this_thread() -> i32 {
    // SAFETY: no arguments.
    unsafe { libc::gettid() }
}

fn task(thread: i32) -> std::path::PathBuf {
    format!("/proc/self/task/{thread}").into()
}

/// Waits until a thread sleeps.
pub fn wait_until_asleep(thread: i32) {
    wait_until(|| {
        let text = std::fs::read_to_string(task(thread).join("stat")).unwrap_or_default();
        let state = text.rsplit_once(") ").map(|(_, rest)| rest);
        state.is_some_and(|state| state.starts_with('S'))
    });
}

/// Waits until a thread of this process has exited.
pub fn wait_until_exited(thread: i32) {
    wait_until(|| !task(thread).exists());
}

/// Waits until a condition is true.
///
/// # Panics
///
/// After five minutes.
pub fn wait_until(condition: impl Fn() -> bool) {
    let start = Instant::now();
    while !condition() {
        assert!(start.elapsed() < Duration::from_secs(300), "it never is");
        thread::sleep(Duration::from_millis(1));
    }
}
