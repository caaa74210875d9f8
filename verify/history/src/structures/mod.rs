//! The sequential model of each structure, and the structures themselves with the calls that their
//! lanes choose. In this file: elements, and the linked structures.

use std::sync::atomic::{AtomicI64, Ordering};

use atomseq::dcas::Mechanism;
use atomseq::nonblocking::{LinkedQueue, LinkedStack, List, Unordered};
use fastrand::Rng;

use crate::record::Subject;
pub use crate::structures::ends::Ends;
use crate::structures::ends::{Answer, Call};

pub mod counts;
pub mod ends;
pub mod guards;
pub mod keys;
pub mod listed;
pub mod maps;
pub mod pages;
pub mod pairs;
pub mod priorities;
pub mod registers;
pub mod served;
pub mod visits;
pub mod words;

pub use guards::Guards;
pub use keys::Keys;
pub use maps::{Hashed, Lent};
pub use registers::Registers;
pub use visits::Visits;

/// A value on its way through a structure.
pub trait Element: Send + Sync + Sized + 'static {
    /// Makes the element with this number.
    fn of(number: u64) -> Self;
    /// Returns its number.
    fn number(&self) -> u64;
}

impl Element for u64 {
    fn of(number: u64) -> u64 {
        number
    }

    fn number(&self) -> u64 {
        *self
    }
}

/// A number that owns memory and counts itself.
#[derive(Debug)]
pub struct Probe(u64);

static ALIVE: AtomicI64 = AtomicI64::new(0);

impl Probe {
    /// Returns how many probes exist.
    pub fn alive() -> i64 {
        ALIVE.load(Ordering::Relaxed)
    }
}

impl Element for Box<Probe> {
    fn of(number: u64) -> Box<Probe> {
        ALIVE.fetch_add(1, Ordering::Relaxed);
        Box::new(Probe(number))
    }

    fn number(&self) -> u64 {
        self.0
    }
}

impl Drop for Probe {
    fn drop(&mut self) {
        assert_ne!(self.0, 0, "dropped twice");
        self.0 = 0;
        ALIVE.fetch_sub(1, Ordering::Relaxed);
    }
}

// Linked structures whose values go in at the head.

/// More values than a history has.
pub(super) const NEVER_FULL: usize = 1 << 20;

/// Takes values until none is left.
fn take_all(before: Option<&Answer>) -> Option<Call> {
    (before != Some(&Answer::Value(None))).then_some(Call::Take)
}

/// `nonblocking::List` without an order; each value is its own key.
pub struct NewestFirst(List<u64, u64, Unordered>);

/// Returns a maker of lists whose nodes come from one pool.
pub fn newest_first(mechanism: Mechanism) -> impl FnMut(&mut Rng) -> (NewestFirst, Ends) {
    let first = List::unordered_forced(mechanism);
    move |_| (NewestFirst(first.sibling()), Ends::empty(NEVER_FULL))
}

/// The value that a lane has put in last.
type Mine = u64;

pub(super) fn choose(rng: &mut Rng, mine: Mine, value: u64) -> Call {
    match rng.u32(..16) {
        0 => Call::Count,
        1 => Call::Look,
        2..9 => Call::PutHead(value),
        9 | 10 if mine != 0 => Call::Delete(mine),
        _ => Call::Take,
    }
}

impl Subject for NewestFirst {
    type Model = Ends;
    type Memory = Mine;

    fn choose(&self, rng: &mut Rng, mine: &Mine, value: u64) -> Option<Call> {
        Some(choose(rng, *mine, value))
    }

    fn operate(&self, call: &Call, mine: &mut Mine) -> Answer {
        match *call {
            Call::PutHead(value) => {
                *mine = value;
                Answer::Put(self.0.push_front(value, value).is_ok())
            }
            Call::Delete(value) => {
                Answer::Deleted(self.0.remove(&value).is_ok_and(|value| value.is_some()))
            }
            Call::Count => Answer::Count(self.0.len()),
            Call::Look => Answer::Value(self.0.first().map(whole)),
            _ => Answer::Value(self.0.pop_first().map(whole)),
        }
    }

    fn last(&self, before: Option<&Answer>) -> Option<Call> {
        take_all(before)
    }
}

fn whole((key, value): (u64, u64)) -> u64 {
    assert_eq!(key, value, "half of one entry, half of another");
    value
}

/// `nonblocking::LinkedStack`, which accepts values at both ends.
pub struct BothEnds<E: Element>(LinkedStack<E>);

impl<E: Element> BothEnds<E> {
    /// Makes an empty one under this mechanism.
    pub fn fresh(mechanism: Mechanism) -> (BothEnds<E>, Ends) {
        (
            BothEnds(LinkedStack::forced(mechanism)),
            Ends::empty(NEVER_FULL),
        )
    }
}

impl<E: Element> Subject for BothEnds<E> {
    type Model = Ends;
    type Memory = ();

    fn choose(&self, rng: &mut Rng, (): &(), value: u64) -> Option<Call> {
        Some(match rng.u32(..16) {
            0 => Call::Count,
            1..6 => Call::PutHead(value),
            6..9 => Call::PutTail(value),
            _ => Call::Take,
        })
    }

    fn operate(&self, call: &Call, (): &mut ()) -> Answer {
        match *call {
            Call::PutHead(value) => Answer::Put(self.0.push(E::of(value)).is_ok()),
            Call::PutTail(value) => Answer::Put(self.0.push_back(E::of(value)).is_ok()),
            Call::Count => Answer::Count(self.0.len()),
            _ => Answer::Value(self.0.pop().map(|value| value.number())),
        }
    }

    fn last(&self, before: Option<&Answer>) -> Option<Call> {
        take_all(before)
    }
}

/// `nonblocking::LinkedQueue`.
pub struct OldestFirst<E: Element>(LinkedQueue<E>);

impl<E: Element> OldestFirst<E> {
    /// Makes an empty one under this mechanism.
    pub fn fresh(mechanism: Mechanism) -> (OldestFirst<E>, Ends) {
        let queue = LinkedQueue::forced(mechanism);
        (OldestFirst(queue), Ends::empty(NEVER_FULL))
    }
}

impl<E: Element> Subject for OldestFirst<E> {
    type Model = Ends;
    type Memory = ();

    fn choose(&self, rng: &mut Rng, (): &(), value: u64) -> Option<Call> {
        Some(match rng.u32(..16) {
            0 => Call::Count,
            1..9 => Call::PutTail(value),
            _ => Call::Take,
        })
    }

    fn operate(&self, call: &Call, (): &mut ()) -> Answer {
        match *call {
            Call::PutTail(value) => Answer::Put(self.0.push(E::of(value)).is_ok()),
            Call::Count => Answer::Count(self.0.len()),
            _ => Answer::Value(self.0.pop().map(|value| value.number())),
        }
    }

    fn last(&self, before: Option<&Answer>) -> Option<Call> {
        take_all(before)
    }
}
