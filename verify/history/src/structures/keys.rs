//! Keys in order, each with a value, some of them checked out: the model of `nonblocking::List`,
//! and without check-outs that of `nonblocking::HashMap`.

use std::collections::BTreeMap;
use std::mem::ManuallyDrop;

use atomseq::dcas::Mechanism;
use atomseq::nonblocking::{Ascending, CheckedOut, Checkout, List, Refused, Removal};
use fastrand::Rng;

use crate::history::{Model, agrees};
use crate::record::Subject;

/// Keys are below this number.
pub const KEYS: usize = 4;

/// The entries. A checked-out entry keeps its place.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct Keys(BTreeMap<u64, Entry>);

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct Entry {
    value: u64,
    being_changed: bool,
}

/// Keys and values, and how many of them are valid.
pub type Entries = ([(u64, u64); KEYS], usize);

/// An operation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Call {
    /// Inserts a key that is absent.
    Insert(u64, u64),
    /// Inserts a key, or replaces its value.
    Put(u64, u64),
    /// Replaces the value of a key that is present.
    Replace(u64, u64),
    /// Reads a key's value.
    Find(u64),
    /// Removes a key.
    Delete(u64),
    /// Removes the first entry.
    TakeFirst,
    /// Reads all entries at one time.
    Entries,
    /// Checks a key out, to change its entry.
    RemoveForChange(u64),
    /// Checks a key in again with this value.
    Reinsert(u64, u64),
    /// Makes the structure larger, without a change of its entries.
    Grow,
    /// Makes it smaller.
    Shrink,
}

/// What it returned.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Answer {
    /// The call took effect.
    Done,
    /// The key is present.
    Present,
    /// The key is checked out.
    CheckedOut,
    /// The key's current or previous value.
    Value(Option<u64>),
    /// The first entry.
    First(Option<(u64, u64)>),
    /// All entries.
    Entries(Entries),
}

impl Model for Keys {
    type Call = Call;
    type Answer = Answer;

    fn step(&mut self, call: &Call, answer: Option<&Answer>) -> bool {
        let right = match *call {
            Call::Insert(key, value) => match self.value_unless_out(key) {
                Err(being_changed) => being_changed,
                Ok(Some(_)) => Answer::Present,
                Ok(None) => {
                    self.set(key, value);
                    Answer::Done
                }
            },
            Call::Put(key, value) => self.value_unless_out(key).map_or_else(said, |old| {
                self.set(key, value);
                Answer::Value(old)
            }),
            Call::Replace(key, value) => self.value_unless_out(key).map_or_else(said, |old| {
                if old.is_some() {
                    self.set(key, value);
                }
                Answer::Value(old)
            }),
            Call::Find(key) => self.value_unless_out(key).map_or_else(said, Answer::Value),
            Call::Delete(key) => self.value_unless_out(key).map_or_else(said, |old| {
                self.0.remove(&key);
                Answer::Value(old)
            }),
            Call::TakeFirst => {
                let first = self.there().next();
                if let Some((key, _)) = first {
                    self.0.remove(&key);
                }
                Answer::First(first)
            }
            Call::Entries => {
                let mut entries = [(0, 0); KEYS];
                let mut count = 0;
                for (place, entry) in entries.iter_mut().zip(self.there()) {
                    *place = entry;
                    count += 1;
                }
                Answer::Entries((entries, count))
            }
            Call::RemoveForChange(key) => self.value_unless_out(key).map_or_else(said, |old| {
                if let Some(entry) = self.0.get_mut(&key) {
                    entry.being_changed = true;
                }
                Answer::Value(old)
            }),
            // Only the lane that has checked it out calls this.
            Call::Reinsert(key, value) => {
                self.set(key, value);
                Answer::Done
            }
            Call::Grow | Call::Shrink => Answer::Done,
        };
        agrees(answer, right)
    }
}

fn said(answer: Answer) -> Answer {
    answer
}

impl Keys {
    fn set(&mut self, key: u64, value: u64) {
        let being_changed = false;
        self.0.insert(
            key,
            Entry {
                value,
                being_changed,
            },
        );
    }

    /// Returns the value of a key, unless it is checked out.
    fn value_unless_out(&self, key: u64) -> Result<Option<u64>, Answer> {
        match self.0.get(&key) {
            Some(entry) if entry.being_changed => Err(Answer::CheckedOut),
            found => Ok(found.map(|entry| entry.value)),
        }
    }

    /// Returns the entries that are not checked out.
    fn there(&self) -> impl Iterator<Item = (u64, u64)> {
        let there = self.0.iter().filter(|(_, entry)| !entry.being_changed);
        there.map(|(key, entry)| (*key, entry.value))
    }
}

// `nonblocking::List` with an order: few keys, so that calls conflict.

/// A list.
pub struct Ordered(List<u64, u64>);

/// Returns a maker of lists whose nodes come from one pool: a list reuses the nodes that another
/// has freed.
pub fn lists(mechanism: Mechanism) -> impl FnMut(&mut Rng) -> (Ordered, Keys) {
    let first = List::forced(mechanism);
    move |_| (Ordered(first.sibling()), Keys::default())
}

type Out<'list> = Checkout<'list, u64, u64, Ascending>;

/// The entry that a lane has checked out.
#[derive(Default)]
pub struct Hands(Option<Held>);

