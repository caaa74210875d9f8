//! Traversing a map, bucket by bucket, in the order of reversed hashes.
//!
//! A bucket of depth `d` has the hashes that end in the `d` bits of its index. In the order of
//! their reversed bits, these are neighbors, and stay neighbors when the bucket is split or merged
//! with its buddy. So a traversal needs only the place that it has reached in this order: buckets
//! that are split or merged meanwhile neither hide an entry nor show one twice.

use std::fmt;
use std::hash::{BuildHasher, Hash};
use std::iter::FusedIterator;
use std::vec;

use super::HashMap;
use super::bucket::{Bucket, State};
use super::table::{Changed, index_at};
use crate::nonblocking::Plain;
use crate::or_panic::OrPanic;
use crate::sync::Ordering;

/// How many buckets ahead a traversal prefetches: as many as take as long as a load from memory.
const AHEAD: u64 = 8;

/// An iterator over copies of the entries of a [`HashMap`]: see [`HashMap::iter`].
pub struct HashMapIter<'a, K: Plain, V: Plain, S> {
    map: &'a HashMap<K, V, S>,
    /// The smallest reversed hash that comes next. `None` at the end.
    next: Option<u64>,
    /// The rest of the bucket before it.
    entries: Vec<(K, V)>,
}

impl<K: Plain + Eq + Hash, V: Plain, S: BuildHasher> HashMap<K, V, S> {
    /// Returns an iterator over copies of the entries, in no particular order.
    ///
    /// An entry that is in the map throughout is returned exactly once. An entry that is inserted
    /// or removed meanwhile may be returned or not. The entries of one bucket are those of one
    /// time. The iterator allocates, so it must not be used in signal handlers.
    pub fn iter(&self) -> HashMapIter<'_, K, V, S> {
        HashMapIter {
            map: self,
            next: Some(0),
            entries: Vec::new(),
        }
    }

    /// Returns copies of the entries of the bucket that a key belongs to, as of one time. The key
    /// itself need not be in the map.
    pub fn snapshot(&self, key: &K) -> Vec<(K, V)> {
        let mut entries = Vec::new();
        self.copy_bucket(self.hash(key), 0, &mut entries);
        entries
    }

    /// Copies those entries of the bucket of a hash whose reversed hash is at least `from`. Returns
    /// the index and depth of the bucket.
    fn copy_bucket(&self, hash: u64, from: u64, entries: &mut Vec<(K, V)>) -> (usize, u32) {
        loop {
            entries.clear();
            let (index, bucket, state) = self.table.route(hash);
            // Only a bucket that was merged meanwhile also has hashes below `from`. The keys of the
            // others need no hash.
            let is_whole = from <= (index as u64).reverse_bits();
            let in_bucket = in_bucket(index);
            let hash_of = |key: &K| match is_whole {
                true => in_bucket(key),
                false => self.hash(key),
            };
            let copied = (self.table).each_entry(bucket, state, &hash_of, |_, hash, key, value| {
                // Foreign nodes do not belong to the bucket: see `resize.rs`.
                let is_own = index_at(hash, state.depth()) == index;
                if is_own && (is_whole || hash.reverse_bits() >= from) {
                    entries.push((key, value));
                }
                Ok(())
            });
            if copied.is_ok() && bucket.is_still(state) {
                return (index, state.depth());
            }
        }
    }

    /// Searches all buckets, and starts where an entry was found last: those before are empty.
    pub(super) fn pop_from_buckets(&self) -> Option<(K, V)> {
        let hint = &self.table.start.0;
        // Relaxed, here and below: a hint.
        let start = hint.load(Ordering::Relaxed);
        let (mut from, mut is_around) = (start, false);
        loop {
            let (index, bucket, state) = self.table.route(from.reverse_bits());
            let mut first = None;
            let hash_of = in_bucket(index);
            let seen =
                (self.table).each_entry(bucket, state, &hash_of, |place, hash, key, value| {
                    if index_at(hash, state.depth()) != index {
                        return Ok(());
                    }
                    first = Some((place, key, value));
                    // Ends the search.
                    Err(Changed)
                });
            match first {
                Some((place, key, value)) if self.table.take_out(bucket, state, place) => {
                    if from != start {
                        hint.store(from, Ordering::Relaxed);
                    }
                    return Some((key, value));
                }
                None if seen.is_ok() && bucket.is_still(state) => {
                    from = match self.after(index, state.depth()) {
                        Some(next) => next,
                        None if is_around => return None,
                        None => {
                            is_around = true;
                            0
                        }
                    };
                    if is_around && from >= start {
                        return None;
                    }
                }
                _ => {}
            }
        }
    }

    /// Calls `each` with every bucket, again if it returns `Changed`.
    pub(super) fn each_bucket(
        &self,
        mut each: impl FnMut(usize, Bucket<'_, K, V>, State) -> Result<(), Changed>,
    ) {
        let mut next = Some(0_u64);
        while let Some(from) = next {
            let (index, bucket, state) = self.table.route(from.reverse_bits());
            if each(index, bucket, state).is_ok() {
                next = self.after(index, state.depth());
            }
        }
    }

    /// Returns the smallest reversed hash behind those of a bucket, or `None` if there is none.
    ///
    /// Neighbors in the order of reversed hashes lie far apart, where no processor expects them. So
    /// this prefetches the bucket that comes a few steps later.
    fn after(&self, index: usize, depth: u32) -> Option<u64> {
        let first = (index as u64).reverse_bits();
        let step = 1_u64.checked_shl(u64::BITS - depth)?;
        let ahead = first.wrapping_add(step.wrapping_mul(AHEAD));
        self.table.prefetch(ahead.reverse_bits());
        first.checked_add(step)
    }
}

