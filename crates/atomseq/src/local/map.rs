//! A hash map from words to words, with linear probing in a fixed number of entries.
//!
//! ```text
//!   +----------+---------+-----------+-----------+----     +-----------+-----------+
//!   | inserted | removed | key value | key value |  …      | present v | present v |
//!   +----------+---------+-----------+-----------+----     +-----------+-----------+
//!                          N entries, probed from a          one entry each for the keys whose
//!                          key's home entry on               words are FREE and TOMBSTONE
//! ```
//!
//! The key of an entry is `FREE` if the entry is empty, `TOMBSTONE` if its key was removed and a
//! probe may still have to pass it, or else the key's word. `inserted` and `removed` are counts;
//! their sum is the map's **version**.
//!
//! # Why a handler may interrupt anywhere
//!
//! An operation probes with plain loads, then changes the map by one sequence. A handler may
//! interrupt it at any point and do any operations, and has completed them when the interrupted
//! operation continues.
//!
//! 1. *What changes.* [`claim`] and [`remove`] change the set of keys, and increment a count in the
//!    same sequence. Both counts only grow, so the version never returns to an old value (except
//!    after 2^64 changes in one interruption, 2^32 on 32-bit targets). [`replace`] and [`add`]
//!    change a value and nothing else. [`free`] turns `TOMBSTONE` into `FREE`; see 5.
//!
//! 2. *No key is in the map twice.* `claim` gets the version from before its probe, and does
//!    nothing if the version has changed. If it has not, no key was inserted or removed since the
//!    probe started: the key is still absent, and the entry still has no key. If a handler has
//!    inserted the same key meanwhile, the version differs, and the repeated probe finds the key.
//!
//! 3. *A value belongs to its key.* `replace`, `add` and [`read`] get the entry where the probe
//!    found the key, and do nothing if the entry holds another key now. If it holds the key, it is
//!    the key's only entry (by 2), whether or not the key was removed and inserted in between.
//!    `remove` gets the version.
//!
//! 4. *A key that is not found is absent.* A probe that finds no entry with its key counts only if
//!    the version is still the one from before the probe. Then all loads of the probe saw the same
//!    set of keys. The same holds for a full map.
//!
//! 5. *Every key can be found.* There is never a `FREE` entry between a key's home and its entry:
//!    `claim` takes the first entry of the probe that is `FREE` or `TOMBSTONE`. `remove` or `free`
//!    makes an entry `FREE` only if no key's probe passes it, at an unchanged version. (If the next
//!    entry is `FREE`, none does, because such a probe would pass the next entry too.) `free` does
//!    not change the version. It does not have to, because it always follows a `claim` or a
//!    `remove` of the same operation. A probe that it could disturb was interrupted by that whole
//!    operation, and sees the changed count. A probe in a handler that interrupts the operation
//!    before `free` ends before `free` runs.
//!
//! 6. *Every operation ends.* A probe is repeated only if a handler has changed the set of keys.

use std::fmt;
use std::marker::PhantomData;
use std::mem::needs_drop;

use super::drain::Drain;
use super::scope::Interruptible;
use super::word::{SequenceWord, address, check_capacity};
use crate::AsWord;
use crate::scope::SameThread;
use crate::word::Invariant;

mod iteration;
mod table;
mod values;

pub use iteration::Iter;
pub use values::{Full, Integer};

const INSERTED: usize = 0;
const REMOVED: usize = 8;

const KEY: usize = 0;
const VALUE: usize = 8;

/// The key of an empty entry. Zero, so that an empty map is all zeros.
const FREE: usize = 0;
/// The key of an entry whose key was removed, and which a probe may have to pass.
const TOMBSTONE: usize = usize::MAX;
/// The key of the two special entries while they hold their key.
const PRESENT: usize = 1;

