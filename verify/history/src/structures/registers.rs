//! Words that change together, and their version number: `dcas::Domain`, and `dcas::Adjacent`,
//! which has none.

use crate::history::{Model, agrees};

/// How many words there are.
pub const WORDS: usize = 3;

/// The words, and what is known of the version.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Registers {
    words: [u64; WORDS],
    /// The version when it was last seen.
    version: u64,
    /// Something has changed since then.
    changed: bool,
    /// The version counts modifications and nothing else, and only a modification fails an exchange
    /// by version.
    exact: bool,
}

impl Registers {
    /// Zeros. `exact`: the version counts modifications and nothing else.
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

    /// Can the version have been this one?
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

/// An operation on words, which it names by their numbers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Call {
    /// One word.
    Load(usize),
    /// All words, and the version.
    Snapshot,
    /// All words, without a version.
    Words,
    /// The version.
    Version,
    /// From these values to those: word, old value, new value.
    Exchange([(usize, u64, u64); 2]),
    /// The same for one word.
    ExchangeOne((usize, u64, u64)),
    /// Sets two words if the version is still this one.
    ExchangeSince(u64, [(usize, u64); 2]),
    /// Adds to a word.
    Add(usize, u64),
    /// All words from these values to those; the same twice only compares.
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
                // Where nothing would change, the version stays as well.
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
                // Its own interruption may have used the version up.
                agrees(answer, Answer::Done(done)) && (done || !same || !self.exact)
            }
        }
    }
}

impl Registers {
    /// Have the words their old values?
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
