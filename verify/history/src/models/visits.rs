//! Values in a row, each visited by one at a time: `nonblocking::OneVisitorList`.

use crate::model::{Model, agrees};

/// The row, the first value first.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct Visits(Vec<Entry>);

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct Entry {
    number: u64,
    visited: bool,
}

/// An operation. What somebody visits is named by its number.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Call {
    /// At the head.
    PutHead(u64),
    /// Behind the first one, which the caller visits.
    PutBehind(u64, u64),
    /// The first that nobody visits.
    Take,
    /// Begins a visit of the first that nobody visits.
    Enter,
    /// Goes on to the next that nobody visits.
    Next(u64),
    /// Makes another number of it, and ends the visit.
    Leave(u64, u64),
    /// Takes it out, and ends the visit.
    Remove(u64),
    /// How many there are.
    Count,
}

/// What it returned.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Answer {
    /// Done.
    Done,
    /// Which one it was, if any.
    Number(Option<u64>),
    /// How many there were.
    Count(usize),
}

impl Visits {
    /// Where somebody visits this one.
    fn place(&self, number: u64) -> usize {
        let mut places = self.0.iter();
        let place = places.position(|entry| entry.number == number && entry.visited);
        place.expect("whoever visits a value keeps it where it is")
    }

    /// Where the first is, from a place on, that nobody visits.
    fn free_from(&self, place: usize) -> Option<usize> {
        (place..self.0.len()).find(|place| !self.0[*place].visited)
    }

    fn enter(&mut self, place: usize) -> u64 {
        self.0[place].visited = true;
        self.0[place].number
    }

    fn put(&mut self, place: usize, number: u64) -> Answer {
        let visited = false;
        self.0.insert(place, Entry { number, visited });
        Answer::Done
    }
}

impl Model for Visits {
    type Call = Call;
    type Answer = Answer;

    fn step(&mut self, call: &Call, answer: Option<&Answer>) -> bool {
        let right = match *call {
            Call::PutHead(number) => self.put(0, number),
            Call::PutBehind(visited, number) => self.put(self.place(visited) + 1, number),
            Call::Take => {
                let first = self.free_from(0);
                Answer::Number(first.map(|place| self.0.remove(place).number))
            }
            Call::Enter => {
                let first = self.free_from(0);
                Answer::Number(first.map(|place| self.enter(place)))
            }
            Call::Next(visited) => {
                let from = self.place(visited);
                let next = self.free_from(from + 1);
                self.0[from].visited = false;
                // At the end of the row it looks first and leaves then; meanwhile one may have come
                // in behind.
                if answer == Some(&Answer::Number(None)) {
                    return true;
                }
                Answer::Number(next.map(|place| self.enter(place)))
            }
            Call::Leave(visited, number) => {
                let place = self.place(visited);
                self.0[place].number = number;
                self.0[place].visited = false;
                Answer::Done
            }
            Call::Remove(visited) => {
                let place = self.place(visited);
                Answer::Number(Some(self.0.remove(place).number))
            }
            Call::Count => Answer::Count(self.0.len()),
        };
        agrees(answer, right)
    }
}
