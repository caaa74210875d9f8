//! A hash map with a version in each bucket (GC96, section 5.1), which grows and shrinks by one
//! bucket at a time.

mod audit;
mod bucket;
mod counted;
mod error;
mod iteration;
mod resize;
mod table;

use std::fmt;
use std::hash::{BuildHasher, Hash, RandomState};

use super::list::Refused;
use super::plain::Plain;
use crate::or_panic::OrPanic;
use crate::type_stable::Error;

pub use counted::{HashMapRef, RefHashMap, RefHashMapIter};
pub use error::{Different, NotInserted};
pub use iteration::{HashMapIntoIter, HashMapIter};
#[cfg(any(test, feature = "unstable-internals"))]
pub use resize::Step;

use table::{Change, FEWEST, Table};

/// A hash map that all threads and their signal handlers may read and change at the same time.
///
/// Keys and values are [`Plain`]: they are copied in and out, word by word. Names and meanings are
/// those of [`std::collections::HashMap`], as far as a shared map allows: operations take `&self`,
/// and return copies.
///
/// The scope is `Machine`, and every operation is lock-free, by both
/// [mechanisms](crate::dcas::Mechanism): the map uses compare-and-swap of one word, and k-CAS for
/// entries that have no room in their bucket. A thread that is preempted, stopped or has exited
/// inside an operation does not block the others, nor the growth of the map. It withholds at most
/// one entry's room, or one bucket's that it was splitting or merging.
///
/// Each bucket has a version ([GC96](crate#papers), section 5.1). A lookup reads the bucket, and
/// counts if its version is unchanged afterwards; otherwise it is retried. It costs no atomic
/// instruction and no store, unless it meets what another thread has begun: it completes a change
/// of nodes or a split, and rolls back a merge. An insertion costs two compare-and-swaps and a
/// removal one. If the bucket is full or the entry lies in a node, each costs six at most, and the
/// node. What an operation does to other buckets does not disturb it. Linear hashing splits or
/// merges one bucket at a time, so growth stops no operation: an insertion or removal splits or
/// merges at most 64 buckets. The map does not shrink below the capacity that it was created with.
///
/// Memory: a bucket holds three entries of two words in one cache line. There are between three and
/// six entries in four buckets, above that capacity, and a node of 64 bytes or more for each entry
/// that found no room in its bucket when it was stored. The memory of buckets and nodes is reused
/// at once and does not wait for readers. It is returned when the map is dropped.
///
/// The default hasher is std's [`RandomState`], which resists keys that an attacker chooses. It may
/// be used in a signal handler, as long as the map was created outside. `hash` and `eq` of keys run
/// while the operation holds nothing that other threads need. If one panics for the operation's own
/// key, the operation panics and has changed nothing. `eq` may get bit patterns that no thread
/// stored ([`Plain`]). A change may also hash keys that are in the map, to split or merge buckets.
/// If that panics, the change has taken effect, and a bucket may have lost room.
///
/// Every operation may be called in a signal handler that interrupted any other one, except those
/// that return a `Vec` or an iterator, and those that panic.
///
/// ```
/// use atomseq::nonblocking::{HashMap, Refused};
///
/// let sessions = HashMap::new();
/// std::thread::scope(|scope| {
///     scope.spawn(|| sessions.insert(20, 1));
///     scope.spawn(|| sessions.insert(10, 2));
/// });
/// assert_eq!(sessions.try_insert(10, 3), Err(Refused::Present));
/// assert_eq!(sessions.get(&10), Some(2));
///
/// sessions.update(&10, |requests| requests + 1)?;
/// assert_eq!(sessions.remove(&10), Some(3));
/// assert_eq!(sessions.remove(&10), None);
/// assert_eq!(sessions.len(), 1);
/// # Ok::<(), atomseq::type_stable::Error>(())
/// ```
///
/// Values that are not [`Plain`] do not compile; a [`RefHashMap`] lends values of any type:
///
/// ```compile_fail,E0277
/// atomseq::nonblocking::HashMap::<u64, String>::new();
/// ```
pub struct HashMap<K: Plain, V: Plain = (), S = RandomState> {
    hasher: S,
    table: Table<K, V>,
}

