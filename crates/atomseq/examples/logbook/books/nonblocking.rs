//! On `atomseq::nonblocking`: nobody waits for anybody, and a signal handler may ask whatever it
//! has interrupted.

use atomseq::nonblocking::{List, Queue};

use super::super::ranking::{Ledger, Ranking};
use super::super::words::{Known, Rank, Word};
use super::{Book, Counts, Line};

/// A bounded queue, a hash table whose buckets are lists, and a list for the ranking.
pub struct Nonblocking {
    lines: Queue<Line>,
    ranking: Ranking<Lists>,
}

/// How many bytes of text there are for each bucket: in a small text, about every hundredth byte
/// begins a new word.
const BYTES_A_BUCKET: u64 = 128;

/// How many buckets there are at least and at most.
const BUCKETS: (u64, u64) = (1 << 8, 1 << 17);

/// What is known of words, in buckets, each of which has a version number of its own (GC96 3); and
/// the ranking, which has one.
pub struct Lists {
    buckets: Box<[List<Word, Known>]>,
    ranks: List<Rank>,
}

impl Nonblocking {
    /// One with room for so many lines, and so long a ranking, for about so many bytes of text.
    pub fn new(lines: usize, top: usize, bytes: u64) -> Nonblocking {
        let buckets = (bytes / BYTES_A_BUCKET).clamp(BUCKETS.0, BUCKETS.1);
        let first = List::new();
        // A power of two: the upper bits of a hash are a number below it.
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
        /// Odd, and without a pattern: the fraction of the golden ratio.
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
        // Nobody removes a word for change, so only memory can be missing.
        let known = put.unwrap_or_else(|refused| panic!("the logbook is full: {refused}"));
        known.unwrap_or_default()
    }

    fn known(&self, word: &Word) -> Known {
        let found = self.bucket(word).get(word);
        found.ok().flatten().unwrap_or_default()
    }

    fn insert(&self, rank: Rank) {
        let inserted = self.ranks.try_insert(rank, ());
        inserted
            .unwrap_or_else(|refused| panic!("the ranking cannot have another rank: {refused}"));
    }

    fn remove(&self, rank: &Rank) -> bool {
        matches!(self.ranks.remove(rank), Ok(Some(())))
    }

    fn first(&self, ranks: &mut [Rank]) -> usize {
        copy(&self.ranks, ranks)
    }
}

/// The first ranks at one time. Allocates nothing.
fn copy(list: &List<Rank>, ranks: &mut [Rank]) -> usize {
    let mut entries = [(Rank::NONE, ()); super::super::ranking::LONGEST + 1];
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
