//! What happened in a test's process, in order: handlers write it, the test reads it.

use std::sync::atomic::{AtomicUsize, Ordering::SeqCst};

use atomseq::signal::Event;

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
