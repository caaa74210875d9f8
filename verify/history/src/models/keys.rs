//! Keys in order, each with a value, some of them removed for change: `nonblocking::List`.

use std::collections::BTreeMap;

use crate::model::{Model, agrees};

/// Keys are smaller than this.
pub const KEYS: usize = 4;

/// The entries. An entry that somebody has removed for change keeps its place.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct Keys(BTreeMap<u64, Entry>);

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct Entry {
    value: u64,
    being_changed: bool,
}

/// Keys and values, and how many of them count.
pub type Entries = ([(u64, u64); KEYS], usize);

/// An operation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Call {
    /// A key that is not there.
    Insert(u64, u64),
    /// A key, or its value if it is there.
    Put(u64, u64),
    /// The value of a key that is there.
    Replace(u64, u64),
    /// A key's value.
    Find(u64),
    /// Takes a key out.
    Delete(u64),
    /// Takes the first one out.
    TakeFirst,
    /// All of them at one time.
    Entries,
    /// Removes a key for change.
    RemoveForChange(u64),
    /// Puts it back.
    Reinsert(u64, u64),
}

/// What it returned.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Answer {
    /// Done.
    Done,
    /// The key is there.
    Present,
    /// Somebody has removed the key for change.
    CheckedOut,
    /// The value that is, or was, a key's.
    Value(Option<u64>),
    /// What was first.
    First(Option<(u64, u64)>),
    /// All of them.
    Entries(Entries),
}

impl Model for Keys {
    type Call = Call;
    type Answer = Answer;

    fn step(&mut self, call: &Call, answer: Option<&Answer>) -> bool {
        let right = match *call {
            Call::Insert(key, value) => match self.settled(key) {
                Err(being_changed) => being_changed,
                Ok(Some(_)) => Answer::Present,
                Ok(None) => {
                    self.set(key, value);
                    Answer::Done
                }
            },
            Call::Put(key, value) => self.settled(key).map_or_else(said, |old| {
                self.set(key, value);
                Answer::Value(old)
            }),
            Call::Replace(key, value) => self.settled(key).map_or_else(said, |old| {
                if old.is_some() {
                    self.set(key, value);
                }
                Answer::Value(old)
            }),
            Call::Find(key) => self.settled(key).map_or_else(said, Answer::Value),
            Call::Delete(key) => self.settled(key).map_or_else(said, |old| {
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
            Call::RemoveForChange(key) => self.settled(key).map_or_else(said, |old| {
                if let Some(entry) = self.0.get_mut(&key) {
                    entry.being_changed = true;
                }
                Answer::Value(old)
            }),
            // Only by the one who has removed it.
            Call::Reinsert(key, value) => {
                self.set(key, value);
                Answer::Done
            }
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

    /// The value of a key, unless somebody has removed it for change.
    fn settled(&self, key: u64) -> Result<Option<u64>, Answer> {
        match self.0.get(&key) {
            Some(entry) if entry.being_changed => Err(Answer::CheckedOut),
            found => Ok(found.map(|entry| entry.value)),
        }
    }

    /// Those that nobody has removed for change.
    fn there(&self) -> impl Iterator<Item = (u64, u64)> {
        let there = self.0.iter().filter(|(_, entry)| !entry.being_changed);
        there.map(|(key, entry)| (*key, entry.value))
    }
}
