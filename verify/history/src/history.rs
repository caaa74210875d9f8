//! A history: what several lanes called, what they were answered, and which calls had returned
//! before which began.

use std::fmt;
use std::fmt::Debug;
use std::hash::Hash;
use std::sync::atomic::{AtomicU32, Ordering};

/// The most lanes of a history.
pub const LANES: usize = 9;

/// How many calls of each lane had returned.
pub type Seen = [u32; LANES];

/// One call.
#[derive(Clone, Debug)]
pub struct Event<M: Model> {
    /// What was called.
    pub call: M::Call,
    /// What it returned; `None` if it never did. Then it is the last of its lane.
    pub answer: Option<M::Answer>,
    /// What its lane knew when it began.
    pub seen: Seen,
}

/// Calls by lane, each lane's in order.
#[derive(Clone, Debug)]
pub struct History<M: Model> {
    /// The state before all calls.
    pub before: M,
    /// The calls.
    pub lanes: Vec<Vec<Event<M>>>,
}

impl<M: Model> History<M> {
    /// How many calls there are.
    pub fn calls(&self) -> usize {
        self.lanes.iter().map(Vec::len).sum()
    }

    /// How many of them began before another lane's call had returned that began before they
    /// returned.
    pub fn concurrent(&self) -> usize {
        let events = || {
            let lanes = self.lanes.iter().enumerate();
            lanes.flat_map(|(lane, events)| (0..events.len()).map(move |index| (lane, index)))
        };
        events()
            .filter(|&one| events().any(|other| other.0 != one.0 && self.overlap(one, other)))
            .count()
    }

    fn overlap(&self, one: (usize, usize), other: (usize, usize)) -> bool {
        !self.precedes(one, other) && !self.precedes(other, one)
    }

    /// Had the one returned when the other began, as far as the other's lane knew?
    pub fn precedes(&self, one: (usize, usize), other: (usize, usize)) -> bool {
        if one.0 == other.0 {
            return one.1 < other.1;
        }
        self.lanes[other.0][other.1].seen[one.0] as usize > one.1
    }
}

impl<M: Model> fmt::Display for History<M> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "before: {:?}", self.before)?;
        for (lane, events) in self.lanes.iter().enumerate() {
            for (index, Event { call, answer, seen }) in events.iter().enumerate() {
                let answer = match answer {
                    Some(answer) => format!("{answer:?}"),
                    None => "never returned".to_string(),
                };
                let seen = &seen[..self.lanes.len()];
                writeln!(
                    f,
                    "lane {lane}, call {index}: {call:?} -> {answer}; had returned: {seen:?}"
                )?;
            }
        }
        Ok(())
    }
}

// What a structure is to one thread alone.

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

/// The clock of a history: each lane counts its calls that have returned, and reads all counts
/// before a call.
///
/// One shared counter, from which every call takes a number, would be simpler and would hide
/// errors. It is a locked instruction before and after each operation, so stores that a structure
/// leaves in the processor's store buffer at the end of an operation would be visible before the
/// next one begins, although nothing in the structure makes them so: two lanes that each store to
/// one word and then load the other's would never both load too early. Besides, all calls would
/// meet at one cache line, most of them one after the other.
///
/// Here a return is one store, ordered after what precedes it in its lane; a beginning is loads. On
/// x86-64 both are plain moves. A thread that *sees* that a call had returned could have learnt so
/// through any memory of a program, and must then see the call's effect. That is the order which
/// linearizability asks for, and no more is recorded. A return that is seen late only makes two
/// calls concurrent that were not.
///
/// So the order is not one of real time, and not one of intervals either: two lanes may see the
/// returns of two others in different orders, where the processor lets them. The checker takes any
/// order.
#[derive(Debug, Default)]
#[repr(align(128))]
pub struct Clock([AtomicU32; LANES]);

impl Clock {
    /// Returns the counts, to be read before a call.
    #[inline]
    pub fn seen(&self) -> Seen {
        // Acquire: pairs with the release in `returned`: a thread that sees that a call has
        // returned sees its effect, and the next call reads nothing earlier than this.
        std::array::from_fn(|lane| self.0[lane].load(Ordering::Acquire))
    }

    /// Stores that so many of a lane's calls have returned. Only the lane itself stores it.
    #[inline]
    pub fn returned(&self, lane: usize, calls: usize) {
        // Release: pairs with the acquire in `seen`.
        self.0[lane].store(calls as u32, Ordering::Release);
    }

    /// How many calls of the lane have returned.
    pub fn count(&self, lane: usize) -> usize {
        // Acquire: as in `seen`.
        self.0[lane].load(Ordering::Acquire) as usize
    }
}
