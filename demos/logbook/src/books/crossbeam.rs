//! The book on crossbeam's queue and skip lists, by the same protocol. The skip lists allocate and
//! use epochs, so signal handlers must not use them.

use std::sync::atomic::{AtomicU64, Ordering};

use crossbeam_queue::ArrayQueue;
use crossbeam_skiplist::{SkipMap, SkipSet};

use super::super::ranking::{Ledger, Ranking};
use super::super::words::{Known, Rank, Word};
use super::{Book, Counts, Line};

/// A bounded queue, a map of counts, and a set for the ranking.
pub struct Crossbeam {
    lines: ArrayQueue<Line>,
    ranking: Ranking<SkipLists>,
}

/// The records of words, one atomic word each, and the ranking.
pub struct SkipLists {
    known: SkipMap<Word, AtomicU64>,
    ranks: SkipSet<Rank>,
}

impl Crossbeam {
    /// Creates a book with room for `lines` lines, and a ranking of `top` words.
    pub fn new(lines: usize, top: usize) -> Crossbeam {
        let lists = SkipLists {
            known: SkipMap::new(),
            ranks: SkipSet::new(),
        };
        Crossbeam {
            lines: ArrayQueue::new(lines),
            ranking: Ranking::new(lists, top),
        }
    }
}

/// Packs both numbers into one word.
fn packed(known: Known) -> u64 {
    let half = |number: u64| u32::try_from(number).expect("a word occurs less than 2^32 times");
    u64::from(half(known.count)) << 32 | u64::from(half(known.listed))
}

fn unpacked(word: u64) -> Known {
    Known {
        count: word >> 32,
        listed: word & u64::from(u32::MAX),
    }
}

impl Ledger for SkipLists {
    fn change(&self, word: &Word, change: impl Fn(Known) -> Known) -> Known {
        let entry = self.known.get_or_insert_with(*word, AtomicU64::default);
        // AcqRel and Acquire pair with each other: a thread that reads a record sees the ranking
        // operations that came before it.
        let update = entry
            .value()
            .fetch_update(Ordering::AcqRel, Ordering::Acquire, |known| {
                Some(packed(change(unpacked(known))))
            });
        unpacked(update.unwrap_or_else(|known| known))
    }

    fn known(&self, word: &Word) -> Known {
        let entry = self.known.get(word);
        // Acquire: pairs with the AcqRel in `change`.
        entry.map_or_else(Known::default, |entry| {
            unpacked(entry.value().load(Ordering::Acquire))
        })
    }

    fn insert(&self, rank: Rank) {
        self.ranks.insert(rank);
    }

    fn remove(&self, rank: &Rank) -> bool {
        self.ranks.remove(rank).is_some()
    }

    /// Not a snapshot: the search may miss a word that moves up meanwhile. Then the ranking looks
    /// shorter than it is.
    fn first(&self, ranks: &mut [Rank]) -> usize {
        let pairs = ranks.iter_mut().zip(self.ranks.iter());
        pairs.map(|(to, from)| *to = *from.value()).count()
    }
}

impl Book for Crossbeam {
    fn append(&self, line: Line) -> Result<(), Line> {
        self.lines.push(line)
    }

    fn take(&self) -> Option<Line> {
        self.lines.pop()
    }

    fn fold(&self, counts: &mut Counts) {
        for (word, more) in counts.drain() {
            self.ranking.enter(&word, more);
        }
    }

    fn most_frequent(&self, ranks: &mut [Rank]) -> usize {
        self.ranking.ledger.first(ranks)
    }

    fn ask(&self, _ranks: &mut [Rank]) -> Option<usize> {
        None
    }

    fn counts(&self) -> Counts {
        let known = self.ranking.ledger.known.iter();
        let counts = known.map(|entry| {
            let known = entry.value().load(Ordering::Acquire);
            (*entry.key(), unpacked(known).count)
        });
        counts.collect()
    }
}
