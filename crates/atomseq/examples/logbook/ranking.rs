//! The most frequent words, kept up to date by many threads at once without a lock.
//!
//! A word's count and its rank are in different places, and each of the steps below changes one of
//! them. So a word goes out of the ranking and comes back with a new count, as GC96 5.1 has it:
//! others can tolerate that it is not there for a while. What makes the result exact is S92 5.3.2's
//! rule: mark what is intended, do it, and look whether the situation has changed.
//!
//! ```text
//! enter   count += more
//! place   listed == count: done.
//!         listed == 0:     not worth it: done.  Else listed = count (of those who try, one finds 0); insert; look again.
//!         else:            remove the rank that `listed` says: of those who try, one succeeds, and has the word in hand.
//!                          The others are done. It: listed = count; insert; look again.
//! trim    one too many:    remove the last, listed = 0; if its count has changed since: place it.
//! ```
//!
//! Whoever leaves a word to the one who has it in hand has counted before; that one looks at the
//! count after. A word is left out because so many others were better at one time, and these can
//! only have become better since.

use std::sync::atomic::{AtomicU64, Ordering};

use super::words::{Known, Rank, Word};

/// The longest ranking there is.
pub const LONGEST: usize = 100;

/// Where counts and ranks are kept. Each operation is atomic by itself.
pub trait Ledger {
    /// Changes what is known of a word (nothing: zeros); returns what was known before.
    fn change(&self, word: &Word, change: impl Fn(Known) -> Known) -> Known;

    /// What is known of a word.
    fn known(&self, word: &Word) -> Known;

    /// Puts a rank that is not there into the ranking.
    fn insert(&self, rank: Rank);

    /// Takes a rank out: `true` for one of those who try.
    fn remove(&self, rank: &Rank) -> bool;

    /// Copies the first ranks; returns how many there are.
    fn first(&self, ranks: &mut [Rank]) -> usize;
}

/// A ranking of so many words over a ledger.
pub struct Ranking<L> {
    pub ledger: L,
    size: usize,
    /// The last rank had this count when the ranking was full: less is not worth a look.
    bar: AtomicU64,
}

impl<L: Ledger> Ranking<L> {
    /// An empty one.
    ///
    /// # Panics
    ///
    /// If it is to be longer than [`LONGEST`], or of no length.
    pub fn new(ledger: L, size: usize) -> Ranking<L> {
        assert!((1..=LONGEST).contains(&size));
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

    /// Brings a word, of which that was just known, to its place. Has it put anything into the
    /// ranking?
    fn place(&self, word: &Word, mut known: Known) -> bool {
        let mut listed = false;
        loop {
            let count = match known.listed {
                current if current == known.count => return listed,
                0 => {
                    if !self.is_worth_it(Rank::of(known.count, word)) {
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
                        // Another thread was faster.
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

    /// Takes ranks out until there are no more than there should be; or a word out whose count has
    /// grown meanwhile.
    fn trim(&self) -> Option<Word> {
        let mut ranks = [Rank::NONE; LONGEST + 1];
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

    fn is_worth_it(&self, rank: Rank) -> bool {
        // Relaxed: a number that only grows; an old one costs a look.
        if rank.count() < self.bar.load(Ordering::Relaxed) {
            return false;
        }
        let mut ranks = [Rank::NONE; LONGEST];
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
