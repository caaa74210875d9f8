//! What the tests of signal handlers share: a log that handlers write, handlers of libraries that
//! know nothing of atomseq, and sequences to interrupt. What other crates use as well is in
//! verify-support.
//!
//! Each test gets a process of its own: handlers belong to the process, and some tests end it.
#![cfg(target_os = "linux")]

use std::sync::atomic::{AtomicUsize, Ordering::SeqCst};

use atomseq::signal::Event;
use verify_support::signals::{Three, install_plainly};

#[cfg(atomseq_sections)]
atomseq::sequence! {
    /// Adds one to each of three words; if the second is `stop`, to the first one only.
    pub unsafe fn add_to_three(words: Word, stop: Word) -> Word {
        let first = load(words);
        store(words, first + 1);
        let second = load(words + 8);
        if second == stop { return first }
        store(words + 8, second + 1);
        let third = load(words + 16);
        store(words + 16, third + 1);
        third
    }

    /// Adds what the second word holds to the first.
    pub unsafe fn add_second_to_first(words: Word) -> Word {
        let first = load(words);
        let second = load(words + 8);
        commit(words, first + second);
        first
    }
}

/// What happened in this process, in order: handlers write it, the test reads it.
static LOG: [AtomicUsize; 16] = [const { AtomicUsize::new(0) }; 16];
static LOGGED: AtomicUsize = AtomicUsize::new(0);

/// Adds an entry. Async-signal-safe.
pub fn log(entry: usize) {
    LOG[LOGGED.fetch_add(1, SeqCst)].store(entry, SeqCst);
}

/// A handler that adds its signal.
pub fn note(event: &mut Event<'_>) {
    log(event.signal() as usize);
}

/// A handler that adds its signal, and calls what was there before.
pub fn note_and_chain(event: &mut Event<'_>) {
    note(event);
    event.chain();
}

/// How many entries there are. Async-signal-safe.
pub fn log_length() -> usize {
    LOGGED.load(SeqCst)
}

/// Every entry since the log was last cleared.
pub fn logged() -> Vec<usize> {
    LOG[..log_length()]
        .iter()
        .map(|entry| entry.load(SeqCst))
        .collect()
}

/// Takes all entries off.
pub fn clear_log() {
    LOGGED.store(0, SeqCst);
}

/// What each has found when it was installed.
pub static FOUND: [AtomicUsize; 3] = [const { AtomicUsize::new(0) }; 3];

/// Logs its number plus 1000, and passes on to what it has found.
pub extern "C" fn pass_on<const N: usize>(
    signal: i32,
    info: *mut libc::siginfo_t,
    context: *mut libc::c_void,
) {
    log(1000 + N);
    // SAFETY: a handler of three arguments, called as the kernel would.
    unsafe {
        let found: Three = std::mem::transmute(FOUND[N].load(SeqCst));
        found(signal, info, context);
    }
}

/// Installs one of them over what is there; returns that.
pub fn install_over<const N: usize>(signal: i32) -> libc::sigaction {
    let old = install_plainly(signal, pass_on::<N>, 0, &[]);
    FOUND[N].store(old.sa_sigaction, SeqCst);
    old
}

/// Logs 2000, and passes on to nothing.
pub extern "C" fn lowest(_: i32, _: *mut libc::siginfo_t, _: *mut libc::c_void) {
    log(2000);
}

/// Ignores a signal.
pub fn ignore(signal: i32) {
    // SAFETY: no function.
    unsafe { libc::signal(signal, libc::SIG_IGN) };
}
