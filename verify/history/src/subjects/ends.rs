//! Structures whose values go in and come out at ends.

use std::cell::UnsafeCell;

use atomseq::Word;
use atomseq::dcas::Mechanism;
use atomseq::nonblocking::spsc::{Consumer, Producer, Ring};
use atomseq::nonblocking::{Queue, Stack};
use crossbeam_utils::CachePadded;
use fastrand::Rng;

use crate::models::ends::{Answer, Call, Ends};
use crate::record::{Subject, lane_of};
use crate::subjects::element::Element;

/// Calls until there is nothing left.
fn take_all(before: Option<&Answer>) -> Option<Call> {
    (before != Some(&Answer::Value(None))).then_some(Call::Take)
}

/// Small, so that it is full at times, or never full.
fn capacity(rng: &mut Rng) -> usize {
    [1, 2, 3, 100][rng.usize(..4)]
}

macro_rules! bounded {
    ($($(#[$attribute:meta])* $name:ident: $structure:ident, $put:ident;)*) => {$(
        $(#[$attribute])*
        pub struct $name<E: Element + Word>($structure<E>);

        impl<E: Element + Word> $name<E> {
            /// An empty one, under this mechanism.
            pub fn fresh(mechanism: Mechanism, rng: &mut Rng) -> ($name<E>, Ends) {
                let capacity = capacity(rng);
                ($name($structure::forced(capacity, mechanism)), Ends::empty(capacity))
            }
        }

        impl<E: Element + Word> Subject for $name<E> {
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
    Lifo: Stack, PutHead;
    /// `nonblocking::Queue`.
    Fifo: Queue, PutTail;
}

/// `nonblocking::spsc::Ring`: lane 0 puts, lane 1 takes, and no other does anything.
pub struct OneToOne {
    producer: CachePadded<UnsafeCell<Producer<'static, u64>>>,
    consumer: CachePadded<UnsafeCell<Consumer<'static, u64>>>,
}

// SAFETY: lane 0 alone uses the producer, lane 1 alone the consumer, and the last lane when those are done.
unsafe impl Sync for OneToOne {}

impl OneToOne {
    /// An empty one.
    pub fn fresh(rng: &mut Rng) -> (OneToOne, Ends) {
        let ring = Ring::new(capacity(rng));
        let capacity = ring.capacity();
        let (producer, consumer) = ring.into_ends();
        let ends = OneToOne {
            producer: CachePadded::new(producer.into()),
            consumer: CachePadded::new(consumer.into()),
        };
        (ends, Ends::empty(capacity))
    }
}

impl Subject for OneToOne {
    type Model = Ends;
    type Memory = ();

    fn choose(&self, rng: &mut Rng, (): &(), value: u64) -> Option<Call> {
        match lane_of(value) {
            0 => Some(Call::PutTail(value)),
            1 => Some(if rng.u32(..4) == 0 {
                Call::Look
            } else {
                Call::Take
            }),
            _ => None,
        }
    }

    fn operate(&self, call: &Call, (): &mut ()) -> Answer {
        if let Call::PutTail(value) = *call {
            // SAFETY: only lane 0 chooses it.
            let producer = unsafe { &mut *self.producer.get() };
            return Answer::Put(producer.push(value).is_ok());
        }
        // SAFETY: only lane 1 chooses these, and at last the last one.
        let consumer = unsafe { &mut *self.consumer.get() };
        Answer::Value(match call {
            Call::Look => consumer.peek().copied(),
            _ => consumer.pop(),
        })
    }

    fn last(&self, before: Option<&Answer>) -> Option<Call> {
        take_all(before)
    }
}