/// Returns a hash for entries in place of which nothing counts but their bucket. That of their key
/// may contradict itself, and would then hide an entry that is there.
pub(super) fn in_bucket<K>(index: usize) -> impl Fn(&K) -> u64 {
    move |_| index as u64
}

impl<K: Plain + Eq + Hash, V: Plain, S: BuildHasher> Iterator for HashMapIter<'_, K, V, S> {
    type Item = (K, V);

    fn next(&mut self) -> Option<(K, V)> {
        loop {
            if let Some(entry) = self.entries.pop() {
                return Some(entry);
            }
            let from = self.next?;
            let (index, depth) = self
                .map
                .copy_bucket(from.reverse_bits(), from, &mut self.entries);
            self.next = self.map.after(index, depth);
        }
    }
}

impl<K: Plain + Eq + Hash, V: Plain, S: BuildHasher> FusedIterator for HashMapIter<'_, K, V, S> {}

impl<K: Plain, V: Plain, S> fmt::Debug for HashMapIter<'_, K, V, S> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("HashMapIter").finish_non_exhaustive()
    }
}

impl<'a, K: Plain + Eq + Hash, V: Plain, S: BuildHasher> IntoIterator for &'a HashMap<K, V, S> {
    type Item = (K, V);
    type IntoIter = HashMapIter<'a, K, V, S>;

    fn into_iter(self) -> HashMapIter<'a, K, V, S> {
        self.iter()
    }
}

/// The iterator that `into_iter` of a [`HashMap`] returns, over all of its entries.
#[derive(Debug)]
pub struct HashMapIntoIter<K, V>(vec::IntoIter<(K, V)>);

impl<K, V> Iterator for HashMapIntoIter<K, V> {
    type Item = (K, V);

    fn next(&mut self) -> Option<(K, V)> {
        self.0.next()
    }

    fn size_hint(&self) -> (usize, Option<usize>) {
        self.0.size_hint()
    }
}

impl<K, V> ExactSizeIterator for HashMapIntoIter<K, V> {}

impl<K, V> FusedIterator for HashMapIntoIter<K, V> {}

impl<K: Plain + Eq + Hash, V: Plain, S: BuildHasher> IntoIterator for HashMap<K, V, S> {
    type Item = (K, V);
    type IntoIter = HashMapIntoIter<K, V>;

    fn into_iter(self) -> HashMapIntoIter<K, V> {
        HashMapIntoIter(Vec::from_iter(&self).into_iter())
    }
}

/// Collects entries. Of several with the same key, the last one counts.
impl<K: Plain + Eq + Hash, V: Plain, S: BuildHasher + Default> FromIterator<(K, V)>
    for HashMap<K, V, S>
{
    /// # Panics
    ///
    /// If there is no memory.
    #[track_caller]
    fn from_iter<I: IntoIterator<Item = (K, V)>>(entries: I) -> HashMap<K, V, S> {
        let entries = entries.into_iter();
        let room = entries.size_hint().0;
        let mut map = HashMap::with_capacity_and_hasher(room, S::default());
        map.extend(entries);
        map
    }
}

impl<K: Plain + Eq + Hash, V: Plain, S: BuildHasher> Extend<(K, V)> for HashMap<K, V, S> {
    /// # Panics
    ///
    /// If there is no memory.
    #[track_caller]
    fn extend<I: IntoIterator<Item = (K, V)>>(&mut self, entries: I) {
        (&*self).extend(entries);
    }
}

impl<K: Plain + Eq + Hash, V: Plain, S: BuildHasher> Extend<(K, V)> for &HashMap<K, V, S> {
    /// # Panics
    ///
    /// If there is no memory.
    #[track_caller]
    fn extend<I: IntoIterator<Item = (K, V)>>(&mut self, entries: I) {
        for (key, value) in entries {
            self.insert(key, value).or_panic();
        }
    }
}
