//! A scenario for each operation of the library that has a sequence.
//!
//! A new sequence needs one here: without it the test finds instructions that nothing reached.

mod counter;

use crate::scenario::Checker;

/// Checks everything.
pub fn check(checker: &mut Checker) {
    counter::check(checker);
}
