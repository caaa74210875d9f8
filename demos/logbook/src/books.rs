//! The book that all threads share, in each of the compared ways.

mod crossbeam;
mod locked;
mod nonblocking;

use std::collections::HashMap;

pub use crossbeam::Crossbeam;
pub use locked::Locked;
pub use nonblocking::Nonblocking;

use super::words::{Rank, Word};

/// A line between a writer and a folder.
pub type Line = Box<String>;

/// How often each word occurred.
pub type Counts = HashMap<Word, u64>;

/// A bounded queue of lines, the counts of all words, and the ranking of the most frequent words.
pub trait Book: Sync {
    /// Appends a line, or returns it if the queue is full.
    fn append(&self, line: Line) -> Result<(), Line>;

    /// Takes the oldest line.
    fn take(&self) -> Option<Line>;

    /// Adds counts to the book, and removes them from `counts`.
    fn fold(&self, counts: &mut Counts);

    /// Copies the most frequent words to `ranks`, as many as fit, and returns their number.
    fn most_frequent(&self, ranks: &mut [Rank]) -> usize;

    /// Does the same in a signal handler, which may have interrupted any of these functions.
    /// Returns `None` if that is impossible, or impossible now.
    fn ask(&self, ranks: &mut [Rank]) -> Option<usize>;

    /// Returns all counts.
    fn counts(&self) -> Counts;
}
