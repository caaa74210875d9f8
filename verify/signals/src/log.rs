//! What happened in a test's process, in order: handlers write it, the test reads it.

use std::sync::atomic::{AtomicUsize, Ordering::SeqCst};

static LOG: [AtomicUsize; 16] = [const { AtomicUsize::new(0) }; 16];
static LOGGED: AtomicUsize = AtomicUsize::new(0);

/// Adds an entry. Async-signal-safe.
pub fn log(entry: usize) {
    LOG[LOGGED.fetch_add(1, SeqCst)].store(entry, SeqCst);
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
