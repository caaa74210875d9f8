//! The entries of a map: where a key is looked for, and how one gets in and out.

use super::{ENTRIES, Entry, FREE, Full, GONE, Map, PRESENT, claim, free, remove, version};
use crate::AsWord;
use crate::local::points::point;
use crate::local::word::address;

/// Where a key can be: in `count` entries from `first` on, around the end, as `mark`.
#[derive(Clone, Copy)]
pub(super) struct Way {
    first: usize,
    count: usize,
    pub(super) mark: usize,
}

/// What a search came to.
pub(super) enum Found {
    /// The key, at this index.
    At(usize),
    /// No key, but an entry for it.
    Room(Room),
    /// No key, and no entry for it.
    Nothing,
}

/// An entry for a new key.
pub(super) struct Room {
    /// The first on the key's way that has no key.
    pub(super) index: usize,
    /// Did the search come to an end only after all entries, for none was [`FREE`]?
    is_crowded: bool,
}

impl<K: AsWord + Copy, V: AsWord, const N: usize> Map<K, V, N> {
    /// Where to look for a key.
    #[inline]
    pub(super) fn way(key: K) -> Way {
        let special = |index| Way {
            first: N + index,
            count: 1,
            mark: PRESENT,
        };
        match key.into_word() {
            FREE => special(0),
            GONE => special(1),
            word => Way {
                first: home(word, N),
                count: N,
                mark: word,
            },
        }
    }

    /// Changes the key's entry, or puts the key in with this word; answers what `change` did, or
    /// nothing if the key is new. `change` does nothing if its entry holds another key by then.
    #[inline]
    pub(super) fn put<R>(
        &self,
        way: Way,
        word: usize,
        change: impl Fn(usize) -> Option<R>,
    ) -> Result<Option<R>, Full<()>> {
        loop {
            let version = self.version();
            match self.search(way) {
                Found::At(index) => {
                    if let Some(changed) = change(self.at(index)) {
                        return Ok(Some(changed));
                    }
                }
                Found::Room(room) => {
                    if self.claim(version, room, way, word) {
                        return Ok(None);
                    }
                }
                Found::Nothing => {
                    if self.version() == version {
                        return Err(Full(()));
                    }
                }
            }
        }
    }

    /// Does something with the key's entry, if there is one. `with` gets the version and the index,
    /// and does nothing if that is history.
    #[inline]
    pub(super) fn find<R>(&self, way: Way, with: impl Fn(usize, usize) -> Option<R>) -> Option<R> {
        loop {
            let version = self.version();
            if let Found::At(index) = self.search(way) {
                if let Some(done) = with(version, index) {
                    return Some(done);
                }
            } else if self.version() == version {
                return None;
            }
        }
    }

    /// Goes a key's way. What it finds may be history by then, unless the version says no.
    #[inline]
    pub(super) fn search(&self, way: Way) -> Found {
        let mut gone = None;
        let mut index = way.first;
        for _ in 0..way.count {
            point();
            match self.entry(index).key.word() {
                found if found == way.mark => return Found::At(index),
                FREE => {
                    return Found::Room(Room {
                        index: gone.unwrap_or(index),
                        is_crowded: false,
                    });
                }
                GONE => gone = gone.or(Some(index)),
                _ => {}
            }
            index = if index + 1 == N { 0 } else { index + 1 };
        }
        point();
        gone.map_or(Found::Nothing, |index| {
            Found::Room(Room {
                index,
                is_crowded: true,
            })
        })
    }

    #[inline]
    pub(super) fn version(&self) -> usize {
        point();
        // SAFETY: reads this map.
        unsafe { version::rolling(address(self)) }
    }

    /// Puts a new key in; `false` if keys came or went since that version.
    fn claim(&self, version: usize, room: Room, way: Way, word: usize) -> bool {
        let (map, entry) = (address(self), self.at(room.index));
        point();
        // SAFETY: an entry of this map, which has no key at that version.
        let is_in = unsafe { claim::rolling(map, version, entry, way.mark, word) };
        if is_in && room.is_crowded {
            self.tidy(version.wrapping_add(1));
        }
        is_in
    }

    /// Takes the value out of an entry that has a key at that version; `None` if that is history.
    pub(super) fn remove_at(&self, version: usize, index: usize) -> Option<usize> {
        let mark = if self.is_last_of_a_way(index) {
            FREE
        } else {
            GONE
        };
        point();
        // SAFETY: an entry of this map, with a key at that version.
        let word = unsafe { remove::rolling(address(self), version, self.at(index), mark) }?;
        let version = version.wrapping_add(1);
        if mark == GONE && self.is_empty() {
            self.tidy(version);
        } else if mark == FREE && index < N {
            self.free_before(index, version);
        }
        Some(word)
    }

    /// May the entry become free as soon as its key goes? The special ones, or if the next is free.
    fn is_last_of_a_way(&self, index: usize) -> bool {
        let next = if index + 1 == N { 0 } else { index + 1 };
        index >= N || self.entry(next).key.word() == FREE
    }

    /// Frees the entries before a free one whose keys are gone.
    fn free_before(&self, mut index: usize, version: usize) {
        // Not around for ever: the entry at the start is free, not gone.
        loop {
            index = if index == 0 { N - 1 } else { index - 1 };
            point();
            if self.entry(index).key.word() != GONE || !self.free(version, index) {
                return;
            }
        }
    }

    /// Frees every entry whose key is gone and that is on no key's way.
    #[cold]
    fn tidy(&self, version: usize) {
        // How many entries, from the next one backwards, are on some key's way. Once around to
        // learn which ways lead over the end of the table, then once to free.
        let mut on_a_way = 0usize;
        for step in (0..2 * N).rev() {
            let index = step % N;
            let is_on_a_way = on_a_way > 0;
            on_a_way = on_a_way.saturating_sub(1);
            point();
            match self.entry(index).key.word() {
                FREE => {}
                GONE => {
                    if step < N && !is_on_a_way && !self.free(version, index) {
                        return;
                    }
                }
                word => on_a_way = on_a_way.max((index + N - home(word, N)) % N),
            }
        }
    }

    /// Frees an entry that is on no key's way at that version; `false` if that is history.
    fn free(&self, version: usize, index: usize) -> bool {
        point();
        // SAFETY: an entry of this map.
        unsafe { free::restarting(address(self), version, self.at(index)) }
    }

    /// The entries, and behind them the special ones.
    #[inline]
    pub(super) fn entry(&self, index: usize) -> &Entry {
        match index.checked_sub(N) {
            None => &self.entries[index],
            Some(special) => &self.special[special],
        }
    }

    /// An entry's address.
    #[inline]
    pub(super) fn at(&self, index: usize) -> usize {
        address(self) + ENTRIES + index * size_of::<Entry>()
    }
}

/// The entry where the search for a key begins (Fibonacci hashing: the upper half of a product
/// mixes all bits below).
#[inline]
pub(super) fn home(word: usize, entries: usize) -> usize {
    let hash = (word as u64).wrapping_mul(0x9E37_79B9_7F4A_7C15) >> 32;
    ((hash * entries as u64) >> 32) as usize
}
