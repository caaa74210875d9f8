//! `dcas::Domain` and `dcas::Adjacent`: few words with few values, so that values recur.

use std::sync::atomic::{AtomicUsize, Ordering};

use atomseq::dcas::{Adjacent, Cell, Change, Covered, Domain, Mechanism, Version};
use fastrand::Rng;

use crate::record::{Subject, lane_of};
use crate::structures::registers::{Answer, Call, Registers, WORDS};

/// Values are 0 to this one.
const MAX: u64 = 2;

/// Three words in one domain.
pub struct Words(Domain<[Cell; WORDS]>);

impl Words {
    /// Makes one of zeros under this mechanism.
    pub fn fresh(mechanism: Mechanism) -> (Words, Registers) {
        let words = Domain::forced(std::array::from_fn(|_| Cell::new(0)), mechanism);
        let version = words.version().number();
        let exact = words.mechanism() == Mechanism::Kcas;
        (Words(words), Registers::zeros(version, exact))
    }

    fn change(&self, (word, old, new): (usize, u64, u64)) -> Change<'_> {
        Change::of(&self.0[word], old, new)
    }

    /// Returns a change of all words, mostly from the values last seen. A domain that changes at
    /// most two at once leaves one word unchanged.
    fn change_of_all(&self, rng: &mut Rng, sight: &Sight) -> [(usize, u64, u64); WORDS] {
        let seen = sight.map_or([0; WORDS], |(_, seen)| seen);
        let is_wide = self.0.mechanism() == Mechanism::Kcas;
        let compared = rng.usize(..if is_wide { WORDS + 1 } else { WORDS });
        std::array::from_fn(|word| match word == compared {
            true => (word, seen[word], seen[word]),
            false => (word, seen[word], rng.u64(..=MAX)),
        })
    }
}

fn change(rng: &mut Rng, word: usize) -> (usize, u64, u64) {
    (word, rng.u64(..=MAX), rng.u64(..=MAX))
}

/// Returns two different indices.
fn two(rng: &mut Rng) -> [usize; 2] {
    let first = rng.usize(..WORDS);
    [first, (first + rng.usize(1..WORDS)) % WORDS]
}

/// The version that a lane saw last, and the words.
type Sight = Option<(Version, [u64; WORDS])>;

impl Subject for Words {
    type Model = Registers;
    type Memory = Sight;

    fn choose(&self, rng: &mut Rng, sight: &Sight, _value: u64) -> Option<Call> {
        Some(match (rng.u32(..12), sight) {
            (0, _) => Call::Load(rng.usize(..WORDS)),
            (1, _) => Call::Version,
            (2 | 3, _) => Call::Snapshot,
            (4, _) => Call::ExchangeOne(change(rng, 0)),
            (5, _) => Call::Add(rng.usize(..WORDS), 1),
            (6 | 7, Some((version, _))) => {
                let words = two(rng);
                Call::ExchangeSince(version.number(), words.map(|word| (word, rng.u64(..=MAX))))
            }
            // From the values that the lane has seen, mostly.
            (8, Some((_, seen))) => {
                Call::Exchange(two(rng).map(|word| (word, seen[word], rng.u64(..=MAX))))
            }
            (9 | 10, sight) => Call::ExchangeAll(self.change_of_all(rng, sight)),
            _ => Call::Exchange(two(rng).map(|word| change(rng, word))),
        })
    }

    fn operate(&self, call: &Call, sight: &mut Sight) -> Answer {
        match *call {
            Call::Load(word) => Answer::Value(self.0.load(&self.0[word])),
            Call::Version => Answer::Version(self.0.version().number()),
            Call::Snapshot | Call::Words => {
                let (words, version) = self.0.snapshot(self.0.each_ref());
                *sight = Some((version, words));
                Answer::Snapshot(words, version.number())
            }
            Call::Exchange([first, second]) => Answer::Done(
                self.0
                    .compare_exchange_pair(self.change(first), self.change(second))
                    .is_ok(),
            ),
            Call::ExchangeOne(change) => {
                Answer::Done(self.0.compare_exchange(self.change(change)).is_ok())
            }
            Call::ExchangeSince(number, [first, second]) => {
                let (version, _) = sight.expect("chosen by what the lane has seen");
                assert_eq!(version.number(), number);
                let [first, second] = [first, second].map(|(word, new)| (&self.0[word], new));
                Answer::Done(self.0.store_pair_if(version, first, second).is_ok())
            }
            Call::ExchangeAll(changes) => {
                let changes = changes.map(|change| self.change(change));
                Answer::Done(self.0.compare_exchange_all(&changes).is_ok())
            }
            Call::Add(word, more) => Answer::Value(
                self.0
                    .fetch_update(&self.0[word], |value| Some(value + more))
                    .expect("a value"),
            ),
        }
    }

