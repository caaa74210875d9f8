//! A history: the calls of several lanes, their answers, and which calls had returned before which
//! began.

use std::fmt;
use std::fmt::Debug;
use std::hash::Hash;
use std::sync::atomic::{AtomicU32, Ordering};

/// The largest number of lanes of a history.
pub const LANES: usize = 9;

/// The number of calls of each lane that had returned.
pub type Seen = [u32; LANES];

/// One call.
#[derive(Clone, Debug)]
pub struct Event<M: Model> {
    /// The call.
    pub call: M::Call,
    /// Its answer; `None` if it never returned, and then it is its lane's last.
    pub answer: Option<M::Answer>,
    /// The returns that its lane had seen when it began.
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
    /// Returns the number of calls.
    pub fn calls(&self) -> usize {
        self.lanes.iter().map(Vec::len).sum()
    }

    /// Returns how many of them began before a call of another lane had returned that began before
    /// they returned.
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

    /// Returns whether `one` had returned when `other` began, as far as the lane of `other` had
    /// seen.
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

// The sequential behaviour of a structure.

/// A sequential specification: a state, the effect of each call on it, and the answers that it
/// allows.
pub trait Model: Clone + Eq + Hash + Debug {
    /// An operation with its arguments.
    type Call: Clone + Debug;
    /// An operation's answer.
    type Answer: Clone + Debug;

    /// Applies the call's effect to this state. `false`: in this state the call cannot have
    /// answered so, and the resulting state has no meaning. Without an answer, for a call that
    /// never returned, applies the effect that it would have had.
    fn step(&mut self, call: &Self::Call, answer: Option<&Self::Answer>) -> bool;
}

/// Returns whether this is the answer, if there is one.
pub fn agrees<A: PartialEq>(answer: Option<&A>, right: A) -> bool {
    answer.is_none_or(|answer| *answer == right)
}

/// The clock of a history: each lane counts its calls that have returned, and reads all counts
/// before a call.
///
/// One shared counter, from which every call takes a number, would be simpler and would hide
/// errors. It would execute a locked instruction before and after each operation. That would flush
/// the stores that a structure leaves in the processor's store buffer at the end of an operation,
/// although nothing in the structure orders them: two lanes that each store to one word and then
/// load the other's would never both load too early. Besides, all calls would access one cache
/// line, and so mostly run one after the other.
///
/// Here a return is one store, ordered after the lane's earlier accesses, and a beginning is a few
/// loads. On x86-64 both are plain moves. A thread that observes that a call had returned could
/// have learned so through any memory of a program, and must then see the call's effect. That is
/// exactly the order that linearizability requires, and nothing else is recorded. A return that is
/// observed late only makes two calls concurrent that were not.
///
/// So the order is neither one of real time nor one of intervals: two lanes may observe the returns
/// of two others in different orders, where the processor permits that. The checker accepts any
/// such order.
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

    /// Stores how many of a lane's calls have returned. Only the lane itself stores its count.
    #[inline]
    pub fn returned(&self, lane: usize, calls: usize) {
        // Release: pairs with the acquire in `seen`.
        self.0[lane].store(calls as u32, Ordering::Release);
    }

    /// Returns how many calls of the lane have returned.
    pub fn count(&self, lane: usize) -> usize {
        // Acquire: pairs with the release in `returned`, as in `seen`.
        self.0[lane].load(Ordering::Acquire) as usize
    }
}
