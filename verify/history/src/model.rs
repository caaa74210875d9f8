//! What a structure is to one thread alone.

use std::fmt::Debug;
use std::hash::Hash;

/// A sequential specification: a state, and what each call does to it and may answer.
pub trait Model: Clone + Eq + Hash + Debug {
    /// An operation with its arguments.
    type Call: Clone + Debug;
    /// What it returned.
    type Answer: Clone + Debug;

    /// Takes the call's effect on this state. `false`: in this state the call cannot have answered
    /// so, and what is left of the state means nothing. Without an answer, for a call that never
    /// returned: the effect that it would have had.
    fn step(&mut self, call: &Self::Call, answer: Option<&Self::Answer>) -> bool;
}

/// Is this the answer, if there is one?
pub fn agrees<A: PartialEq>(answer: Option<&A>, right: A) -> bool {
    answer.is_none_or(|answer| *answer == right)
}
