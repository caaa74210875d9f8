//! Shared by the tests of signal handlers: a log that handlers write, handlers of libraries that do
//! not use atomseq, and sequences to interrupt. Helpers that other crates need too live in
//! verify-support.
//!
//! Each test runs in a process of its own: dispositions belong to the process, and some tests end
//! it.
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

/// The events of this process in order: handlers append to it, the test reads it.
static LOG: [AtomicUsize; 16] = [const { AtomicUsize::new(0) }; 16];
static LOGGED: AtomicUsize = AtomicUsize::new(0);

/// Appends an entry. Async-signal-safe.
pub fn log(entry: usize) {
    LOG[LOGGED.fetch_add(1, SeqCst)].store(entry, SeqCst);
}

/// Appends each of three words. Async-signal-safe.
///
/// # Safety
///
/// They are valid.
pub unsafe fn log_three(words: usize) {
    let words = words as *const usize;
    // SAFETY: the caller's promise.
    (0..3).for_each(|index| log(unsafe { words.add(index).read_volatile() }));
}

/// A handler that logs its signal.
pub fn note(event: &mut Event<'_>) {
    log(event.signal() as usize);
}

/// A handler that logs its signal and chains to the previous handler.
pub fn note_and_chain(event: &mut Event<'_>) {
    note(event);
    event.chain();
}

/// Returns the number of entries. Async-signal-safe.
pub fn log_length() -> usize {
    LOGGED.load(SeqCst)
}

/// Returns every entry since the log was last cleared.
pub fn logged() -> Vec<usize> {
    LOG[..log_length()]
        .iter()
        .map(|entry| entry.load(SeqCst))
        .collect()
}

/// Removes all entries.
pub fn clear_log() {
    LOGGED.store(0, SeqCst);
}

/// The handler that each `pass_on` displaced.
pub static FOUND: [AtomicUsize; 3] = [const { AtomicUsize::new(0) }; 3];

/// Logs its number plus 1000 and calls the handler that it displaced.
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

/// Installs `pass_on::<N>` over the current handler, which it returns.
pub fn install_over<const N: usize>(signal: i32) -> libc::sigaction {
    let old = install_plainly(signal, pass_on::<N>, 0, &[]);
    FOUND[N].store(old.sa_sigaction, SeqCst);
    old
}

/// Logs 2000 and calls no other handler.
pub extern "C" fn lowest(_: i32, _: *mut libc::siginfo_t, _: *mut libc::c_void) {
    log(2000);
}

/// Sets a signal's disposition to `SIG_IGN`.
pub fn ignore(signal: i32) {
    // SAFETY: no function.
    unsafe { libc::signal(signal, libc::SIG_IGN) };
}
