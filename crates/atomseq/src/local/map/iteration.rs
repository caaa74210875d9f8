//! Iterating over a map, entry by entry. Each pair is read at one time.

use std::fmt;
use std::marker::PhantomData;

use super::{FREE, Map, TOMBSTONE, pair};
use crate::AsWord;
use crate::local::drain::Take;
use crate::local::points::point;
use crate::word::Invariant;

/// Returns the key of the entry with this index whose key word is `word`; `None` if it has no key.
fn key_word(index: usize, entries: usize, word: usize) -> Option<usize> {
    match (word, index.checked_sub(entries)) {
        (FREE | TOMBSTONE, _) => None,
        (word, None) => Some(word),
        (_, Some(0)) => Some(FREE),
        (_, Some(_)) => Some(TOMBSTONE),
    }
}

impl<K: AsWord + Copy, V: AsWord, const N: usize> Take<(K, V)> for Map<K, V, N> {
    fn take(&self, cursor: &mut usize) -> Option<(K, V)> {
        while *cursor < N + 2 {
            let version = self.version();
            point();
            let Some(key) = key_word(*cursor, N, self.entry(*cursor).key.word()) else {
                *cursor += 1;
                continue;
            };
            if let Some(value) = self.remove_at(version, *cursor) {
                // SAFETY: `insert` or `add` got both words from `into_word`. The value has just
                // been removed from the map, and `K: Copy`.
                return Some(unsafe { (K::from_word(key), V::from_word(value)) });
            }
        }
        None
    }
}

/// A map whose capacity is erased.
trait Entries {
    /// Returns key and value of the first entry with a key from `next` on, and moves `next` behind
    /// it.
    fn next_pair(&self, next: &mut usize) -> Option<(usize, usize)>;
}

impl<K: AsWord + Copy, V: AsWord, const N: usize> Entries for Map<K, V, N> {
    fn next_pair(&self, next: &mut usize) -> Option<(usize, usize)> {
        while *next < N + 2 {
            let index = *next;
            *next += 1;
            point();
            // SAFETY: `index` is that of an entry of this map.
            let (word, value) = unsafe { pair::rolling(self.at(index)) };
            if let Some(key) = key_word(index, N, word) {
                return Some((key, value));
            }
        }
        None
    }
}

/// An iterator over the pairs of a [`Map`]; created by [`Map::iter`].
pub struct Iter<'a, K: AsWord + Copy, V: AsWord + Copy> {
    entries: &'a dyn Entries,
    next: usize,
    pairs: Invariant<(K, V)>,
}

impl<'a, K: AsWord + Copy, V: AsWord + Copy> Iter<'a, K, V> {
    pub(super) fn new<const N: usize>(map: &'a Map<K, V, N>) -> Iter<'a, K, V> {
        Iter {
            entries: map,
            next: 0,
            pairs: PhantomData,
        }
    }
}

impl<K: AsWord + Copy, V: AsWord + Copy> Iterator for Iter<'_, K, V> {
    type Item = (K, V);

    fn next(&mut self) -> Option<(K, V)> {
        let (key, value) = self.entries.next_pair(&mut self.next)?;
        // SAFETY: `insert` or `add` got both words from `into_word`, and both types are `Copy`.
        Some(unsafe { (K::from_word(key), V::from_word(value)) })
    }
}

impl<K: AsWord + Copy, V: AsWord + Copy> fmt::Debug for Iter<'_, K, V> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Iter")
    }
}

impl<'a, K: AsWord + Copy, V: AsWord + Copy, const N: usize> IntoIterator for &'a Map<K, V, N> {
    type Item = (K, V);
    type IntoIter = Iter<'a, K, V>;

    fn into_iter(self) -> Iter<'a, K, V> {
        self.iter()
    }
}
