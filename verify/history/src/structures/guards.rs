//! Values in a row, some of which a lane holds a guard of: `nonblocking::RefList`.

use std::mem::ManuallyDrop;

use atomseq::dcas::Mechanism;
use atomseq::nonblocking::{Ref, RefList};
use fastrand::Rng;

use super::ends::{self, Answer, Ends};
use super::{NEVER_FULL, choose};
use crate::history::{Model, agrees};
use crate::record::Subject;
use crate::structures::Element;

/// The row, and every value that was ever in it.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Guards {
    row: Ends,
    /// All values, in the order of their places, the last one first.
    places: Vec<u64>,
}

impl Guards {
    /// Returns an empty row.
    pub fn empty(capacity: usize) -> Guards {
        Guards {
            row: Ends::empty(capacity),
            places: Vec::new(),
        }
    }

    /// Returns the value behind the place of this one, which need not be in the row any more.
    fn behind(&self, value: u64) -> Option<u64> {
        let place = self.place(value)?;
        let mut row = self.row.values();
        row.find(|value| self.places[..place].contains(value))
    }

    fn place(&self, value: u64) -> Option<usize> {
        self.places.iter().position(|other| *other == value)
    }

    /// Inserts a value behind another one. Returns whether that is in the row.
    fn insert_behind(&mut self, before: u64, value: u64) -> bool {
        let is_there = self.row.insert_behind(before, value);
        if is_there {
            let place = self.place(before).expect("it is in the row");
            self.places.insert(place, value);
        }
        is_there
    }
}

/// An operation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Call {
    /// A call that needs no guard.
    Row(ends::Call),
    /// Acquires a guard of the first value.
    Enter,
    /// Moves to the value after this one, of which the caller has a guard.
    Next(u64),
    /// Inserts a value behind this one, of which the caller has a guard.
    PutBehind(u64, u64),
    /// Asks whether this value, of which the caller has a guard, was removed.
    IsRemoved(u64),
}

impl Model for Guards {
    type Call = Call;
    type Answer = Answer;

    fn step(&mut self, call: &Call, answer: Option<&Answer>) -> bool {
        let right = match *call {
            Call::Row(call) => {
                if let ends::Call::PutHead(value) = call {
                    self.places.push(value);
                }
                return self.row.step(&call, answer);
            }
            Call::Enter => Answer::Value(self.row.values().next()),
            Call::Next(value) => Answer::Value(self.behind(value)),
            Call::PutBehind(before, value) => Answer::Put(self.insert_behind(before, value)),
            Call::IsRemoved(value) => Answer::Deleted(!self.row.values().any(|it| it == value)),
        };
        agrees(answer, right)
    }
}

// `nonblocking::RefList`: lanes put in, take out and delete, and move on from values that they hold
// a guard of.

/// A list.
pub struct Counted<E: Element> {
    list: RefList<E>,
    /// Whether lanes keep guards from one call to the next.
    keeps: bool,
}

impl<E: Element> Counted<E> {
    /// Makes an empty one under this mechanism. Lanes that keep guards never drop them, which keeps
    /// removed values allocated.
    pub fn fresh(mechanism: Mechanism, keeps: bool) -> (Counted<E>, Guards) {
        let list = RefList::forced(mechanism);
        (Counted { list, keeps }, Guards::empty(NEVER_FULL))
    }
}

/// The value that a lane has put in last, and the value that it holds a guard of.
pub struct Hands<E: Element> {
    mine: u64,
    guard: Option<Held<E>>,
}

impl<E: Element> Default for Hands<E> {
    fn default() -> Hands<E> {
        Hands {
            mine: 0,
            guard: None,
        }
    }
}

/// Never dropped: the list may have moved when a history is over.
struct Held<E: Element>(ManuallyDrop<Ref<'static, E>>);

impl<E: Element> Hands<E> {
    /// Keeps a guard in place of the last one, and returns the value that it guards.
    fn keep(&mut self, guard: Option<Ref<'_, E>>) -> Answer {
        let number = guard.as_ref().map(|guard| guard.number());
        // SAFETY: the list stays where it is until the history is over, and no thread uses the
        // guard after that.
        let guard =
            unsafe { std::mem::transmute::<Option<Ref<'_, E>>, Option<Ref<'static, E>>>(guard) };
        self.let_go();
        self.guard = guard.map(|guard| Held(ManuallyDrop::new(guard)));
        Answer::Value(number)
    }

    fn let_go(&mut self) {
        if let Some(Held(guard)) = self.guard.take() {
            drop(ManuallyDrop::into_inner(guard));
        }
    }

    fn guard(&self) -> &Ref<'static, E> {
        let Held(guard) = self.guard.as_ref().expect("chosen by what the lane has");
        guard
    }
}

impl<E: Element> Subject for Counted<E> {
    type Model = Guards;
    type Memory = Hands<E>;

    fn choose(&self, rng: &mut Rng, hands: &Hands<E>, value: u64) -> Option<Call> {
        let guarded = hands.guard.as_ref().map(|Held(guard)| guard.number());
        Some(match (rng.u32(..8), guarded) {
            (0 | 1, Some(guarded)) => Call::Next(guarded),
            (2, Some(guarded)) => Call::IsRemoved(guarded),
            (3, Some(guarded)) => Call::PutBehind(guarded, value),
            (0 | 1, None) if self.keeps => Call::Enter,
            _ => Call::Row(choose(rng, hands.mine, value)),
        })
    }

    fn operate(&self, call: &Call, hands: &mut Hands<E>) -> Answer {
        let call = match *call {
            Call::Row(call) => call,
            Call::Enter => return hands.keep(self.list.front()),
            Call::Next(_) => {
                let next = hands.guard().next();
                return hands.keep(next);
            }
            Call::PutBehind(_, value) => {
                let inserted = hands.guard().insert_behind(E::of(value));
                return Answer::Put(inserted.is_ok());
            }
            Call::IsRemoved(_) => return Answer::Deleted(hands.guard().is_removed()),
        };
        match call {
            ends::Call::PutHead(value) => {
                hands.mine = value;
                Answer::Put(self.list.push_front(E::of(value)).is_ok())
            }
            // Several lanes may find the same value and remove it: a lane that fails has seen it
            // removed.
            ends::Call::Delete(value) => {
                let found = self.list.find(|other| other.number() == value);
                Answer::Deleted(found.is_some_and(|found| self.list.remove(&found)))
            }
            ends::Call::Count => Answer::Count(self.list.len()),
            ends::Call::Look => Answer::Value(self.list.front().map(|front| front.number())),
            _ => Answer::Value(self.list.pop_front().map(|front| front.number())),
        }
    }

    fn last(&self, before: Option<&Answer>) -> Option<Call> {
        (before != Some(&Answer::Value(None))).then_some(Call::Row(ends::Call::Take))
    }
}
