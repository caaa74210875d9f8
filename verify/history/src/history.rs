//! A history: what several lanes called, what they were answered, and which calls had returned
//! before which began.

use std::fmt;

use crate::model::Model;

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
