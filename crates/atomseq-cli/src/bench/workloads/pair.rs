//! The workload of two words that change together: a thread adds one to both. In the end both must
//! be exact.

use std::hint::black_box;
use std::sync::{Mutex, PoisonError};

use crossbeam_utils::CachePadded;

use crate::bench::engine::Subject;
use crate::bench::fault::Fault;

/// Two words that count the same.
pub trait Pair: Sync {
    /// What each thread has of its own to do so.
    type Hand: Send;

    /// One for another thread.
    fn hand(&self) -> Self::Hand;

    /// Adds to both at once.
    fn add(&self, hand: &mut Self::Hand, amount: u64);

    /// Both, once all threads are done.
    fn both(&self) -> (u64, u64);
}

/// A pair that all threads add to.
pub struct Counting<P: Pair> {
    pair: CachePadded<P>,
    hands: Vec<CachePadded<Mutex<P::Hand>>>,
}

impl<P: Pair + 'static> Counting<P> {
    /// The subject for that many threads.
    pub fn boxed(threads: usize, pair: P) -> Box<dyn Subject> {
        Box::new(Self::of(threads, pair))
    }

    /// The pair for that many threads.
    pub fn of(threads: usize, pair: P) -> Self {
        let hands = (0..threads)
            .map(|_| CachePadded::new(Mutex::new(pair.hand())))
            .collect();
        let pair = CachePadded::new(pair);
        Self { pair, hands }
    }
}

impl<P: Pair> Subject for Counting<P> {
    fn run(&self, thread: usize, operations: u64) {
        let mut hand = self.hands[thread]
            .lock()
            .unwrap_or_else(PoisonError::into_inner);
        for _ in 0..operations {
            self.pair.add(&mut hand, black_box(1));
        }
    }

    fn check(&self, operations: u64) -> Result<(), Fault> {
        match self.pair.both() {
            (a, b) if a == operations && b == operations => Ok(()),
            (a, b) => {
                let sentence = format!("the words are {a} and {b} where {operations} were added");
                Err(Fault::count(operations, [a, b], sentence))
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::cell::UnsafeCell;

    use super::*;
    use crate::bench::engine::GRAIN;

    /// Forgets the second word now and then.
    #[derive(Default)]
    struct Careless(UnsafeCell<(u64, u64)>);

    // SAFETY: the test has one thread.
    unsafe impl Sync for Careless {}

    impl Pair for Careless {
        type Hand = ();

        fn hand(&self) {}

        fn add(&self, _hand: &mut (), amount: u64) {
            // SAFETY: the test has one thread, and the reference ends with this call.
            let both = unsafe { &mut *self.0.get() };
            both.0 += amount;
            both.1 += amount * u64::from(!both.0.is_multiple_of(8));
        }

        fn both(&self) -> (u64, u64) {
            // SAFETY: the test has one thread, and no reference is left.
            unsafe { *self.0.get() }
        }
    }

    #[test]
    fn the_check_finds_a_word_that_was_forgotten() {
        let careless = Counting::boxed(1, Careless::default());
        careless.run(0, GRAIN);
        assert!(careless.check(GRAIN).is_err());
    }
}
