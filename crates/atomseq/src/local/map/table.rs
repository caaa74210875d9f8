//! The entries of a map: where a key is probed for, and how it is inserted and removed.

use super::{ENTRIES, Entry, FREE, Full, Map, PRESENT, TOMBSTONE, claim, free, remove, version};
use crate::AsWord;
use crate::local::points::point;
use crate::local::word::address;

/// Where a key can be: in one of `count` entries from `first` on, wrapping around, marked by
/// `mark`.
#[derive(Clone, Copy)]
pub(super) struct Probe {
    first: usize,
    count: usize,
    pub(super) mark: usize,
}

/// The result of a probe.
pub(super) enum Found {
    /// The key is at this index.
    At(usize),
    /// The key is absent, and this entry can take it.
    Room(Room),
    /// The key is absent, and no entry can take it.
    Nothing,
}

/// An entry for a new key.
pub(super) struct Room {
    /// The first entry of the probe without a key.
    pub(super) index: usize,
    /// If that is a tombstone: how many entries came before the first [`FREE`] one. All, if none is
    /// free.
    passed: usize,
}

impl<K: AsWord + Copy, V: AsWord, const N: usize> Map<K, V, N> {
    /// Returns where to probe for a key.
    #[inline]
    pub(super) fn probe(key: K) -> Probe {
        let special = |index| Probe {
            first: N + index,
            count: 1,
            mark: PRESENT,
        };
        match key.into_word() {
            FREE => special(0),
            TOMBSTONE => special(1),
            word => Probe {
                first: home(word, N),
                count: N,
                mark: word,
            },
        }
    }

