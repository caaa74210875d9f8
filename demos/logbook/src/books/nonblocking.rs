//! The book on `atomseq::nonblocking`: no thread waits for another, and a signal handler may read
//! the ranking whatever it has interrupted.

use atomseq::nonblocking::{List, Queue};

use super::super::ranking::{Ledger, Ranking};
use super::super::words::{Known, Rank, Word};
use super::{Book, Counts, Line};

/// A bounded queue, a hash table whose buckets are lists, and a list for the ranking.
pub struct Nonblocking {
    lines: Queue<Line>,
    ranking: Ranking<Lists>,
}

/// The bytes of text for each bucket. In a small text, about every hundredth byte starts a word
/// that has not occurred before.
const BYTES_A_BUCKET: u64 = 128;

/// The minimum and maximum number of buckets.
const BUCKETS: (u64, u64) = (1 << 8, 1 << 17);

/// The records of words in buckets, and the ranking. Each list has a version number of its own
/// (GC96 3).
pub struct Lists {
    buckets: Box<[List<Word, Known>]>,
    ranks: List<Rank>,
}

impl Nonblocking {
    /// Creates a book with room for `lines` lines, a ranking of `top` words, and buckets for
    /// `bytes` bytes of text.
    pub fn new(lines: usize, top: usize, bytes: u64) -> Nonblocking {
        let buckets = (bytes / BYTES_A_BUCKET).clamp(BUCKETS.0, BUCKETS.1);
        let first = List::new();
        // A power of two, so that the upper bits of a hash are an index.
        let siblings = (1..buckets.next_power_of_two()).map(|_| first.sibling());
        let mut buckets: Vec<_> = siblings.collect();
        buckets.push(first);
        let lists = Lists {
            buckets: buckets.into(),
            ranks: List::new(),
        };
        Nonblocking {
            lines: Queue::with_capacity(lines),
            ranking: Ranking::new(lists, top),
        }
    }
}

impl Lists {
    fn bucket(&self, word: &Word) -> &List<Word, Known> {
        /// The fraction of the golden ratio: odd, with evenly distributed bits.
        const SPREAD: u64 = 0x9e37_79b9_7f4a_7c15;
        let mut hash = 0_u64;
        for eight in word.chunks_exact(8) {
            let eight = u64::from_le_bytes(eight.try_into().expect("eight bytes"));
            hash = (hash.rotate_left(5) ^ eight).wrapping_mul(SPREAD);
        }
        &self.buckets[(hash >> (u64::BITS - self.buckets.len().ilog2())) as usize]
    }
}

impl Ledger for Lists {
    fn change(&self, word: &Word, change: impl Fn(Known) -> Known) -> Known {
        let bucket = self.bucket(word);
        let put = bucket.insert_with(*word, |known| change(known.unwrap_or_default()));
        // No thread checks a word out, so the only possible error is a lack of memory.
        let known = put.unwrap_or_else(|refused| panic!("no memory for another word: {refused}"));
        known.unwrap_or_default()
    }

    fn known(&self, word: &Word) -> Known {
        let found = self.bucket(word).get(word);
        found.ok().flatten().unwrap_or_default()
    }

    fn insert(&self, rank: Rank) {
        let inserted = self.ranks.try_insert(rank, ());
        inserted.unwrap_or_else(|refused| panic!("no memory for another rank: {refused}"));
    }

    fn remove(&self, rank: &Rank) -> bool {
        matches!(self.ranks.remove(rank), Ok(Some(())))
    }

    fn first(&self, ranks: &mut [Rank]) -> usize {
        copy(&self.ranks, ranks)
    }
}

/// Copies a snapshot of the first ranks, without allocation.
fn copy(list: &List<Rank>, ranks: &mut [Rank]) -> usize {
    let mut entries = [(Rank::NONE, ()); super::super::ranking::MAX_RANKS + 1];
    let room = ranks.len().min(entries.len());
    let count = list.copy_first(&mut entries[..room]);
    for (rank, (entry, ())) in ranks.iter_mut().zip(&entries[..count]) {
        *rank = *entry;
    }
    count
}

impl Book for Nonblocking {
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

    fn ask(&self, ranks: &mut [Rank]) -> Option<usize> {
        Some(self.most_frequent(ranks))
    }

    fn counts(&self) -> Counts {
        let buckets = self.ranking.ledger.buckets.iter();
        let all = buckets.flat_map(|bucket| bucket.iter());
        all.map(|(word, known)| (word, known.count)).collect()
    }
}
