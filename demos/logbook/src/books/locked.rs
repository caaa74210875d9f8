//! The book on the standard library's mutexes: one for the lines, one for counts and ranking.

use std::collections::{BTreeSet, VecDeque};
use std::sync::{Mutex, MutexGuard, PoisonError};

use super::super::words::{Rank, Word};
use super::{Book, Counts, Line};

/// Two collections and two locks.
pub struct Locked {
    room: usize,
    top: usize,
    lines: Mutex<VecDeque<Line>>,
    counted: Mutex<Counted>,
}

#[derive(Default)]
struct Counted {
    counts: Counts,
    ranks: BTreeSet<Rank>,
}

impl Locked {
    /// Creates a book with room for `lines` lines, and a ranking of `top` words.
    pub fn new(lines: usize, top: usize) -> Locked {
        Locked {
            room: lines,
            top,
            lines: Mutex::new(VecDeque::with_capacity(lines)),
            counted: Mutex::default(),
        }
    }
}

impl Counted {
    fn enter(&mut self, word: &Word, more: u64, top: usize) {
        let count = self.counts.entry(*word).or_default();
        let (old, new) = (Rank::of(*count, word), Rank::of(*count + more, word));
        *count += more;
        let is_in = self.ranks.remove(&old);
        let is_better = || self.ranks.last().is_none_or(|last| new < *last);
        if is_in || self.ranks.len() < top || is_better() {
            self.ranks.insert(new);
        }
        if self.ranks.len() > top {
            self.ranks.pop_last();
        }
    }

    fn first(&self, ranks: &mut [Rank]) -> usize {
        let pairs = ranks.iter_mut().zip(&self.ranks);
        pairs.map(|(to, from)| *to = *from).count()
    }
}

/// Locks a mutex, poisoned or not: the panic of the thread that held it ends the run anyway.
fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Book for Locked {
    fn append(&self, line: Line) -> Result<(), Line> {
        let mut lines = lock(&self.lines);
        if lines.len() == self.room {
            return Err(line);
        }
        lines.push_back(line);
        Ok(())
    }

    fn take(&self) -> Option<Line> {
        lock(&self.lines).pop_front()
    }

    fn fold(&self, counts: &mut Counts) {
        let mut counted = lock(&self.counted);
        for (word, more) in counts.drain() {
            counted.enter(&word, more, self.top);
        }
    }

    fn most_frequent(&self, ranks: &mut [Rank]) -> usize {
        lock(&self.counted).first(ranks)
    }

    /// Only tries the lock. The interrupted thread may hold it, and would never release it if its
    /// handler waited.
    fn ask(&self, ranks: &mut [Rank]) -> Option<usize> {
        let counted = self.counted.try_lock().ok()?;
        Some(counted.first(ranks))
    }

    fn counts(&self) -> Counts {
        lock(&self.counted).counts.clone()
    }
}
