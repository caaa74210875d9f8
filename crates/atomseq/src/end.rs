//! Ending the process where it cannot continue: returning and unwinding would be unsound, and
//! waiting would take indefinitely. Panics that name the caller's line.

use std::fmt::Display;

/// Writes a message to standard error and aborts the process. Async-signal-safe.
#[cold]
#[inline(never)]
pub(crate) fn abort(sentence: &str) -> ! {
    // SAFETY: the pointer and length are those of a valid string.
    unsafe { libc::write(2, sentence.as_ptr().cast(), sentence.len() as _) };
    std::process::abort()
}

/// Unwraps a result, and panics with the error's message at the line of the first caller that is
/// not `#[track_caller]`. (A closure in `unwrap_or_else` would name its own line.)
pub(crate) trait OrPanic<T> {
    #[track_caller]
    fn or_panic(self) -> T;
}

impl<T, E: Display> OrPanic<T> for Result<T, E> {
    #[inline]
    #[track_caller]
    fn or_panic(self) -> T {
        match self {
            Ok(value) => value,
            Err(error) => panics(&error),
        }
    }
}

#[cold]
#[inline(never)]
#[track_caller]
fn panics(error: &dyn Display) -> ! {
    panic!("{error}")
}