/// Returns a hash whose low bits, which choose the bucket, depend on all bits of the hasher's
/// result. So keys spread over the buckets also if their results differ in the high bits alone.
///
/// The upper half of the product takes high bits down, and the lower half takes low bits up. A fold
/// by `hash ^ hash >> 32` before a multiplication would cancel results whose halves are equal.
#[inline(always)]
pub(in crate::nonblocking) fn spread(hash: u64) -> u64 {
    let product = u128::from(hash) * 0x9e37_79b9_7f4a_7c15;
    product as u64 ^ (product >> 64) as u64
}

impl<K: Plain + Eq + Hash, V: Plain> HashMap<K, V> {
    /// Creates an empty map with std's random hasher.
    ///
    /// # Panics
    ///
    /// If there is no memory, or a key and a value are too large for a page of nodes.
    #[track_caller]
    pub fn new() -> HashMap<K, V> {
        HashMap::with_hasher(RandomState::new())
    }

    /// Creates an empty map with room for that many entries: until there are more, no insertion
    /// splits a bucket, and no removal merges one. Writes to all of that memory.
    ///
    /// # Panics
    ///
    /// As for [`new`](HashMap::new).
    #[track_caller]
    pub fn with_capacity(entries: usize) -> HashMap<K, V> {
        HashMap::with_capacity_and_hasher(entries, RandomState::new())
    }
}

impl<K: Plain + Eq + Hash, V: Plain, S: BuildHasher> HashMap<K, V, S> {
    /// Creates an empty map with this hasher.
    ///
    /// # Panics
    ///
    /// As for [`new`](HashMap::new).
    #[track_caller]
    pub fn with_hasher(hasher: S) -> HashMap<K, V, S> {
        HashMap::with_capacity_and_hasher(0, hasher)
    }

    /// Creates an empty map with this hasher and room for that many entries.
    ///
    /// # Panics
    ///
    /// As for [`new`](HashMap::new).
    #[track_caller]
    pub fn with_capacity_and_hasher(entries: usize, hasher: S) -> HashMap<K, V, S> {
        HashMap::try_with_capacity_and_hasher(entries, hasher).or_panic()
    }

    /// Creates an empty map with this hasher and room for that many entries.
    ///
    /// # Errors
    ///
    /// [`Error::TooLarge`], [`Error::OutOfMemory`], [`Error::StartingUp`].
    pub fn try_with_capacity_and_hasher(
        entries: usize,
        hasher: S,
    ) -> Result<HashMap<K, V, S>, Error> {
        let buckets = resize::buckets_for(entries).ok_or(Error::TooLarge)?;
        let table = Table::new(buckets.max(FEWEST))?;
        Ok(HashMap { hasher, table })
    }

    /// Returns the hasher.
    pub fn hasher(&self) -> &S {
        &self.hasher
    }

    /// Returns the hash of a key.
    #[inline(always)]
    fn hash(&self, key: &K) -> u64 {
        spread(self.hasher.hash_one(key))
    }

    /// Grows or shrinks the map after a change, if it is this key's turn to look.
    #[inline(always)]
    fn balance(&self, hash: u64) {
        if self.table.looks_after(hash) {
            self.table.balance(&|key| self.hash(key));
        }
    }

    /// Returns the value of a key. No atomic instruction, unless it completes or rolls back what
    /// another thread has begun.
    #[inline]
    pub fn get(&self, key: &K) -> Option<V> {
        self.table.get(self.hash(key), key)
    }

    /// Returns whether the map contains a key. Costs as much as [`get`](HashMap::get).
    #[inline]
    pub fn contains_key(&self, key: &K) -> bool {
        self.get(key).is_some()
    }

    /// Inserts an entry, or replaces the value of the key. Returns the old value, if there was one.
    /// Two atomic instructions if the bucket has room and the key is not in a node.
    ///
    /// Unlike std's map, this and the other operations that replace a value store the new key too,
    /// which may differ from the old one if `eq` ignores a part of keys.
    ///
    /// # Errors
    ///
    /// [`Error::OutOfMemory`], if the bucket has no room and there is no memory for a node.
    #[inline]
    pub fn insert(&self, key: K, value: V) -> Result<Option<V>, Error> {
        self.change(&key, |_| Change::Put(value))
    }

