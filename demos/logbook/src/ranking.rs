//! The ranking of the most frequent words, which many threads update at once without a lock.
//!
//! A word's record and its rank are in different places, and each step below changes one of them.
//! So a thread removes a word from the ranking and inserts it again with its new count (GC96 5.1):
//! others tolerate that it is missing for a while. The final result is exact by S92 5.3.2's rule:
//! mark the intention, act, and check whether the situation has changed.
//!
//! A record has two numbers: `count`, how often the word occurred, and `listed`, the count with
//! which it is in the ranking, 0 if it is not.
//!
//! ```text
//! enter   count += more
//! place   listed == count: done
//!         listed == 0:     too low for the ranking: done
//!                          else listed = count (one thread finds 0); insert; check again
//!         otherwise:       remove the rank of `listed` (one thread succeeds, the others are done);
//!                          listed = count; insert; check again
//! trim    one too many:    remove the last, listed = 0; if its count has changed since, place it
//! ```
//!
//! A thread that leaves a word to the thread which removed it has counted before. The remover reads
//! the count afterwards, so no count is lost. A word stays out of the ranking because enough others
//! had higher counts at one time, and counts only grow.

use std::sync::atomic::{AtomicU64, Ordering};

use super::words::{Known, Rank, Word};

/// The maximum length of a ranking.
pub const MAX_RANKS: usize = 100;

/// The place for records and ranks. Each operation is atomic by itself.
pub trait Ledger {
    /// Changes the record of a word, zeros if it has none, and returns the previous record.
    fn change(&self, word: &Word, change: impl Fn(Known) -> Known) -> Known;

    /// Returns the record of a word, zeros if it has none.
    fn known(&self, word: &Word) -> Known;

    /// Inserts a rank that is not in the ranking.
    fn insert(&self, rank: Rank);

    /// Removes a rank. Returns `true` to exactly one of the threads that try.
    fn remove(&self, rank: &Rank) -> bool;

    /// Copies the first ranks, as many as fit, and returns their number.
    fn first(&self, ranks: &mut [Rank]) -> usize;
}

/// A ranking of at most `size` words over a ledger.
pub struct Ranking<L> {
    pub ledger: L,
    size: usize,
    /// The lowest count in the ranking when it was last seen full. A lower count does not qualify.
    bar: AtomicU64,
}

impl<L: Ledger> Ranking<L> {
    /// Creates an empty ranking.
    ///
    /// # Panics
    ///
    /// If `size` is 0 or more than [`MAX_RANKS`].
    pub fn new(ledger: L, size: usize) -> Ranking<L> {
        assert!((1..=MAX_RANKS).contains(&size));
        Ranking {
            ledger,
            size,
            bar: AtomicU64::new(0),
        }
    }

    /// Adds to a word's count.
    pub fn enter(&self, word: &Word, more: u64) {
        let add = |known: Known| Known {
            count: known.count + more,
            ..known
        };
        let known = add(self.ledger.change(word, add));
        if self.place(word, known) {
            while let Some(grown) = self.trim() {
                self.place(&grown, self.ledger.known(&grown));
            }
        }
    }

    /// Moves a word, whose record was just read, to its place. Returns whether it inserted a rank.
    fn place(&self, word: &Word, mut known: Known) -> bool {
        let mut listed = false;
        loop {
            let count = match known.listed {
                current if current == known.count => return listed,
                0 => {
                    if !self.qualifies(Rank::of(known.count, word)) {
                        return listed;
                    }
                    let claim = |known: Known| match known.listed {
                        0 => Known {
                            listed: known.count,
                            ..known
                        },
                        _ => known,
                    };
                    match self.ledger.change(word, claim) {
                        Known { count, listed: 0 } => count,
                        // Another thread listed it first.
                        _ => {
                            known = self.ledger.known(word);
                            continue;
                        }
                    }
                }
                old => {
                    if !self.ledger.remove(&Rank::of(old, word)) {
                        return listed;
                    }
                    let renew = |known: Known| Known {
                        listed: known.count,
                        ..known
                    };
                    self.ledger.change(word, renew).count
                }
            };
            self.ledger.insert(Rank::of(count, word));
            listed = true;
            known = self.ledger.known(word);
        }
    }

    /// Removes the last ranks until at most `size` remain. Returns a removed word whose count has
    /// grown since it was listed.
    fn trim(&self) -> Option<Word> {
        let mut ranks = [Rank::NONE; MAX_RANKS + 1];
        while self.ledger.first(&mut ranks[..=self.size]) > self.size {
            let last = ranks[self.size];
            if self.ledger.remove(&last) {
                let forget = |known: Known| Known { listed: 0, ..known };
                if self.ledger.change(&last.word, forget).count != last.count() {
                    return Some(last.word);
                }
            }
        }
        None
    }

    fn qualifies(&self, rank: Rank) -> bool {
        // Relaxed: a hint that only grows. An old value costs one more read of the ranking.
        if rank.count() < self.bar.load(Ordering::Relaxed) {
            return false;
        }
        let mut ranks = [Rank::NONE; MAX_RANKS];
        if self.ledger.first(&mut ranks[..self.size]) < self.size {
            return true;
        }
        let last = ranks[self.size - 1];
        self.bar.fetch_max(last.count(), Ordering::Relaxed);
        rank < last
    }
}

#[cfg(test)]
mod tests;