crate::sequence! {
    /// Returns the version: the number of insertions and removals so far.
    unsafe fn version(map: Word) -> Word {
        let inserted = load(map + INSERTED);
        let removed = load(map + REMOVED);
        inserted + removed
    }

    /// Returns the number of keys.
    unsafe fn length(map: Word) -> Word {
        let inserted = load(map + INSERTED);
        let removed = load(map + REMOVED);
        inserted - removed
    }

    /// Inserts a key and its value into a free entry. Returns `false` if the version has changed.
    unsafe fn claim(map: Word, version: Word, entry: Word, key: Word, value: Word) -> bool {
        let inserted = load(map + INSERTED);
        if inserted + load(map + REMOVED) != version { return false }
        store(entry + KEY, key);
        store(entry + VALUE, value);
        store(map + INSERTED, inserted + 1);
        true
    }

    /// Removes the value of an entry, and replaces its key by `mark`. Returns `None` if the version
    /// has changed.
    unsafe fn remove(map: Word, version: Word, entry: Word, mark: Word) -> Option<Word> {
        let removed = load(map + REMOVED);
        if load(map + INSERTED) + removed != version { return None }
        let value = load(entry + VALUE);
        store(entry + KEY, mark);
        store(map + REMOVED, removed + 1);
        Some(value)
    }

    /// Makes a tombstone entry free. Returns `false` if the version has changed.
    unsafe fn free(map: Word, version: Word, entry: Word) -> bool {
        let inserted = load(map + INSERTED);
        if inserted + load(map + REMOVED) != version { return false }
        commit(entry + KEY, FREE);
        true
    }

    /// Returns the value of an entry if it still holds the key.
    unsafe fn read(entry: Word, key: Word) -> Option<Word> {
        if load(entry + KEY) != key { return None }
        let value = load(entry + VALUE);
        Some(value)
    }

    /// Reads key and value of an entry at one time.
    unsafe fn pair(entry: Word) -> (Word, Word) {
        let key = load(entry + KEY);
        let value = load(entry + VALUE);
        (key, value)
    }

    /// Replaces the value of an entry if it still holds the key. Returns the old value.
    unsafe fn replace(entry: Word, key: Word, value: Word) -> Option<Word> {
        if load(entry + KEY) != key { return None }
        let old = load(entry + VALUE);
        commit(entry + VALUE, value);
        Some(old)
    }

    /// Adds to the value of an entry. Returns `false` if it no longer holds the key.
    unsafe fn add(entry: Word, key: Word, amount: Word) -> bool {
        if load(entry + KEY) != key { return false }
        let value = load(entry + VALUE);
        commit(entry + VALUE, value + amount);
        true
    }
}

/// The sequences of this file, for the checkers in `verify/`.
#[cfg(feature = "unstable-internals")]
pub(super) const SEQUENCES: &[&crate::sequence::model::Program] = &[
    &version::MODEL,
    &length::MODEL,
    &claim::MODEL,
    &remove::MODEL,
    &free::MODEL,
    &read::MODEL,
    &pair::MODEL,
    &replace::MODEL,
    &add::MODEL,
];

