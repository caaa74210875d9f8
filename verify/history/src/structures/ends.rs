//! Values in a row, put in and taken out at its ends: the model of stacks, queues and rings.

use std::cell::UnsafeCell;
use std::collections::VecDeque;

use atomseq::AsWord;
use atomseq::dcas::Mechanism;
use atomseq::nonblocking::spsc::{Consumer, Producer, Ring};
use atomseq::nonblocking::{Queue, Stack};
use crossbeam_utils::CachePadded;
use fastrand::Rng;

use crate::history::{Model, agrees};
use crate::record::{Subject, lane_of};
use crate::structures::Element;

/// The row and its capacity.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Ends {
    row: VecDeque<u64>,
    capacity: usize,
}

impl Ends {
    /// Returns an empty row.
    pub fn empty(capacity: usize) -> Ends {
        Ends {
            row: VecDeque::new(),
            capacity,
        }
    }

    /// Puts a value in behind another one. Returns whether that is in the row.
    pub(super) fn insert_behind(&mut self, before: u64, value: u64) -> bool {
        let place = self.row.iter().position(|other| *other == before);
        place
            .map(|place| self.row.insert(place + 1, value))
            .is_some()
    }

    /// Returns the values from the head to the tail.
    pub(super) fn values(&self) -> impl Iterator<Item = u64> {
        self.row.iter().copied()
    }
}

/// An operation on a row.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Call {
    /// Puts a value in at the head; stacks push and pop there, queues take there.
    PutHead(u64),
    /// Puts a value in at the tail.
    PutTail(u64),
    /// Takes the value at the head.
    Take,
    /// Reads the value at the head.
    Look,
    /// Counts the values.
    Count,
    /// Deletes this value, wherever it is.
    Delete(u64),
}

/// What it returned.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Answer {
    /// Whether there was room.
    Put(bool),
    /// The value at the head.
    Value(Option<u64>),
    /// The number of values.
    Count(usize),
    /// Whether the value was present.
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

/// A row as one of its two users sees it: `nonblocking::spsc::Ring`, whose ends execute no fence. A
/// store of one end may become visible to the other only after the other has looked. So each
/// history must have an order in which the refusals of one end are right, and one in which those of
/// the other are; the two need not be the same.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct SeenFromOneEnd {
    row: Ends,
    is_producer: bool,
}

impl SeenFromOneEnd {
    /// Returns an empty row, as the producer or the consumer sees it.
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

// Structures whose values go in and come out at their ends.

/// Takes values until none is left.
fn take_all(before: Option<&Answer>) -> Option<Call> {
    (before != Some(&Answer::Value(None))).then_some(Call::Take)
}

/// Returns a small capacity, so that the structure is full at times, or one that it never reaches.
fn capacity(rng: &mut Rng) -> usize {
    [1, 2, 3, 100][rng.usize(..4)]
}

/// Makes so many changes that refused operations wait for other threads, which they do not in a new
/// structure.
fn worn(push: impl Fn(), pop: impl Fn()) {
    (0..1100).for_each(|_| {
        push();
        pop();
    });
}

macro_rules! bounded {
    ($($(#[$attribute:meta])* $name:ident: $structure:ident by $made:expr, $put:ident;)*) => {$(
        $(#[$attribute])*
        pub struct $name<E: Element + AsWord>($structure<E>);

        impl<E: Element + AsWord> $name<E> {
            /// Makes an empty one under this mechanism.
            pub fn fresh(mechanism: Mechanism, rng: &mut Rng) -> ($name<E>, Ends) {
                let capacity = capacity(rng);
                let made: fn(usize, Mechanism) -> $structure<E> = $made;
                let structure = made(capacity, mechanism);
                if rng.bool() {
                    worn(|| _ = structure.push(E::of(1)), || _ = structure.pop());
                }
                ($name(structure), Ends::empty(capacity))
            }
        }

        impl<E: Element + AsWord> Subject for $name<E> {
            type Model = Ends;
            type Memory = ();

            fn choose(&self, rng: &mut Rng, (): &(), value: u64) -> Option<Call> {
                Some(match rng.u32(..16) {
                    0 => Call::Count,
                    1..9 => Call::$put(value),
                    _ => Call::Take,
                })
            }

            fn operate(&self, call: &Call, (): &mut ()) -> Answer {
                match *call {
                    Call::$put(value) => Answer::Put(self.0.push(E::of(value)).is_ok()),
                    Call::Count => Answer::Count(self.0.len()),
                    _ => Answer::Value(self.0.pop().map(|element| element.number())),
                }
            }

            fn last(&self, before: Option<&Answer>) -> Option<Call> {
                take_all(before)
            }
        }
    )*};
}

bounded! {
    /// `nonblocking::Stack`.
    Lifo: Stack by Stack::forced, PutHead;
    /// `nonblocking::Queue`; without k-CAS, by the algorithm that the processor allows.
    Fifo: Queue by |capacity, mechanism| match mechanism {
        Mechanism::Assisted => Queue::with_capacity(capacity),
        Mechanism::Kcas => Queue::by_kcas(capacity),
    }, PutTail;
}

/// `nonblocking::spsc::Ring`: one lane puts, another takes, and no other does anything.
pub struct OneToOne<E: Element> {
    producer: CachePadded<UnsafeCell<Producer<'static, E>>>,
    consumer: CachePadded<UnsafeCell<Consumer<'static, E>>>,
    /// The lane that puts; of the first two lanes, the other one takes.
    puts: usize,
}

// SAFETY: one lane alone uses the producer, another one the consumer, and the last lane uses it
// when they are done.
unsafe impl<E: Element> Sync for OneToOne<E> {}

impl<E: Element> OneToOne<E> {
    /// Makes an empty one, into which lane 0 or lane 1 puts.
    pub fn fresh(rng: &mut Rng, puts: usize) -> (OneToOne<E>, SeenFromOneEnd) {
        let ring = Ring::with_capacity(capacity(rng));
        let capacity = ring.capacity();
        let (producer, consumer) = ring.into_ends();
        let ends = OneToOne {
            producer: CachePadded::new(producer.into()),
            consumer: CachePadded::new(consumer.into()),
            puts,
        };
        (ends, SeenFromOneEnd::empty(capacity, rng.bool()))
    }
}

impl<E: Element> Subject for OneToOne<E> {
    type Model = SeenFromOneEnd;
    type Memory = ();

    fn choose(&self, rng: &mut Rng, (): &(), value: u64) -> Option<Call> {
        match lane_of(value) {
            lane if lane == self.puts => Some(Call::PutTail(value)),
            0 | 1 => Some(if rng.u32(..4) == 0 {
                Call::Look
            } else {
                Call::Take
            }),
            _ => None,
        }
    }

    fn operate(&self, call: &Call, (): &mut ()) -> Answer {
        if let Call::PutTail(value) = *call {
            // SAFETY: only one lane chooses this call.
            let producer = unsafe { &mut *self.producer.get() };
            return Answer::Put(producer.push(E::of(value)).is_ok());
        }
        // SAFETY: only the other lane chooses these calls, and after the end the last lane.
        let consumer = unsafe { &mut *self.consumer.get() };
        Answer::Value(match call {
            Call::Look => consumer.peek().map(E::number),
            _ => consumer.pop().map(|element| element.number()),
        })
    }

    fn last(&self, before: Option<&Answer>) -> Option<Call> {
        take_all(before)
    }
}
