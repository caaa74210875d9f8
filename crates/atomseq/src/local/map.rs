//! A hash map of words by words, in a fixed number of entries.
//!
//! ```text
//!   +----------+---------+-----------+-----------+----     +-----------+-----------+
//!   | inserted | removed | key value | key value |  …      | present v | present v |
//!   +----------+---------+-----------+-----------+----     +-----------+-----------+
//!                          N entries, in which a key is      one entry each for the keys
//!                          looked for from its home on       that mean FREE and GONE
//! ```
//!
//! An entry's key is `FREE` if it never held one, `GONE` if it held one that a search may still
//! have to pass, or the key's word. `inserted` and `removed` count; their sum is the map's
//! **version**.
//!
//! # Why a handler may come between
//!
//! An operation searches with plain loads, then changes the map by one sequence. A handler may
//! interrupt anywhere, do any operations, and has finished them when the interrupted one goes on.
//!
//! *What changes.* [`claim`] and [`remove`] change which keys there are, and count, in one
//! sequence: the version, a sum of two counts that only grow, is another one afterwards, for good
//! (2^64 changes in one interruption aside, 2^32 on 32-bit targets). [`replace`] and [`add`] change
//! a value and nothing else. [`free`] turns `GONE` into `FREE`, and is below.
//!
//! *No key is twice in the map.* `claim` is told the version that its search began with, and does
//! nothing if it is another one. If it is the same, no key came or went since the search began, so
//! the key is still nowhere, and the entry still free. If a handler has inserted the same key
//! meanwhile, the version is another one; the search is repeated and finds it.
//!
//! *A value belongs to its key.* `replace`, `add` and [`read`] are told the entry where the search
//! saw the key, and do nothing if it holds another one now. If it holds the key, that is the key's
//! only entry (no key is twice in the map), whether or not it was away in between. `remove` is told
//! the version.
//!
//! *Not found means not there.* A search that meets no entry with its key is believed only if the
//! version is what it began with. Then all loads of the search saw one state of the keys. The same
//! goes for "full".
//!
//! *Every key can be found.* Between a key's home and its entry, on its *way*, there is never a
//! `FREE` one: `claim` takes the first entry on the way that is `FREE` or `GONE`. An entry becomes
//! `FREE` again, by `remove` or `free`, only if no key's way leads over it, at an unchanged
//! version. (If the next entry is `FREE`, none does, or it would lead over that one too.) `free`
//! changes no version; it need not, for it only ever follows a `claim` or a `remove` of the same
//! operation. A search that it could disturb was interrupted by that whole operation, and sees that
//! count; a search in a handler that interrupts the operation before `free` is through before
//! `free` runs.
//!
//! *It ends.* A search is repeated only if a handler has changed which keys there are.

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

/// An entry's key that never was one. Zero, so that an empty map is all zeroes.
const FREE: usize = 0;
/// An entry's key that is one no more.
const GONE: usize = usize::MAX;
/// What the two entries for the keys above hold for a key.
const PRESENT: usize = 1;

crate::sequence! {
    /// How many keys ever came and went.
    unsafe fn version(map: Word) -> Word {
        let inserted = load(map + INSERTED);
        let removed = load(map + REMOVED);
        inserted + removed
    }

    /// How many keys there are.
    unsafe fn length(map: Word) -> Word {
        let inserted = load(map + INSERTED);
        let removed = load(map + REMOVED);
        inserted - removed
    }

    /// Puts a key and its value into a free entry; `false` if keys came or went since `version`.
    unsafe fn claim(map: Word, version: Word, entry: Word, key: Word, value: Word) -> bool {
        let inserted = load(map + INSERTED);
        if inserted + load(map + REMOVED) != version { return false }
        store(entry + KEY, key);
        store(entry + VALUE, value);
        store(map + INSERTED, inserted + 1);
        true
    }

    /// Takes the value out of an entry, and leaves `mark` for its key; `None` if keys came or went
    /// since `version`.
    unsafe fn remove(map: Word, version: Word, entry: Word, mark: Word) -> Option<Word> {
        let removed = load(map + REMOVED);
        if load(map + INSERTED) + removed != version { return None }
        let value = load(entry + VALUE);
        store(entry + KEY, mark);
        store(map + REMOVED, removed + 1);
        Some(value)
    }

    /// Makes an entry free whose key is gone; `false` if keys came or went since `version`.
    unsafe fn free(map: Word, version: Word, entry: Word) -> bool {
        let inserted = load(map + INSERTED);
        if inserted + load(map + REMOVED) != version { return false }
        commit(entry + KEY, FREE);
        true
    }

    /// The value in an entry, if that still holds the key.
    unsafe fn read(entry: Word, key: Word) -> Option<Word> {
        if load(entry + KEY) != key { return None }
        let value = load(entry + VALUE);
        Some(value)
    }

    /// Key and value of an entry at one time.
    unsafe fn pair(entry: Word) -> (Word, Word) {
        let key = load(entry + KEY);
        let value = load(entry + VALUE);
        (key, value)
    }

    /// Puts a value into an entry if that still holds the key, and takes the one that was there.
    unsafe fn replace(entry: Word, key: Word, value: Word) -> Option<Word> {
        if load(entry + KEY) != key { return None }
        let old = load(entry + VALUE);
        commit(entry + VALUE, value);
        Some(old)
    }

    /// Adds to the value of an entry if that still holds the key.
    unsafe fn add(entry: Word, key: Word, amount: Word) -> bool {
        if load(entry + KEY) != key { return false }
        let value = load(entry + VALUE);
        commit(entry + VALUE, value + amount);
        true
    }
}