/// Never dropped: at the end of a history the entry stays checked out.
struct Held(ManuallyDrop<Out<'static>>);

// SAFETY: moved between threads only while its lane is not in use, and forgotten there.
unsafe impl Send for Held {}

impl Subject for Ordered {
    type Model = Keys;
    type Memory = Hands;

    fn choose(&self, rng: &mut Rng, hands: &Hands, value: u64) -> Option<Call> {
        let key = rng.u64(..KEYS as u64);
        if let Some(Held(removed)) = &hands.0 {
            if rng.bool() {
                return Some(Call::Reinsert(removed.key(), value));
            }
        }
        Some(match rng.u32(..16) {
            0..4 => Call::Insert(key, value),
            4 | 5 => Call::Put(key, value),
            6 => Call::Replace(key, value),
            7 | 8 => Call::Find(key),
            9 | 10 => Call::Delete(key),
            11 => Call::TakeFirst,
            12 | 13 if hands.0.is_none() => Call::RemoveForChange(key),
            _ => Call::Entries,
        })
    }

    fn operate(&self, call: &Call, hands: &mut Hands) -> Answer {
        match *call {
            Call::Insert(key, value) => match self.0.try_insert(key, value) {
                Ok(()) => Answer::Done,
                Err(Refused::Present) => Answer::Present,
                Err(refused) => being_changed(refused),
            },
            Call::Put(key, value) => self
                .0
                .insert(key, value)
                .map_or_else(being_changed, Answer::Value),
            Call::Replace(key, value) => self
                .0
                .replace(&key, value)
                .map_or_else(being_changed, Answer::Value),
            Call::Find(key) => value(self.0.get(&key)),
            Call::Delete(key) => value(self.0.remove(&key)),
            Call::TakeFirst => Answer::First(self.0.pop_first()),
            Call::Entries => {
                let mut entries = [(0, 0); KEYS];
                let count = self.0.copy_first(&mut entries);
                entries[count..].fill((0, 0));
                Answer::Entries((entries, count))
            }
            Call::RemoveForChange(key) => value(self.0.check_out(&key).map(|removed| {
                let removed = removed?;
                let value = removed.value();
                // SAFETY: the list stays in place and unmoved until the history is over, and no
                // thread uses the entry after that.
                let removed = unsafe { std::mem::transmute::<Out<'_>, Out<'static>>(removed) };
                hands.0 = Some(Held(ManuallyDrop::new(removed)));
                Some(value)
            })),
            Call::Reinsert(_, value) => {
                let Held(removed) = hands.0.take().expect("chosen by what the lane holds");
                let back = ManuallyDrop::into_inner(removed).check_in(value);
                back.expect("no revoker has removed it");
                Answer::Done
            }
            Call::Grow | Call::Shrink => unreachable!("a list has nothing to resize"),
        }
    }

    fn last(&self, before: Option<&Answer>) -> Option<Call> {
        match before {
            None => Some(Call::Entries),
            Some(Answer::First(None)) => None,
            Some(_) => Some(Call::TakeFirst),
        }
    }
}

/// The same, whose lanes delete an entry to change it, and insert the same node later.
pub struct Reordered(Ordered);

/// Returns a maker of such lists.
pub fn reinserted(mechanism: Mechanism) -> impl FnMut(&mut Rng) -> (Reordered, Keys) {
    let mut lists = lists(mechanism);
    move |rng| {
        let (list, keys) = lists(rng);
        (Reordered(list), keys)
    }
}

type Apart<'list> = Removal<'list, u64, u64, Ascending>;

/// The entry that a lane has removed.
#[derive(Default)]
pub struct Aside(Option<ManuallyDrop<Apart<'static>>>);

impl Subject for Reordered {
    type Model = Keys;
    type Memory = Aside;

    fn choose(&self, rng: &mut Rng, _aside: &Aside, value: u64) -> Option<Call> {
        let key = rng.u64(..KEYS as u64);
        Some(match rng.u32(..16) {
            0..6 => Call::Insert(key, value),
            6 | 7 => Call::Find(key),
            8..14 => Call::Delete(key),
            14 => Call::TakeFirst,
            _ => Call::Entries,
        })
    }

    fn operate(&self, call: &Call, aside: &mut Aside) -> Answer {
        let list = &self.0.0;
        match (*call, aside.0.take().map(ManuallyDrop::into_inner)) {
            (Call::Insert(key, value), Some(removal)) => match removal.reinsert(key, value) {
                Ok(()) => Answer::Done,
                // The lane keeps it for another key.
                Err(refused) => {
                    aside.0 = Some(ManuallyDrop::new(refused.removal));
                    match refused.reason {
                        Refused::Present => Answer::Present,
                        other => being_changed(other),
                    }
                }
            },
            // An entry that the lane has removed before is dropped.
            (Call::Delete(key), _) => value(list.remove_to_change(&key).map(|removal| {
                let removal = removal?;
                let value = removal.value();
                // SAFETY: the list stays in place and unmoved until the history is over, and no
                // thread uses the entry after that.
                let removal = unsafe { std::mem::transmute::<Apart<'_>, Apart<'static>>(removal) };
                aside.0 = Some(ManuallyDrop::new(removal));
                Some(value)
            })),
            (_, removal) => {
                aside.0 = removal.map(ManuallyDrop::new);
                self.0.operate(call, &mut Hands::default())
            }
        }
    }

    fn last(&self, before: Option<&Answer>) -> Option<Call> {
        self.0.last(before)
    }
}

fn value(found: Result<Option<u64>, CheckedOut>) -> Answer {
    found.map_or(Answer::CheckedOut, Answer::Value)
}

fn being_changed(refused: Refused) -> Answer {
    match refused {
        Refused::CheckedOut(_) => Answer::CheckedOut,
        other => panic!("{other}"),
    }
}
