//! Values in a row, put in and taken out at its ends: what stacks, queues and rings are.

use std::collections::VecDeque;

use crate::model::{Model, agrees};

/// The row, and how many it holds at most.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Ends {
    row: VecDeque<u64>,
    capacity: usize,
}

impl Ends {
    /// An empty row.
    pub fn empty(capacity: usize) -> Ends {
        Ends {
            row: VecDeque::new(),
            capacity,
        }
    }

    /// From the head to the tail.
    pub(super) fn values(&self) -> impl Iterator<Item = u64> {
        self.row.iter().copied()
    }
}

/// An operation on a row.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Call {
    /// At the head; stacks push and pop there, queues take there.
    PutHead(u64),
    /// At the tail.
    PutTail(u64),
    /// At the head.
    Take,
    /// At the head, without taking it.
    Look,
    /// How many there are.
    Count,
    /// This one, wherever it is.
    Delete(u64),
}

/// What it returned.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Answer {
    /// Whether there was room.
    Put(bool),
    /// What was at the head.
    Value(Option<u64>),
    /// How many there were.
    Count(usize),
    /// Whether it was there.
    Deleted(bool),
}

impl Model for Ends {
    type Call = Call;
    type Answer = Answer;

    fn step(&mut self, call: &Call, answer: Option<&Answer>) -> bool {
        let room = self.row.len() < self.capacity;
        let right = match *call {
            Call::PutHead(value) => {
                room.then(|| self.row.push_front(value));
                Answer::Put(room)
            }
            Call::PutTail(value) => {
                room.then(|| self.row.push_back(value));
                Answer::Put(room)
            }
            Call::Take => Answer::Value(self.row.pop_front()),
            Call::Look => Answer::Value(self.row.front().copied()),
            Call::Count => Answer::Count(self.row.len()),
            Call::Delete(value) => {
                let place = self.row.iter().position(|other| *other == value);
                Answer::Deleted(place.and_then(|place| self.row.remove(place)).is_some())
            }
        };
        agrees(answer, right)
    }
}

/// A row as one of its two users sees it: `nonblocking::spsc::Ring`, whose ends make no fence. What
/// one end stores may reach the other one only after that has looked, so each history must have an
/// order in which the refusals of one end are right, and one in which those of the other are. It
/// need not be the same.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct SeenFromOneEnd {
    row: Ends,
    is_producer: bool,
}

impl SeenFromOneEnd {
    /// An empty row, as the producer or the consumer sees it.
    pub fn empty(capacity: usize, is_producer: bool) -> SeenFromOneEnd {
        SeenFromOneEnd {
            row: Ends::empty(capacity),
            is_producer,
        }
    }
}

impl Model for SeenFromOneEnd {
    type Call = Call;
    type Answer = Answer;

    fn step(&mut self, call: &Call, answer: Option<&Answer>) -> bool {
        let is_the_other_s = match answer {
            Some(Answer::Put(false)) => !self.is_producer,
            Some(Answer::Value(None)) => self.is_producer,
            _ => false,
        };
        is_the_other_s || self.row.step(call, answer)
    }
}
