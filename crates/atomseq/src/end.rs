//! Ending the process where it cannot go on: to return would be unsound, to unwind as well, and to
//! wait would take indefinitely.

/// Writes a sentence on standard error and aborts the process. Async-signal-safe.
#[cold]
#[inline(never)]
pub(crate) fn abort(sentence: &str) -> ! {
    // SAFETY: writes a text of this length.
    unsafe { libc::write(2, sentence.as_ptr().cast(), sentence.len() as _) };
    std::process::abort()
}