    /// Calls `change` with the address of the key's entry, or inserts the key with this word.
    /// Returns what `change` returned, or `None` if the key is new. `change` must do nothing and
    /// return `None` if the entry holds another key by then.
    #[inline]
    pub(super) fn put<R>(
        &self,
        probe: Probe,
        word: usize,
        change: impl Fn(usize) -> Option<R>,
    ) -> Result<Option<R>, Full<()>> {
        loop {
            let version = self.version();
            match self.search(probe) {
                Found::At(index) => {
                    if let Some(changed) = change(self.at(index)) {
                        return Ok(Some(changed));
                    }
                }
                Found::Room(room) => {
                    if self.claim(version, room, probe, word) {
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

    /// Calls `with` with the version and the index of the key's entry, and returns its result;
    /// `None` if the key is absent. `with` must do nothing and return `None` if they are out of
    /// date.
    #[inline]
    pub(super) fn find<R>(
        &self,
        probe: Probe,
        with: impl Fn(usize, usize) -> Option<R>,
    ) -> Option<R> {
        loop {
            let version = self.version();
            if let Found::At(index) = self.search(probe) {
                if let Some(done) = with(version, index) {
                    return Some(done);
                }
            } else if self.version() == version {
                return None;
            }
        }
    }

    /// Probes for a key. The result may be out of date unless the version is unchanged afterwards.
    #[inline]
    pub(super) fn search(&self, probe: Probe) -> Found {
        let mut tombstone = None;
        let mut index = probe.first;
        for passed in 0..probe.count {
            point();
            match self.entry(index).key.word() {
                found if found == probe.mark => return Found::At(index),
                FREE => {
                    let free = Room { index, passed: 0 };
                    return Found::Room(tombstone.map_or(free, |index| Room { index, passed }));
                }
                TOMBSTONE => tombstone = tombstone.or(Some(index)),
                _ => {}
            }
            index = if index + 1 == N { 0 } else { index + 1 };
        }
        point();
        tombstone.map_or(Found::Nothing, |index| {
            Found::Room(Room {
                index,
                passed: probe.count,
            })
        })
    }

    #[inline]
    pub(super) fn version(&self) -> usize {
        point();
        // SAFETY: the sequence only reads this map's counts.
        unsafe { version::rolling(address(self)) }
    }

    /// Inserts a new key. Returns `false` if the version has changed.
    fn claim(&self, version: usize, room: Room, probe: Probe, word: usize) -> bool {
        let (map, entry) = (address(self), self.at(room.index));
        point();
        // SAFETY: an entry of this map, which has no key at that version.
        let is_in = unsafe { claim::rolling(map, version, entry, probe.mark, word) };
        if is_in && room.passed > 0 {
            // Otherwise fewer and fewer entries were free while keys come and go, and a probe would
            // pass most of the map.
            self.free_tombstones(version.wrapping_add(1), probe.first, room.passed);
        }
        is_in
    }

    /// Removes the value of an entry that has a key at that version. `None` if the version has
    /// changed.
    pub(super) fn remove_at(&self, version: usize, index: usize) -> Option<usize> {
        let mark = if self.may_become_free(index) {
            FREE
        } else {
            TOMBSTONE
        };
        point();
        // SAFETY: an entry of this map, which has a key at that version.
        let word = unsafe { remove::rolling(address(self), version, self.at(index), mark) }?;
        let version = version.wrapping_add(1);
        if mark == TOMBSTONE && self.is_empty() {
            self.free_tombstones(version, 0, N);
        } else if mark == FREE && index < N {
            self.free_before(index, version);
        }
        Some(word)
    }

    /// Returns whether the entry may become free as soon as its key is removed: if it is a special
    /// entry, or if the next entry is free.
    fn may_become_free(&self, index: usize) -> bool {
        let next = if index + 1 == N { 0 } else { index + 1 };
        index >= N || self.entry(next).key.word() == FREE
    }

    /// Makes the tombstones directly before a free entry free.
    fn free_before(&self, mut index: usize, version: usize) {
        // Ends before it has gone all the way round, because the entry at `index` is free.
        loop {
            index = if index == 0 { N - 1 } else { index - 1 };
            point();
            if self.entry(index).key.word() != TOMBSTONE || !self.free(version, index) {
                return;
            }
        }
    }

    /// Makes every tombstone free that no key's probe passes, of `count` entries from `first` on:
    /// all, or those before a free one.
    #[inline(never)]
    fn free_tombstones(&self, version: usize, first: usize, count: usize) {
        // The number of entries, from the current one backwards, that some key's probe passes. No
        // probe passes a free entry. If there may be none, a first round finds the probes that wrap
        // around the end of the table; the second one frees.
        let mut on_a_probe = 0usize;
        let rounds = if count == N { 2 } else { 1 };
        for step in (0..rounds * count).rev() {
            let index = (first + step) % N;
            let is_on_a_probe = on_a_probe > 0;
            on_a_probe = on_a_probe.saturating_sub(1);
            point();
            match self.entry(index).key.word() {
                FREE => {}
                TOMBSTONE => {
                    if step < count && !is_on_a_probe && !self.free(version, index) {
                        return;
                    }
                }
                word => on_a_probe = on_a_probe.max((index + N - home(word, N)) % N),
            }
        }
    }

    /// Makes an entry free that no key's probe passes at that version. Returns `false` if the
    /// version has changed.
    fn free(&self, version: usize, index: usize) -> bool {
        point();
        // SAFETY: `index` is that of an entry of this map. The caller guarantees that no key's
        // probe passes it.
        unsafe { free::restarting(address(self), version, self.at(index)) }
    }

    /// Returns an entry. The special entries have the indices from `N` on.
    #[inline]
    pub(super) fn entry(&self, index: usize) -> &Entry {
        match index.checked_sub(N) {
            None => &self.entries[index],
            Some(special) => &self.special[special],
        }
    }

    /// Returns an entry's address.
    #[inline]
    pub(super) fn at(&self, index: usize) -> usize {
        address(self) + ENTRIES + index * size_of::<Entry>()
    }
}

/// Returns the home entry of a key, where its probe starts.
///
/// The upper half of the product depends on all lower bits (Fibonacci hashing). Alone it would put
/// keys at some equal distances side by side, so it is mixed into the lower half, and a second
/// multiplication spreads the result.
#[inline]
pub(super) fn home(word: usize, entries: usize) -> usize {
    let product = (word as u64).wrapping_mul(0x9E37_79B9_7F4A_7C15);
    let hash = (product ^ product >> 32).wrapping_mul(0xD6E8_FEB8_6659_FD93) >> 32;
    ((hash * entries as u64) >> 32) as usize
}