/// For the checkers in `verify/`.
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

/// A hash map of one-word keys to one-word values, with room for `N` keys, that a thread and its
/// signal handlers share.
///
/// This is the example with which GC96 section 1 begins: a signal handler stores into a table while
/// the thread that it interrupted is updating the same table.
///
/// Scope [`SameThread`]; no operation waits; one repeats its search if a handler inserted or
/// removed a key meanwhile. No operation costs an atomic instruction. Keys are equal if their words
/// are: two references are the same key if they point to the same place. Take `N` about twice the
/// number of keys: a search looks at entries one after the other, at all of them for a new key in a
/// full map. Hashes have no secret, so whoever chooses keys can make searches long. Takes sixteen
/// bytes an entry and 48 more; [the module](super) tells the rest.
///
/// ```
/// use atomseq::local::{Full, Map};
///
/// atomseq::local::per_thread! {
///     /// How often each program counter was interrupted.
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
    /// For the key whose word is [`FREE`], and for the one whose word is [`GONE`].
    special: [Entry; 2],
    pairs: (Invariant<K>, Invariant<V>),
    scope: SameThread,
}

/// Where the sequences look for the fields.
const _: () = {
    type One = Map<usize, usize, 1>;
    assert!(INSERTED == std::mem::offset_of!(One, inserted));
    assert!(REMOVED == std::mem::offset_of!(One, removed));
    assert!(size_of::<Entry>() == std::mem::offset_of!(One, special) - ENTRIES);
};

/// A key and its value, as [`KEY`] and [`VALUE`] say.
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

/// Where the entries begin.
const ENTRIES: usize = 16;

// SAFETY: every operation keeps to what the file's head says; values pass through as words. `Send`:
// a handler may end up with what the thread put in, and the other way round.
unsafe impl<K: AsWord + Copy + Send, V: AsWord + Send, const N: usize> Interruptible
    for Map<K, V, N>
{
    const NEEDS_DROP: bool = needs_drop::<V>();
}

impl<K: AsWord + Copy, V: AsWord, const N: usize> Map<K, V, N> {
    /// An empty map. `N` of zero does not compile.
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

    /// How many keys there is room for: `N`. (One more each for the words 0 and `usize::MAX`, which
    /// have entries of their own.)
    pub const fn capacity(&self) -> usize {
        N
    }

    /// How many keys there are.
    pub fn len(&self) -> usize {
        // SAFETY: reads this map.
        unsafe { length::rolling(address(self)) }
    }

    /// Is there no key?
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Puts a value in; returns the one that the key had before.
    ///
    /// # Errors
    ///
    /// The value in [`Full`], if the key is new and there is no room for it.
    pub fn insert(&self, key: K, value: V) -> Result<Option<V>, Full<V>> {
        let (way, word) = (Self::way(key), value.into_word());
        // SAFETY: an entry of this map.
        let change = |entry| unsafe { replace::restarting(entry, way.mark, word) };
        match self.put(way, word, change) {
            // SAFETY: `insert` or `add` made the word, and it left the map just now.
            Ok(before) => Ok(before.map(|word| unsafe { V::from_word(word) })),
            // SAFETY: the word was made above, and the map did not take it.
            Err(Full(())) => Err(Full(unsafe { V::from_word(word) })),
        }
    }

    /// Adds to a key's value, which is zero before the first time; wraps around.
    ///
    /// # Errors
    ///
    /// The amount in [`Full`], if the key is new and there is no room for it.
    #[inline]
    pub fn add(&self, key: K, amount: V) -> Result<(), Full<V>>
    where
        V: Integer,
    {
        let (way, word) = (Self::way(key), amount.into_word());
        // SAFETY: an entry of this map.
        let change = |entry| unsafe { add::restarting(entry, way.mark, word) }.then_some(());
        match self.put(way, word, change) {
            Ok(_) => Ok(()),
            Err(Full(())) => Err(Full(amount)),
        }
    }

    /// The value of a key.
    #[inline]
    pub fn get(&self, key: K) -> Option<V>
    where
        V: Copy,
    {
        let way = Self::way(key);
        // SAFETY: an entry of this map.
        let read = |_, index| unsafe { read::rolling(self.at(index), way.mark) };
        // SAFETY: `insert` or `add` made the word, and its value may be copied.
        Some(unsafe { V::from_word(self.find(way, read)?) })
    }

    /// Is the key there?
    pub fn contains_key(&self, key: K) -> bool {
        let way = Self::way(key);
        // SAFETY: an entry of this map.
        let read = |_, index| unsafe { read::rolling(self.at(index), way.mark) };
        self.find(way, read).is_some()
    }

    /// Takes a key and its value out; returns the value.
    pub fn remove(&self, key: K) -> Option<V> {
        let take = |version, index| self.remove_at(version, index);
        // SAFETY: `insert` or `add` made the word, and it left the map just now.
        Some(unsafe { V::from_word(self.find(Self::way(key), take)?) })
    }

    /// The keys and their values, in no order: each pair as it is when it is asked for.
    ///
    /// Handlers may interrupt the iteration anywhere. A key that is there all the while is given
    /// once; one that a handler inserts or removes meanwhile, if at all, as it was at some time,
    /// and twice if a handler removes it and inserts it again.
    pub fn iter(&self) -> Iter<'_, K, V>
    where
        V: Copy,
    {
        Iter::new(self)
    }

    /// Takes keys and values out, pair by pair, in no order. What a handler inserts meanwhile, may
    /// stay.
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
