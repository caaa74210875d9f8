//! Threads of this process: their numbers, their states, and threads that exit without unwinding.

use std::fs;
use std::path::PathBuf;
use std::sync::mpsc::channel;
use std::thread;
use std::time::{Duration, Instant};

/// Runs `work` on a thread that then exits by the system call, as no Rust thread does: nothing is
/// dropped, and no frame unwinds. Returns when the kernel has ended the thread.
pub fn ended_after(work: impl FnOnce() + Send + 'static) {
    let (send, receive) = channel();
    // Never joined: it has no result.
    let _detached = thread::spawn(move || {
        work();
        send.send(this_thread()).expect("the test waits");
        exit_this_thread()
    });
    let thread = receive.recv().expect("the thread's number");
    wait_until_exited(thread);
}

/// Exits this thread by the system call, from a signal handler as well.
pub fn exit_this_thread() -> ! {
    // SAFETY: ends this thread, and no other; its stack stays mapped.
    unsafe { libc::syscall(libc::SYS_exit, 0) };
    unreachable!("the thread has exited");
}

/// Returns this thread's number.
pub fn this_thread() -> i32 {
    // SAFETY: asks for a number.
    unsafe { libc::gettid() }
}

/// Returns the numbers of all threads.
pub fn all() -> impl Iterator<Item = i32> {
    let tasks = fs::read_dir("/proc/self/task").into_iter().flatten();
    tasks.filter_map(|task| task.ok()?.file_name().to_str()?.parse().ok())
}

/// Sends a signal to a thread of this process; returns `false` if there is no such thread.
pub fn signal(thread: i32, signal: i32) -> bool {
    // SAFETY: numbers; the caller has a handler for the signal, or wants the default action.
    unsafe { libc::syscall(libc::SYS_tgkill, libc::getpid(), thread, signal) == 0 }
}

/// The kernel's directory of a thread, which exists as long as the thread.
pub fn task(thread: i32) -> PathBuf {
    format!("/proc/self/task/{thread}").into()
}

/// Returns how long a thread has run, and has waited to run; `None` if the thread has exited or the
/// kernel does not count that.
pub fn scheduled(thread: i32) -> Option<(Duration, Duration)> {
    let text = fs::read_to_string(task(thread).join("schedstat")).ok()?;
    let mut times = text
        .split_whitespace()
        .map_while(|word| word.parse().ok().map(Duration::from_nanos));
    Some((times.next()?, times.next()?))
}

/// Returns the kernel's letter for a thread's state: `S` if it sleeps, neither running nor waiting
/// for a CPU; `None` if the thread has exited.
pub fn state(thread: i32) -> Option<char> {
    let text = fs::read_to_string(task(thread).join("stat")).ok()?;
    // The name, in parentheses, may have spaces and parentheses.
    text.rsplit_once(") ")?.1.chars().next()
}

/// Waits until the kernel says that a thread sleeps.
pub fn wait_until_asleep(thread: i32) {
    wait_until(|| state(thread) == Some('S'));
}

/// Waits until the kernel has ended a thread of this process.
pub fn wait_until_exited(thread: i32) {
    wait_until(|| !task(thread).exists());
}

/// Waits until `condition` holds.
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
