//! Words that change together, and their version number: the model of `dcas::Domain`, and of
//! `dcas::Adjacent`, which has no version.

use crate::history::{Model, agrees};

/// The number of words.
pub const WORDS: usize = 3;

/// The words, and what is known of the version.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Registers {
    words: [u64; WORDS],
    /// The version that was observed last.
    version: u64,
    /// Whether a word has changed since then.
    changed: bool,
    /// Whether the version counts modifications and nothing else, and only a modification fails an
    /// exchange by version.
    exact: bool,
}

impl Registers {
    /// Returns zeros. `exact`: the version counts modifications and nothing else.
    pub fn zeros(version: u64, exact: bool) -> Registers {
        Registers {
            words: [0; WORDS],
            version,
            changed: false,
            exact,
        }
    }

    fn change(&mut self, changes: &[(usize, u64)]) {
        for &(word, value) in changes {
            self.words[word] = value;
        }
        match self.exact {
            true => self.version += 1,
            false => self.changed = true,
        }
    }

    /// Returns whether this can be the version.
    fn see(&mut self, version: u64) -> bool {
        let fits = match self.exact {
            true => version == self.version,
            false => version > self.version || version == self.version && !self.changed,
        };
        self.version = version;
        self.changed = false;
        fits
    }
}

/// An operation on words, which it names by their indices.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Call {
    /// Loads one word.
    Load(usize),
    /// Loads all words and the version.
    Snapshot,
    /// Loads all words without a version.
    Words,
    /// Loads the version.
    Version,
    /// Exchanges two words: word, old value, new value.
    Exchange([(usize, u64, u64); 2]),
    /// Exchanges one word.
    ExchangeOne((usize, u64, u64)),
    /// Stores two words if the version is still this one.
    ExchangeSince(u64, [(usize, u64); 2]),
    /// Adds to a word.
    Add(usize, u64),
    /// Exchanges all words; an equal old and new value only compares.
    ExchangeAll([(usize, u64, u64); WORDS]),
}

/// What it returned.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Answer {
    /// A word's value.
    Value(u64),
    /// All words and the version.
    Snapshot([u64; WORDS], u64),
    /// All words.
    Words([u64; WORDS]),
    /// The version.
    Version(u64),
    /// Whether the words were changed.
    Done(bool),
}

impl Model for Registers {
    type Call = Call;
    type Answer = Answer;

    fn step(&mut self, call: &Call, answer: Option<&Answer>) -> bool {
        match (*call, answer) {
            (Call::Load(word), _) => agrees(answer, Answer::Value(self.words[word])),
            (Call::Words, _) => agrees(answer, Answer::Words(self.words)),
            (Call::Snapshot, Some(&Answer::Snapshot(words, version))) => {
                words == self.words && self.see(version)
            }
            (Call::Version, Some(&Answer::Version(version))) => self.see(version),
            (Call::Snapshot | Call::Version, answer) => answer.is_none(),
            (Call::Add(word, more), _) => {
                let before = self.words[word];
                self.change(&[(word, before + more)]);
                agrees(answer, Answer::Value(before))
            }
            (Call::Exchange(changes), _) => self.exchange(&changes, answer),
            (Call::ExchangeOne(change), _) => self.exchange(&[change], answer),
            (Call::ExchangeAll(changes), _) => {
                // Where no value changes, the version stays as well.
                let changes_some = changes.iter().any(|(_, old, new)| old != new);
                let same = self.are(&changes);
                if same && changes_some {
                    self.change(&changes.map(|(word, _, new)| (word, new)));
                }
                agrees(answer, Answer::Done(same))
            }
            (Call::ExchangeSince(version, changes), _) => {
                let same = self.version == version && !self.changed;
                let done = same && answer != Some(&Answer::Done(false));
                if done {
                    self.change(&changes);
                }
                // An interruption of the exchange itself may have consumed the version.
                agrees(answer, Answer::Done(done)) && (done || !same || !self.exact)
            }
        }
    }
}

impl Registers {
    /// Returns whether the words have their old values.
    fn are(&self, changes: &[(usize, u64, u64)]) -> bool {
        let mut changes = changes.iter();
        changes.all(|&(word, old, _)| self.words[word] == old)
    }

    fn exchange(&mut self, changes: &[(usize, u64, u64)], answer: Option<&Answer>) -> bool {
        let same = self.are(changes);
        if same {
            let new: [(usize, u64); 2] = std::array::from_fn(|index| {
                let (word, _, new) = changes[index % changes.len()];
                (word, new)
            });
            self.change(&new);
        }
        agrees(answer, Answer::Done(same))
    }
}