/// A hash map of up to `N` one-word keys to one-word values that a thread and its signal handlers
/// share.
///
/// This is the introductory example of GC96, section 1: a signal handler stores into a table while
/// the thread that it interrupted updates the same table.
///
/// Scope [`SameThread`]. No operation waits, and none costs an atomic instruction. An operation
/// repeats its probe if a handler inserted or removed a key meanwhile. A map takes sixteen bytes
/// per entry, and 48 more. See [the module](super) for what all of these structures share.
///
/// Keys are equal if their words are: two references are the same key if they have the same
/// address. Choose `N` about twice the number of keys. Probing is linear, and an insertion into a
/// full map examines every entry. An insertion that takes the entry of a removed key examines the
/// entries of its probe twice, and all entries three times if none is free. While keys came and
/// went, at random or at equal distances, a search in vain passed seven entries where half of the
/// entries had keys, 85 at three quarters, and nearly all at nine tenths (counted in a model). The
/// hash function has no secret, so an attacker who chooses the keys can make probes long.
///
/// ```
/// use atomseq::local::{Full, Map};
///
/// atomseq::local::per_thread! {
/// /// The number of interruptions at each program counter.
///     static HITS: Map<usize, u64, 1024> = Map::new();
/// }
///
/// fn on_tick(program_counter: usize) -> Result<(), Full<u64>> {
///     HITS.with(|hits| hits.add(program_counter, 1))
/// }
///
/// on_tick(0x4000).unwrap();
/// on_tick(0x4000).unwrap();
/// on_tick(0x5000).unwrap();
/// HITS.with(|hits| {
///     assert_eq!(hits.get(0x4000), Some(2));
///     assert_eq!(hits.drain().map(|(_, count)| count).sum::<u64>(), 3);
///     assert!(hits.is_empty());
/// });
/// ```
#[repr(C)]
pub struct Map<K: AsWord + Copy, V: AsWord, const N: usize> {
    inserted: SequenceWord,
    removed: SequenceWord,
    entries: [Entry; N],
    /// The entries of the keys whose words are [`FREE`] and [`TOMBSTONE`].
    special: [Entry; 2],
    pairs: (Invariant<K>, Invariant<V>),
    scope: SameThread,
}

/// The field offsets that the sequences use.
const _: () = {
    type One = Map<usize, usize, 1>;
    assert!(INSERTED == std::mem::offset_of!(One, inserted));
    assert!(REMOVED == std::mem::offset_of!(One, removed));
    assert!(size_of::<Entry>() == std::mem::offset_of!(One, special) - ENTRIES);
};

/// A key and its value. [`KEY`] and [`VALUE`] are the offsets of the fields.
#[repr(C)]
struct Entry {
    key: SequenceWord,
    value: SequenceWord,
}

impl Entry {
    const fn free() -> Entry {
        Entry {
            key: SequenceWord::zero(),
            value: SequenceWord::zero(),
        }
    }
}

/// The offset of the first entry.
const ENTRIES: usize = 16;

// SAFETY: the head of this file shows why an interrupted operation is never observed half done, and
// values pass through as words. `Send`: a handler may get values that the thread inserted, and vice
// versa.
unsafe impl<K: AsWord + Copy + Send, V: AsWord + Send, const N: usize> Interruptible
    for Map<K, V, N>
{
    const NEEDS_DROP: bool = needs_drop::<V>();
}

impl<K: AsWord + Copy, V: AsWord, const N: usize> Map<K, V, N> {
    /// Creates an empty map. Does not compile if `N` is zero.
    pub const fn new() -> Map<K, V, N> {
        const { check_capacity(N) };
        Map {
            inserted: SequenceWord::zero(),
            removed: SequenceWord::zero(),
            entries: [const { Entry::free() }; N],
            special: [const { Entry::free() }; 2],
            pairs: (PhantomData, PhantomData),
            scope: SameThread::new(),
        }
    }

    /// Returns the maximum number of keys, `N`. The keys whose words are 0 and `usize::MAX` have
    /// entries of their own, and do not count.
    pub const fn capacity(&self) -> usize {
        N
    }

    /// Returns the number of keys.
    pub fn len(&self) -> usize {
        // SAFETY: the sequence only reads this map's counts.
        unsafe { length::rolling(address(self)) }
    }