    /// Inserts an entry if the key is not in the map. Two atomic instructions if the bucket has
    /// room.
    ///
    /// # Errors
    ///
    /// [`Refused::Present`] if the key is in the map; [`Refused::Memory`] as for
    /// [`insert`](HashMap::insert).
    #[inline]
    pub fn try_insert(&self, key: K, value: V) -> Result<(), Refused> {
        let put = self.change(&key, |found| match found {
            None => Change::Put(value),
            Some(_) => Change::Keep,
        });
        match put? {
            None => Ok(()),
            Some(_) => Err(Refused::Present),
        }
    }

    /// Removes the entry of a key and returns its value, or `None` if the key is not in the map.
    /// One atomic instruction if the entry lies in its bucket.
    #[inline]
    pub fn remove(&self, key: &K) -> Option<V> {
        let removed = self.change(key, |_| Change::Remove);
        // A removal needs no memory.
        removed.unwrap_or(None)
    }

    /// Replaces the value of a key by the result of `change`. Returns the old value, or `None` if
    /// the key is not in the map.
    ///
    /// `change` is called again if another thread has changed the key's bucket since; only the
    /// result of its last call is stored. A `change` that itself changes this map may be called
    /// without end.
    ///
    /// # Errors
    ///
    /// As for [`insert`](HashMap::insert).
    pub fn update(&self, key: &K, mut change: impl FnMut(V) -> V) -> Result<Option<V>, Error> {
        self.fetch_update(*key, |found| found.map(&mut change))
    }

    /// Replaces the entry of a key by the result of `change`, which gets the value, or `None` if
    /// the key is not in the map. If `change` returns `None`, the key is not in the map afterwards.
    /// Returns the old value.
    ///
    /// `change` is called as for [`update`](HashMap::update).
    ///
    /// ```
    /// let counts = atomseq::nonblocking::HashMap::new();
    /// for byte in *b"abracadabra" {
    ///     counts.fetch_update(byte, |count| Some(count.unwrap_or(0) + 1))?;
    /// }
    /// assert_eq!(counts.get(&b'a'), Some(5));
    /// # Ok::<(), atomseq::type_stable::Error>(())
    /// ```
    ///
    /// # Errors
    ///
    /// As for [`insert`](HashMap::insert).
    pub fn fetch_update(
        &self,
        key: K,
        mut change: impl FnMut(Option<V>) -> Option<V>,
    ) -> Result<Option<V>, Error> {
        self.change(&key, |found| {
            change(found).map_or(Change::Remove, Change::Put)
        })
    }

    /// Replaces the entry of a key if its value is `current`. `None` stands for a key that is not
    /// in the map, on both sides: this inserts, replaces or removes.
    ///
    /// ```
    /// use atomseq::nonblocking::{Different, HashMap};
    ///
    /// let owners = HashMap::new();
    /// owners.compare_exchange(7, None, Some(1))?;
    /// assert_eq!(owners.compare_exchange(7, None, Some(2)), Err(Different::Value(Some(1))));
    /// owners.compare_exchange(7, Some(1), None)?;
    /// assert!(!owners.contains_key(&7));
    /// # Ok::<(), Different<u64>>(())
    /// ```
    ///
    /// # Errors
    ///
    /// [`Different::Value`], with the value that was found instead; [`Different::Memory`] as for
    /// [`insert`](HashMap::insert). Nothing was changed.
    pub fn compare_exchange(
        &self,
        key: K,
        current: Option<V>,
        new: Option<V>,
    ) -> Result<(), Different<V>>
    where
        V: PartialEq,
    {
        let mut is_current = false;
        let found = self.change(&key, |found| {
            is_current = found == current;
            match (is_current, new) {
                (false, _) => Change::Keep,
                (true, None) => Change::Remove,
                (true, Some(new)) => Change::Put(new),
            }
        });
        match found {
            Ok(_) if is_current => Ok(()),
            Ok(found) => Err(Different::Value(found)),
            Err(error) => Err(Different::Memory(error)),
        }
    }

    #[inline(always)]
    fn change(
        &self,
        key: &K,
        decide: impl FnMut(Option<V>) -> Change<V>,
    ) -> Result<Option<V>, Error> {
        let hash = self.hash(key);
        let found = self.table.alter(hash, key, decide);
        self.balance(hash);
        found
    }

