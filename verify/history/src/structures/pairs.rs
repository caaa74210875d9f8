//! Pairs of keys and values: `nonblocking::MultiMap`, with few of both.

use atomseq::dcas::Mechanism;
use atomseq::nonblocking::MultiMap;
use fastrand::Rng;

use crate::history::{Model, agrees};
use crate::record::Subject;

/// Keys are below the first number, and values below the second one.
const KEYS: u64 = 2;
const VALUES: u64 = 3;

/// The pairs, the last inserted first.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct Pairs(Vec<(u64, u64)>);

/// An operation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Call {
    /// Inserts a pair.
    Insert(u64, u64),
    /// Removes a pair.
    Remove(u64, u64),
    /// Removes the newest pair of a key.
    Pop(u64),
    /// Looks for a pair.
    Contains(u64, u64),
    /// Reads the values of a key at one time.
    Values(u64),
    /// Gives a value another key. It is no single step, so only a control makes this call.
    Move(u64, u64),
    /// Reads all pairs.
    All,
}

/// What it returned.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Answer {
    /// Whether it took effect, or the pair is there.
    Is(bool),
    /// The value, if the key had one.
    Value(Option<u64>),
    /// The first values, and how many there are.
    Values([u64; VALUES as usize], usize),
    /// All pairs in ascending order, and how many there are.
    All([(u64, u64); (KEYS * VALUES) as usize], usize),
}

fn all(mut pairs: Vec<(u64, u64)>) -> Answer {
    let (mut sorted, count) = ([(0, 0); (KEYS * VALUES) as usize], pairs.len());
    pairs.sort_unstable();
    assert!(count <= sorted.len(), "a pair is there twice: {pairs:?}");
    sorted[..count].copy_from_slice(&pairs);
    Answer::All(sorted, count)
}

fn add((mut values, count): ([u64; VALUES as usize], usize), value: u64) -> ([u64; 3], usize) {
    // More than there can be are counted, too.
    if let Some(place) = values.get_mut(count) {
        *place = value;
    }
    (values, count + 1)
}

impl Pairs {
    fn insert(&mut self, pair: (u64, u64)) -> bool {
        let is_new = !self.0.contains(&pair);
        if is_new {
            self.0.insert(0, pair);
        }
        is_new
    }

    fn remove(&mut self, is_it: impl Fn(&(u64, u64)) -> bool) -> Option<u64> {
        let place = self.0.iter().position(is_it)?;
        Some(self.0.remove(place).1)
    }
}

impl Model for Pairs {
    type Call = Call;
    type Answer = Answer;

    fn step(&mut self, call: &Call, answer: Option<&Answer>) -> bool {
        let right = match *call {
            Call::Insert(key, value) => Answer::Is(self.insert((key, value))),
            Call::Remove(key, value) => {
                Answer::Is(self.remove(|pair| *pair == (key, value)).is_some())
            }
            Call::Pop(key) => Answer::Value(self.remove(|(other, _)| *other == key)),
            Call::Contains(key, value) => Answer::Is(self.0.contains(&(key, value))),
            Call::Values(key) => {
                let of_key = self.0.iter().filter(|(other, _)| *other == key);
                let (values, count) =
                    of_key.fold(Default::default(), |seen, pair| add(seen, pair.1));
                Answer::Values(values, count)
            }
            Call::Move(from, value) => {
                let removed = self.remove(|pair| *pair == (from, value));
                if removed.is_some() {
                    self.insert((KEYS - 1 - from, value));
                }
                Answer::Is(removed.is_some())
            }
            Call::All => all(self.0.clone()),
        };
        agrees(answer, right)
    }
}

/// A map.
pub struct Dependent {
    map: MultiMap<u64, u64>,
    /// Whether lanes give values another key.
    moves: bool,
}

impl Dependent {
    /// Makes an empty one under this mechanism, in whose one bucket all keys are, or that has two.
    pub fn fresh(rng: &mut Rng, mechanism: Mechanism) -> (Dependent, Pairs) {
        let map = MultiMap::forced(rng.usize(1..3), mechanism);
        (Dependent { map, moves: false }, Pairs::default())
    }

    /// Makes an empty one, in which lanes take it for a single step to give a value another key.
    pub fn fresh_with_moves(rng: &mut Rng, mechanism: Mechanism) -> (Dependent, Pairs) {
        let (fresh, model) = Dependent::fresh(rng, mechanism);
        (
            Dependent {
                moves: true,
                ..fresh
            },
            model,
        )
    }
}

impl Subject for Dependent {
    type Model = Pairs;
    type Memory = ();

    fn choose(&self, rng: &mut Rng, (): &(), _: u64) -> Option<Call> {
        let (key, value) = (rng.u64(..KEYS), rng.u64(..VALUES));
        Some(match rng.u32(..16) {
            0..6 => Call::Insert(key, value),
            6..9 => Call::Remove(key, value),
            9..11 => Call::Pop(key),
            11 => Call::Contains(key, value),
            12 | 13 if self.moves => Call::Move(key, value),
            _ => Call::Values(key),
        })
    }

    fn operate(&self, call: &Call, (): &mut ()) -> Answer {
        let map = &self.map;
        match *call {
            Call::Insert(key, value) => Answer::Is(map.insert(key, value).expect("memory")),
            Call::Remove(key, value) => Answer::Is(map.remove(&key, &value)),
            Call::Pop(key) => Answer::Value(map.pop(&key)),
            Call::Contains(key, value) => Answer::Is(map.contains(&key, &value)),
            Call::Values(key) => {
                let (values, count) = map.fold(&key, Default::default(), add);
                Answer::Values(values, count)
            }
            Call::Move(from, value) => {
                let is_there = map.remove(&from, &value);
                if is_there {
                    map.insert(KEYS - 1 - from, value).expect("memory");
                }
                Answer::Is(is_there)
            }
            Call::All => all(map.snapshot()),
        }
    }

    fn last(&self, before: Option<&Answer>) -> Option<Call> {
        before.is_none().then_some(Call::All)
    }
}
