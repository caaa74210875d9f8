//! Panics that name the caller's line. The models in `verify/` compile this file a second time.

use std::fmt::Display;

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