    fn last(&self, before: Option<&Answer>) -> Option<Call> {
        before.is_none().then_some(Call::Snapshot)
    }
}

/// The words of a domain, of which the first two always change together. The destructor checks that
/// they are equal.
///
/// Only the first lane calls. When its thread exits inside a call, no other call follows before the
/// domain is dropped.
pub struct Twins(Box<Domain<Equal>>);

#[derive(Covered)]
struct Equal([Cell; WORDS]);

/// How often a destructor has checked, and how often the words were not equal.
static LOOKS: AtomicUsize = AtomicUsize::new(0);
static UNEQUAL: AtomicUsize = AtomicUsize::new(0);

impl Drop for Equal {
    fn drop(&mut self) {
        let [first, second, _] = &mut self.0;
        LOOKS.fetch_add(1, Ordering::SeqCst);
        let is_unequal = first.value() != second.value();
        UNEQUAL.fetch_add(usize::from(is_unequal), Ordering::SeqCst);
    }
}

impl Twins {
    /// Makes one of zeros under this mechanism.
    pub fn fresh(mechanism: Mechanism) -> (Twins, Registers) {
        let zeros = Equal(std::array::from_fn(|_| Cell::new(0)));
        // Boxed, so that it stays in place when the history moves.
        let twins = Box::new(Domain::forced(zeros, mechanism));
        let version = twins.version().number();
        let exact = twins.mechanism() == Mechanism::Kcas;
        (Twins(twins), Registers::zeros(version, exact))
    }

    /// Returns how often destructors have checked, and how often the words were not equal.
    pub fn seen() -> (usize, usize) {
        (LOOKS.load(Ordering::SeqCst), UNEQUAL.load(Ordering::SeqCst))
    }
}

impl Subject for Twins {
    type Model = Registers;
    type Memory = Sight;

    fn choose(&self, _rng: &mut Rng, sight: &Sight, value: u64) -> Option<Call> {
        let call = match sight {
            None => Call::Snapshot,
            Some((_, seen)) => {
                Call::Exchange([0, 1].map(|word| (word, seen[word], seen[word] + 1)))
            }
        };
        (lane_of(value) == 0).then_some(call)
    }

    fn operate(&self, call: &Call, sight: &mut Sight) -> Answer {
        let words = &self.0.0;
        match *call {
            Call::Exchange(changes) => {
                *sight = None;
                let [first, second] =
                    changes.map(|(word, old, new)| Change::of(&words[word], old, new));
                Answer::Done(self.0.compare_exchange_pair(first, second).is_ok())
            }
            _ => {
                let (values, version) = self.0.snapshot(words.each_ref());
                *sight = Some((version, values));
                Answer::Snapshot(values, version.number())
            }
        }
    }

    fn last(&self, _before: Option<&Answer>) -> Option<Call> {
        None
    }
}

/// Two adjacent words.
pub struct Pair(Adjacent);

impl Pair {
    /// Makes one of zeros, by the processor's instruction if it has one, or by k-CAS.
    pub fn fresh(mechanism: Mechanism) -> (Pair, Registers) {
        let pair = match mechanism {
            Mechanism::Assisted => Adjacent::new(0, 0),
            Mechanism::Kcas => Adjacent::by_kcas(0, 0),
        };
        (Pair(pair), Registers::zeros(0, true))
    }
}

impl Subject for Pair {
    type Model = Registers;
    type Memory = ();

    fn choose(&self, rng: &mut Rng, (): &(), _value: u64) -> Option<Call> {
        Some(match rng.u32(..4) {
            0 => Call::Words,
            1 => Call::Add(rng.usize(..2), 1),
            _ => Call::Exchange([0, 1].map(|word| change(rng, word))),
        })
    }

    fn operate(&self, call: &Call, (): &mut ()) -> Answer {
        match *call {
            Call::Exchange([(_, old_first, first), (_, old_second, second)]) => {
                let done = self
                    .0
                    .compare_exchange((old_first, old_second), (first, second));
                Answer::Done(done.is_ok())
            }
            Call::Add(word, more) => {
                let add = |(a, b)| {
                    if word == 0 {
                        (a + more, b)
                    } else {
                        (a, b + more)
                    }
                };
                let (a, b) = self
                    .0
                    .fetch_update(|both| Some(add(both)))
                    .expect("two values");
                Answer::Value([a, b][word])
            }
            _ => {
                let (first, second) = self.0.load();
                Answer::Words([first, second, 0])
            }
        }
    }

    fn last(&self, before: Option<&Answer>) -> Option<Call> {
        before.is_none().then_some(Call::Words)
    }
}
