//! Values in a row, each visited by one lane at a time: the model of `nonblocking::OneVisitorList`.

use std::mem::ManuallyDrop;

use atomseq::dcas::Mechanism;
use atomseq::nonblocking::{OneVisitorList, Visit};
use fastrand::Rng;

use crate::history::{Model, agrees};
use crate::record::Subject;
use crate::structures::Element;

/// The row, in order from the head.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct Visits(Vec<Entry>);

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct Entry {
    number: u64,
    visited: bool,
}

/// An operation. A visited value is named by its number.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Call {
    /// Puts a value in at the head.
    PutHead(u64),
    /// Puts a value in after this one, which the caller visits.
    PutBehind(u64, u64),
    /// Takes the first value that is not visited.
    Take,
    /// Begins a visit of the first value that is not visited.
    Enter,
    /// Moves on to the next value that is not visited.
    Next(u64),
    /// Changes the value's number, and ends the visit.
    Leave(u64, u64),
    /// Removes the value, and ends the visit.
    Remove(u64),
    /// Counts the values.
    Count,
}

/// What it returned.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Answer {
    /// The call took effect.
    Done,
    /// The value's number, if there was one.
    Number(Option<u64>),
    /// The number of values.
    Count(usize),
}

impl Visits {
    /// Returns the index of a value that is visited.
    fn place(&self, number: u64) -> usize {
        let mut places = self.0.iter();
        let place = places.position(|entry| entry.number == number && entry.visited);
        place.expect("a visited value stays in the row")
    }

    /// Returns the index of the first value, from `place` on, that is not visited.
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
                // At the end of the row a visitor looks first and leaves afterwards; meanwhile a
                // value may have been put in behind it.
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

// `nonblocking::OneVisitorList`: lanes put in and take out, and each visits what no other lane
// visits.

/// A list.
pub struct Visited<E: Element>(OneVisitorList<E>);

impl<E: Element> Visited<E> {
    /// Makes an empty one under this mechanism.
    pub fn fresh(mechanism: Mechanism) -> (Visited<E>, Visits) {
        (
            Visited(OneVisitorList::forced(mechanism)),
            Visits::default(),
        )
    }
}

/// The value that a lane visits.
pub struct Here<E: Element>(Option<Held<E>>);

impl<E: Element> Default for Here<E> {
    fn default() -> Here<E> {
        Here(None)
    }
}

/// Never dropped: at the end of a history the value stays visited.
struct Held<E: Element>(ManuallyDrop<Visit<'static, E>>);

// SAFETY: moved between threads only while its lane is not in use, and forgotten there.
unsafe impl<E: Element> Send for Held<E> {}

impl<E: Element> Here<E> {
    /// Keeps a visit, and returns the number of its value.
    fn keep(&mut self, visit: Option<Visit<'_, E>>) -> Answer {
        let number = visit.as_ref().map(|visit| visit.number());
        // SAFETY: the list stays in place and unmoved until the history is over, and no thread uses
        // the visit after that.
        let visit = unsafe {
            std::mem::transmute::<Option<Visit<'_, E>>, Option<Visit<'static, E>>>(visit)
        };
        self.0 = visit.map(|visit| Held(ManuallyDrop::new(visit)));
        Answer::Number(number)
    }

    fn end(&mut self) -> Visit<'static, E> {
        let Held(visit) = self.0.take().expect("chosen by what the lane visits");
        ManuallyDrop::into_inner(visit)
    }
}

impl<E: Element> Subject for Visited<E> {
    type Model = Visits;
    type Memory = Here<E>;

    fn choose(&self, rng: &mut Rng, here: &Here<E>, value: u64) -> Option<Call> {
        let visited = here.0.as_ref().map(|Held(visit)| visit.number());
        Some(match (rng.u32(..16), visited) {
            (0..4, Some(visited)) => Call::Leave(visited, value),
            (4..8, Some(visited)) => Call::Next(visited),
            (8..10, Some(visited)) => Call::Remove(visited),
            (10, Some(visited)) => Call::PutBehind(visited, value),
            (0..4, None) => Call::Enter,
            (4..10, None) => Call::PutHead(value),
            (11, _) => Call::Count,
            (12, _) => Call::PutHead(value),
            _ => Call::Take,
        })
    }

    fn operate(&self, call: &Call, here: &mut Here<E>) -> Answer {
        match *call {
            Call::PutHead(value) => {
                assert!(self.0.push_front(E::of(value)).is_ok());
                Answer::Done
            }
            Call::PutBehind(_, value) => {
                let Held(visit) = here.0.as_ref().expect("chosen by what the lane visits");
                assert!(visit.insert_behind(E::of(value)).is_ok());
                Answer::Done
            }
            Call::Take => Answer::Number(self.0.pop_front().map(|value| value.number())),
            Call::Enter => here.keep(self.0.visit_first()),
            Call::Next(_) => {
                let next = here.end().into_next();
                here.keep(next)
            }
            Call::Leave(_, value) => {
                let mut visit = here.end();
                // A thread that exits in the middle leaves either the old element or the new one.
                drop(std::mem::replace(&mut *visit, E::of(value)));
                Answer::Done
            }
            Call::Remove(_) => Answer::Number(Some(here.end().remove().number())),
            Call::Count => Answer::Count(self.0.len()),
        }
    }

    fn last(&self, before: Option<&Answer>) -> Option<Call> {
        match before {
            Some(Answer::Number(None)) => Some(Call::Count),
            Some(Answer::Count(_)) => None,
            _ => Some(Call::Take),
        }
    }
}
