//! Ending the process where it cannot continue: returning and unwinding would be unsound, and
//! waiting would take indefinitely.

/// Writes a message to standard error and aborts the process. Async-signal-safe.
#[cold]
#[inline(never)]
pub(crate) fn abort(sentence: &str) -> ! {
    // SAFETY: the pointer and length are those of a valid string.
    unsafe { libc::write(2, sentence.as_ptr().cast(), sentence.len() as _) };
    std::process::abort()
}
