//! A scenario for each sequence in this program that is atomic against signal handlers.
//!
//! A new sequence needs one here: without it the test finds instructions that no signal reached.
//! Sequences are run through wrappers that are never inlined, so that each operation has one copy
//! of its sequence in the program.

mod local;
mod mutex;
mod own;
pub mod words;

use crate::scenario::{Check, Fresh, Operation, Scenario, Words};

/// Checks everything.
pub fn check(checker: &mut impl Check) {
    local::check(checker);
    mutex::check(checker);
    own::check(checker);
}

/// Operations by their names; an " and " says that there are several, one after the other.
type Named<S> = (&'static str, Operation<S>);

/// Each operation, in each state, interrupted by each interference.
fn each<S: 'static>(
    checker: &mut impl Check,
    states: &[(&str, Fresh<S>)],
    operations: &[Named<S>],
    interferences: &'static [Named<S>],
    content: Operation<S>,
) {
    for (state, fresh) in states {
        for (operation, call) in operations {
            checker.check(&Scenario {
                name: format!("{operation}, {state}"),
                fresh: *fresh,
                operation: *call,
                interferences,
                signal_safe: true,
                whole: true,
                content,
                total: content,
            });
        }
    }
}

/// A word or none, as words.
fn found(word: Option<u64>) -> Words {
    word.into_iter().collect()
}
