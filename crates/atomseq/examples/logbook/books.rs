//! The ways to keep the book: what all threads share.

mod crossbeam;
mod locked;
mod nonblocking;

use std::collections::HashMap;

pub use crossbeam::Crossbeam;
pub use locked::Locked;
pub use nonblocking::Nonblocking;

use super::words::{Rank, Word};

/// A line on its way.
pub type Line = Box<String>;

/// How often each word came.
pub type Counts = HashMap<Word, u64>;

/// Lines that were appended and not yet taken, so many at most; the counts of all words; and the
/// most frequent ones.
pub trait Book: Sync {
    /// Appends a line, or hands it back if there is no room.
    fn append(&self, line: Line) -> Result<(), Line>;

    /// Takes the oldest line.
    fn take(&self) -> Option<Line>;

    /// Folds counts into the book, and leaves none of them behind.
    fn fold(&self, counts: &mut Counts);

    /// Copies the most frequent words, as many as there are and as there is room for; returns how
    /// many.
    fn most_frequent(&self, ranks: &mut [Rank]) -> usize;

    /// The same in a signal handler, which may have interrupted any of these functions; `None` if
    /// that is not possible, or not now.
    fn ask(&self, ranks: &mut [Rank]) -> Option<usize>;

    /// All counts.
    fn counts(&self) -> Counts;
}
