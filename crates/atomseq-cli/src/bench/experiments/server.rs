//! `server`: an operation that reads and changes more words than DCAS can.

use atomseq::dcas::Mechanism;
use atomseq::nonblocking::{Operation, Server, plain};

use super::{Experiment, Method, Threads, cases};
use crate::bench::peers::flat_combining::{FlatCombining, Place};
use crate::bench::peers::mutexed::Mutexed;
use crate::bench::workloads::pair::{Counting, Pair};

/// The experiment.
pub const EXPERIMENT: Experiment = Experiment {
    name: "server",
    about: "adding to the smallest of 31 words that all threads share, and counting the additions",
    cases: cases! {
        "atomseq", "nonblocking::Server, by the mechanism of this process",
            |threads| Counting::boxed(threads, Server::<Words, Add>::new(Words::default()));
        "atomseq-kcas", "nonblocking::Server by k-CAS, which is portable",
            |threads| Counting::boxed(threads, server(Mechanism::Kcas));
        "flat-combining", "flat combining: one thread carries out the published operations of all",
            |threads| Counting::boxed(threads, FlatCombining::new(threads, Words::default(), apply));
        "mutex", "std::sync::Mutex",
            |threads| Counting::boxed(threads, Mutexed::<Words>::default());
    },
    peers: &["flat-combining", "mutex"],
    method: Method::Timed,
    threads: Threads::Crowded,
    beside: None,
};

/// A server by this mechanism.
pub fn server(mechanism: Mechanism) -> Server<Words, Add> {
    Server::forced(Words::default(), mechanism)
}

const WORDS: usize = 31;

plain! {
    /// The object: 256 bytes.
    #[derive(Default)]
    pub struct Words {
        words: [u64; WORDS],
        additions: u64,
    }
}

plain! {
    /// Adds to the smallest word.
    pub struct Add {
        amount: u64,
    }
}

impl Operation<Words> for Add {
    type Output = u64;

    #[inline(always)]
    fn apply(self, object: &mut Words) -> u64 {
        let smallest = object.words.iter_mut().min().expect("there are words");
        *smallest += self.amount;
        object.additions += 1;
        *smallest
    }
}

fn apply(object: &mut Words, amount: u64) -> u64 {
    Add { amount }.apply(object)
}

impl Words {
    fn both(&self) -> (u64, u64) {
        (self.words.iter().sum(), self.additions)
    }
}

impl Pair for Server<Words, Add> {
    type Hand = ();

    fn hand(&self) {}

    #[inline(always)]
    fn add(&self, _hand: &mut (), amount: u64) {
        let ran = self.run(Add { amount });
        ran.expect("memory for a copy of the object");
    }

    fn both(&self) -> (u64, u64) {
        self.load().both()
    }
}

impl Pair for FlatCombining<Words, u64, u64> {
    type Hand = Place;

    fn hand(&self) -> Place {
        self.place()
    }

    #[inline(always)]
    fn add(&self, place: &mut Place, amount: u64) {
        self.run(place, amount);
    }

    fn both(&self) -> (u64, u64) {
        self.look(Words::both)
    }
}

impl Pair for Mutexed<Words> {
    type Hand = ();

    fn hand(&self) {}

    #[inline(always)]
    fn add(&self, _hand: &mut (), amount: u64) {
        apply(&mut self.lock(), amount);
    }

    fn both(&self) -> (u64, u64) {
        self.lock().both()
    }
}

#[cfg(test)]
mod tests {
    use std::thread;

    use super::*;
    use crate::bench::engine::GRAIN;

    #[test]
    fn every_case_adds_each_amount_once() {
        for case in EXPERIMENT.make(3, |_| true) {
            thread::scope(|scope| {
                for thread in 0..3 {
                    let subject = &case.subject;
                    scope.spawn(move || subject.run(thread, GRAIN));
                }
            });
            assert_eq!(case.subject.check(3 * GRAIN), Ok(()), "{}", case.name);
        }
    }
}