    /// Returns whether the map is empty.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Inserts a key and its value. Returns the value that the key had before.
    ///
    /// # Errors
    ///
    /// Returns the value in [`Full`] if the key is new and there is no room for it.
    pub fn insert(&self, key: K, value: V) -> Result<Option<V>, Full<V>> {
        let (probe, word) = (Self::probe(key), value.into_word());
        // SAFETY: `put` passes the address of an entry of this map.
        let change = |entry| unsafe { replace::restarting(entry, probe.mark, word) };
        match self.put(probe, word, change) {
            // SAFETY: `insert` or `add` got the word from `into_word`, and the sequence has just
            // removed it from the map.
            Ok(before) => Ok(before.map(|word| unsafe { V::from_word(word) })),
            // SAFETY: `into_word` returned the word above, and the map did not take it.
            Err(Full(())) => Err(Full(unsafe { V::from_word(word) })),
        }
    }

    /// Adds to the value of a key, wrapping around. A new key starts at zero.
    ///
    /// # Errors
    ///
    /// Returns the amount in [`Full`] if the key is new and there is no room for it.
    #[inline]
    pub fn add(&self, key: K, amount: V) -> Result<(), Full<V>>
    where
        V: Integer,
    {
        let (probe, word) = (Self::probe(key), amount.into_word());
        // SAFETY: `put` passes the address of an entry of this map.
        let change = |entry| unsafe { add::restarting(entry, probe.mark, word) }.then_some(());
        match self.put(probe, word, change) {
            Ok(_) => Ok(()),
            Err(Full(())) => Err(Full(amount)),
        }
    }

    /// Returns the value of a key.
    #[inline]
    pub fn get(&self, key: K) -> Option<V>
    where
        V: Copy,
    {
        let probe = Self::probe(key);
        // SAFETY: `index` is that of an entry of this map.
        let read = |_, index| unsafe { read::rolling(self.at(index), probe.mark) };
        // SAFETY: `insert` or `add` got the word from `into_word`, and `V: Copy`, so it may be
        // converted more than once.
        Some(unsafe { V::from_word(self.find(probe, read)?) })
    }

    /// Returns whether the map contains a key.
    pub fn contains_key(&self, key: K) -> bool {
        let probe = Self::probe(key);
        // SAFETY: `index` is that of an entry of this map.
        let read = |_, index| unsafe { read::rolling(self.at(index), probe.mark) };
        self.find(probe, read).is_some()
    }

    /// Removes a key, and returns its value.
    pub fn remove(&self, key: K) -> Option<V> {
        let take = |version, index| self.remove_at(version, index);
        // SAFETY: `insert` or `add` got the word from `into_word`, and the sequence has just
        // removed it from the map.
        Some(unsafe { V::from_word(self.find(Self::probe(key), take)?) })
    }

    /// Returns an iterator over the keys and their values, in no particular order. Each pair is
    /// read when the iterator reaches it.
    ///
    /// Handlers may interrupt the iteration anywhere. A key that is in the map throughout is
    /// returned once. A key that a handler inserts or removes meanwhile may be returned or not,
    /// with a value that it had at some time. It may be returned twice if a handler removes and
    /// inserts it.
    pub fn iter(&self) -> Iter<'_, K, V>
    where
        V: Copy,
    {
        Iter::new(self)
    }

    /// Returns an iterator that removes keys and values pair by pair, in no particular order. Pairs
    /// that a handler inserts meanwhile may remain.
    pub fn drain(&self) -> Drain<'_, (K, V)> {
        Drain::new(self)
    }
}

impl<K: AsWord + Copy, V: AsWord, const N: usize> Drop for Map<K, V, N> {
    fn drop(&mut self) {
        if needs_drop::<V>() {
            let mut values = self.drain();
            crate::drops::each(|| values.next().is_some());
        }
    }
}

impl<K: AsWord + Copy, V: AsWord, const N: usize> Default for Map<K, V, N> {
    fn default() -> Map<K, V, N> {
        Map::new()
    }
}

impl<K: AsWord + Copy, V: AsWord, const N: usize> fmt::Debug for Map<K, V, N> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Map")
            .field("len", &self.len())
            .field("capacity", &N)
            .field("scope", &self.scope)
            .finish()
    }
}

#[cfg(test)]
#[path = "map/tests.rs"]
mod tests;
