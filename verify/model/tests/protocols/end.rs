//! The end of a model, where the library ends the process.

/// Panics with the message.
pub fn abort(sentence: &str) -> ! {
    panic!("{sentence}")
}