    /// Removes some entry and returns it, or `None` if the map was empty at some time for each of
    /// its buckets. Searches the buckets one after the other, from the one where an entry was found
    /// last. If the map is empty, it searches all of them.
    pub fn pop(&self) -> Option<(K, V)> {
        let popped = self.pop_from_buckets();
        self.table.balance(&|key| self.hash(key));
        popped
    }

    /// Removes all entries that are in the map from start to end of the call. Other entries may be
    /// removed or not. Merges all buckets above the initial capacity.
    pub fn clear(&self) {
        self.each_bucket(|index, bucket, state| self.table.clear(index, bucket, state));
        self.table.balance_all(&|key| self.hash(key));
    }
}

/// For tests and comparisons.
#[cfg(any(test, feature = "unstable-internals"))]
impl<K: Plain + Eq + Hash, V: Plain, S: BuildHasher> HashMap<K, V, S> {
    /// Splits the next bucket, and calls `between` after each step, as far as it returns `true`:
    /// like a thread that is stopped indefinitely there. Returns whether the split was completed.
    /// Takes over splits of other threads.
    pub fn split_between(&self, mut between: impl FnMut(Step) -> bool) -> bool {
        let hash = |key: &K| self.hash(key);
        let done = self
            .table
            .split::<true>(self.buckets(), &hash, true, &mut between);
        self.table.advance();
        matches!(done, Ok(resize::Split::Done))
    }

    /// Does the same, but commits the split even if the bucket has changed since its entries were
    /// copied: a fault that tests must find. It must lose or repeat keys, and not make a search
    /// endless, as it would if a split were committed whose child is another thread's or whose
    /// parent was merged meanwhile. So it takes over no split, and splits only the first buckets.
    pub fn split_unchecked(&self, mut between: impl FnMut(Step) -> bool) -> bool {
        let hash = |key: &K| self.hash(key);
        let index = self.buckets().min(2 * FEWEST - 1);
        let done = (self.table).split::<false>(index, &hash, false, &mut between);
        self.table.advance();
        matches!(done, Ok(resize::Split::Done))
    }

    /// Merges the last bucket with its parent, with `between` as in
    /// [`split_between`](HashMap::split_between).
    pub fn merge_between(&self, mut between: impl FnMut(Step) -> bool) -> bool {
        let hash = |key: &K| self.hash(key);
        self.buckets() > FEWEST && self.table.shrink_with(&hash, &mut between)
    }

    /// Reserves a free entry in the bucket of a key, like a thread that is stopped in an insertion.
    /// Returns whether there was one.
    pub fn abandon_insertion(&self, key: &K) -> bool {
        self.table.abandon_insertion(self.hash(key))
    }

    /// Returns the number of buckets.
    pub fn buckets(&self) -> usize {
        self.table
            .buckets
            .0
            .load(std::sync::atomic::Ordering::Acquire)
    }
}

impl<K: Plain, V: Plain, S> HashMap<K, V, S> {
    /// Returns the number of entries if no thread changes the map meanwhile. Costs one load per
    /// CPU.
    ///
    /// Each insertion and removal is counted right after it has taken effect, on the CPU where the
    /// thread runs, and the counts are loaded one after the other. The sum may include a removal
    /// without the insertion before it, or the reverse, for each change during the call. If the
    /// calling thread is preempted between two loads, these are many. A sum below 0 is returned
    /// as 0. A thread that exits between a change and its count leaves the sum wrong by one
    /// permanently. So does a fork meanwhile, in the child.
    pub fn len(&self) -> usize {
        self.table.len()
    }

    /// Returns whether [`len`](HashMap::len) is 0, which it may also be if other threads insert and
    /// remove entries meanwhile.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }
}

impl<K: Plain + Eq + Hash, V: Plain, S: BuildHasher + Default> Default for HashMap<K, V, S> {
    fn default() -> Self {
        HashMap::with_hasher(S::default())
    }
}

impl<K, V, S> fmt::Debug for HashMap<K, V, S>
where
    K: Plain + Eq + Hash + fmt::Debug,
    V: Plain + fmt::Debug,
    S: BuildHasher,
{
    /// Shows the entries, as [`iter`](HashMap::iter) returns them.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_map().entries(self).finish()
    }
}
