//! A hash map of values of any type, which readers hold by counted guards.
//!
//! ```text
//! map       a `HashMap` of keys and addresses of nodes
//! node      word: in the map 1 | allocation 43 | guards 20     value
//!
//! get       find the address; load the word; the bucket is unchanged
//!           word + 1                                                    if the word is unchanged
//! insert    write the value; word = the next allocation, 1 guard; put the address into the map
//! remove    take the address out of the map
//! drop      word - 1; the last guard takes the value out and frees the node
//! ```
//!
//! Invariants:
//!
//! 1. The map counts as one guard of each value in it. That guard passes to the thread that takes
//!    the address out, and from the thread that puts it in. So a value in the map has a guard, and
//!    exactly one thread takes a value out of its node.
//! 2. While a node has no guard, only its owner writes the word, and each allocation has another
//!    number. So an exchange of a word with guards succeeds only in the allocation that the word
//!    was loaded in, and only while its value is alive. The number recurs after 2^43 allocations of
//!    the same node, all within one call of `get`.
//! 3. A reader loads the word before a check that the bucket is unchanged. So the word is that of
//!    the allocation whose address the bucket held at the check.
//!
//! Only audits use the bit that says that the value is in the map (`audit`).

use std::cell::UnsafeCell;
use std::fmt;
use std::hash::{BuildHasher, Hash, RandomState};
use std::iter::FusedIterator;
use std::mem::{ManuallyDrop, MaybeUninit, forget, needs_drop};
use std::ops::Deref;
use std::ptr::with_exposed_provenance;

#[cfg(any(test, feature = "unstable-internals"))]
use super::Step;
use super::table::Change;
use super::{HashMap, HashMapIter, NotInserted};
use crate::drops;
use crate::nonblocking::list::Refused;
use crate::nonblocking::nodes::address;
use crate::nonblocking::plain::Plain;
use crate::nonblocking::ref_list::NoMemory;
use crate::or_panic::OrPanic;
use crate::sync::{AtomicU64, Ordering};
use crate::type_stable::{Descriptor, Error, Pool};

/// The bits of a word that count guards.
pub(super) const GUARDS: u64 = (1 << 20) - 1;

/// In a word: an audit has seen the value in the map, and left the node unclaimed.
pub(super) const MAPPED: u64 = 1 << 63;

/// A value and the number of its guards.
#[repr(C)]
pub(super) struct Node<V> {
    pub(super) word: AtomicU64,
    /// Initialized while there are guards.
    value: UnsafeCell<MaybeUninit<V>>,
}

// SAFETY: the word is atomic. Guards only share the value, and the last one takes it out.
unsafe impl<V: Send + Sync> Sync for Node<V> {}
// SAFETY: all zeros is a valid instance, and may appear at any time: the word is read as an atomic,
// and the value is `MaybeUninit`.
unsafe impl<V: Send + Sync> Descriptor for Node<V> {}

/// A [`HashMap`] of values of any type that is `Send` and `Sync`, which lends them.
///
/// A reader of a value holds a guard, a [`HashMapRef`], which keeps the value alive. A value that
/// was removed or replaced is dropped with its last guard. No thread waits for a guard, and a
/// stopped reader retains only its one value.
///
/// Keys are [`Plain`]. Whatever their `hash` and `eq` return, no value is dropped twice or while it
/// has a guard. The hasher, the scope and the growth are those of a [`HashMap`], and every
/// operation is lock-free. A lookup costs one atomic instruction more than there, and the end of
/// its guard another. An insertion or a removal costs as much as there, and the end of the guard
/// that it returns one more. Memory: in addition to that of a [`HashMap`] with values of 8 bytes, a
/// node for each value that is in the map or has a guard. It is reused at once, and returned when
/// the map is dropped. An [audit](RefHashMap::audit) recovers what exited threads held while the
/// map lives.
///
/// Every operation may be called in a signal handler that interrupted any other one, except
/// [`iter`](RefHashMap::iter) and those that panic. But a guard that is dropped there may be the
/// last one, and then the value's destructor runs in the handler.
///
/// ```
/// use atomseq::nonblocking::RefHashMap;
///
/// let names = RefHashMap::new();
/// names.insert(1, "ada".to_string())?;
/// let ada = names.get(&1).unwrap();
/// assert!(names.insert(1, "grace".to_string())?.is_some());
/// // The value is out of the map, and still valid for the holder of the guard.
/// assert_eq!(*ada, "ada");
/// assert_eq!(ada.into_inner().unwrap(), "ada");
/// assert_eq!(*names.remove(&1).unwrap(), "grace");
/// assert!(names.get(&1).is_none());
/// # Ok::<(), atomseq::nonblocking::NoMemory<String>>(())
/// ```
///
/// Values are shared by threads, and dropped in any of them, so they must be `Send` and `Sync`:
///
/// ```compile_fail,E0277
/// let map = atomseq::nonblocking::RefHashMap::new();
/// map.insert(1, std::cell::Cell::new(1));
/// ```
///
/// A guard ends before its map, and a reference before its guard:
///
/// ```compile_fail,E0505
/// let map = atomseq::nonblocking::RefHashMap::<u64, String>::new();
/// let guard = map.get(&1);
/// drop(map);
/// drop(guard);
/// ```
///
/// ```compile_fail,E0505
/// let map = atomseq::nonblocking::RefHashMap::<u64, String>::new();
/// let guard = map.get(&1).unwrap();
/// let text: &str = &guard;
/// drop(guard);
/// println!("{text}");
/// ```
pub struct RefHashMap<K: Plain, V: Send + Sync, S = RandomState> {
    /// The addresses of nodes, in place of the values.
    pub(super) map: HashMap<K, u64, S>,
    pub(super) values: Pool<Node<V>>,
}

impl<K: Plain + Eq + Hash, V: Send + Sync> RefHashMap<K, V> {
    /// Creates an empty map with std's random hasher.
    ///
    /// # Panics
    ///
    /// If there is no memory, or a key or a value is too large for a page of nodes.
    #[track_caller]
    pub fn new() -> RefHashMap<K, V> {
        RefHashMap::with_hasher(RandomState::new())
    }
}

impl<K: Plain + Eq + Hash, V: Send + Sync, S: BuildHasher> RefHashMap<K, V, S> {
    /// Creates an empty map with this hasher.
    ///
    /// # Panics
    ///
    /// As for [`new`](RefHashMap::new).
    #[track_caller]
    pub fn with_hasher(hasher: S) -> RefHashMap<K, V, S> {
        RefHashMap::try_with_capacity_and_hasher(0, hasher).or_panic()
    }

    /// Creates an empty map with this hasher and room for that many entries: see
    /// [`HashMap::with_capacity`].
    ///
    /// # Errors
    ///
    /// [`Error::TooLarge`], [`Error::OutOfMemory`], [`Error::StartingUp`].
    pub fn try_with_capacity_and_hasher(
        entries: usize,
        hasher: S,
    ) -> Result<RefHashMap<K, V, S>, Error> {
        Ok(RefHashMap {
            map: HashMap::try_with_capacity_and_hasher(entries, hasher)?,
            values: Pool::options().try_build()?,
        })
    }

    /// Returns a guard of the value of a key. One atomic instruction.
    ///
    /// # Panics
    ///
    /// If the value has 1,048,575 guards.
    #[inline]
    #[track_caller]
    pub fn get(&self, key: &K) -> Option<HashMapRef<'_, V>> {
        self.get_from::<true, true>(key, |_| ())
    }

    /// Does the same, with calls of `gap` in between: with `false` before the word is loaded, and
    /// with `true` after the check of the bucket. Without `CHECKED`, there is no check: a fault
    /// that tests must find.
    #[cfg(any(test, feature = "unstable-internals"))]
    pub fn get_between<const CHECKED: bool>(
        &self,
        key: &K,
        gap: impl FnMut(bool),
    ) -> Option<HashMapRef<'_, V>> {
        self.get_from::<CHECKED, true>(key, gap)
    }

    /// Does the same without a claim of the node: a fault that an audit must turn into another one.
    #[cfg(test)]
    pub(in crate::nonblocking) fn get_unclaimed(&self, key: &K) -> Option<HashMapRef<'_, V>> {
        self.get_from::<true, false>(key, |_| ())
    }

    #[inline(always)]
    #[track_caller]
    fn get_from<const CHECKED: bool, const CLAIMED: bool>(
        &self,
        key: &K,
        mut gap: impl FnMut(bool),
    ) -> Option<HashMapRef<'_, V>> {
        let hash = self.map.hash(key);
        loop {
            let found = self.map.table.find(hash, key);
            let node = self.node(found.value?);
            gap(false);
            // Acquire: pairs with the release in `HashMapRef::new` and at the end of guards. If
            // this loads the word of a later allocation, or one without guards, the check below
            // loads the state after the removal.
            let word = node.word.load(Ordering::Acquire);
            if CHECKED && !found.is_still() {
                continue;
            }
            gap(true);
            if CLAIMED {
                self.claim(node);
            }
            if node.acquire(word) {
                return Some(self.guard(node));
            }
        }
    }

    /// Inserts an entry, or replaces the value of the key. Returns a guard of the old value, if
    /// there was one. Two atomic instructions, as for [`HashMap::insert`].
    ///
    /// # Errors
    ///
    /// [`NoMemory`], which returns the value.
    pub fn insert(&self, key: K, value: V) -> Result<Option<HashMapRef<'_, V>>, NoMemory<V>> {
        let old = self.put(&key, value, |_| true);
        old.map_err(|NotInserted { value, reason }| match reason {
            Refused::Memory(reason) => NoMemory { value, reason },
            refused => unreachable!("any value is replaced: {refused}"),
        })
    }

    /// Inserts an entry if the key is not in the map. Two atomic instructions, as for
    /// [`HashMap::try_insert`].
    ///
    /// # Errors
    ///
    /// [`NotInserted`], which returns the value, with the reason [`Refused::Present`] if the key is
    /// in the map, or [`Refused::Memory`] as for [`insert`](RefHashMap::insert).
    pub fn try_insert(&self, key: K, value: V) -> Result<(), NotInserted<V>> {
        self.put(&key, value, |is_present| !is_present).map(drop)
    }

    /// Puts a value into the map, if `replaces` agrees, which gets whether the key has one.
    #[inline(always)]
    fn put(
        &self,
        key: &K,
        value: V,
        replaces: impl Fn(bool) -> bool,
    ) -> Result<Option<HashMapRef<'_, V>>, NotInserted<V>> {
        let hash = self.map.hash(key);
        let new = HashMapRef::new(&self.values, value)?;
        let address = address(new.node);
        let found = self
            .map
            .table
            .alter(hash, key, |found| match replaces(found.is_some()) {
                true => {
                    self.claim_at(found);
                    Change::Put(address)
                }
                false => Change::Keep,
            });
        let outcome = match found {
            Ok(found) if replaces(found.is_some()) => {
                // The guard is the map's now, and that of the old value this call's.
                forget(new);
                Ok(found.map(|old| self.guard(self.node(old))))
            }
            Ok(_) => Err(new.refused(Refused::Present)),
            Err(error) => Err(new.refused(Refused::Memory(error))),
        };
        // Last, because it may panic.
        self.map.balance(hash);
        outcome
    }

    /// Removes the entry of a key and returns a guard of its value, or `None` if the key is not in
    /// the map. One atomic instruction if the entry lies in its bucket.
    pub fn remove(&self, key: &K) -> Option<HashMapRef<'_, V>> {
        let hash = self.map.hash(key);
        let removed = self.map.table.alter(hash, key, |found| {
            self.claim_at(found);
            Change::Remove
        });
        // A removal needs no memory. The map's guard is this call's now.
        let removed = removed.ok().flatten();
        let removed = removed.map(|address| self.guard(self.node(address)));
        self.map.balance(hash);
        removed
    }

    /// Returns whether the map contains a key. Costs as much as [`HashMap::get`].
    pub fn contains_key(&self, key: &K) -> bool {
        self.map.contains_key(key)
    }

    /// Returns an iterator over the keys, each with a guard of the value that it has when the
    /// iterator returns it.
    ///
    /// A key that is in the map throughout is returned exactly once. A key that is inserted or
    /// removed meanwhile may be returned or not. The iterator allocates, so it must not be used in
    /// signal handlers.
    pub fn iter(&self) -> RefHashMapIter<'_, K, V, S> {
        RefHashMapIter {
            map: self,
            entries: self.map.iter(),
        }
    }
}

/// For tests and comparisons.
#[cfg(any(test, feature = "unstable-internals"))]
impl<K: Plain + Eq + Hash, V: Send + Sync, S: BuildHasher> RefHashMap<K, V, S> {
    /// See [`HashMap::split_between`].
    pub fn split_between(&self, between: impl FnMut(Step) -> bool) -> bool {
        self.map.split_between(between)
    }

    /// See [`HashMap::merge_between`].
    pub fn merge_between(&self, between: impl FnMut(Step) -> bool) -> bool {
        self.map.merge_between(between)
    }

    /// Returns the number of buckets.
    pub fn buckets(&self) -> usize {
        self.map.buckets()
    }

    /// Leaves the state in which a thread exits right after it has allocated a node.
    #[cfg(test)]
    pub(in crate::nonblocking) fn leak_node(&self) {
        self.values.allocate().or_panic().into_raw();
    }

    /// Returns the number of nodes that are allocated.
    pub fn nodes(&self) -> usize {
        self.values.allocated().count()
    }
}

impl<K: Plain, V: Send + Sync, S> RefHashMap<K, V, S> {
    /// Returns the number of entries if no thread changes the map meanwhile: see [`HashMap::len`].
    pub fn len(&self) -> usize {
        self.map.len()
    }

    /// Returns whether [`len`](RefHashMap::len) is 0, which it may also be if other threads insert
    /// and remove entries meanwhile.
    pub fn is_empty(&self) -> bool {
        self.map.is_empty()
    }

    /// Returns the node at an address that the map has held.
    #[inline(always)]
    pub(super) fn node(&self, address: u64) -> &Node<V> {
        // SAFETY: the map holds addresses of nodes of this pool, which were exposed when they were
        // allocated. They remain nodes, free or not, as long as the pool lives.
        unsafe { &*with_exposed_provenance::<Node<V>>(address as usize) }
    }

    /// Claims a node before a guard of it is acquired: see [`audit`](RefHashMap::audit).
    #[inline(always)]
    pub(super) fn claim(&self, node: &Node<V>) {
        // SAFETY: every node is one of this pool.
        unsafe { self.values.claim(node) };
    }

    /// Claims the node at an address, whose guard passes from the map to the caller.
    #[inline(always)]
    fn claim_at(&self, found: Option<u64>) {
        if let Some(address) = found {
            self.claim(self.node(address));
        }
    }

    /// Returns a guard that is counted already.
    #[inline(always)]
    pub(super) fn guard<'a>(&'a self, node: &'a Node<V>) -> HashMapRef<'a, V> {
        let values = &self.values;
        HashMapRef { values, node }
    }
}

impl<V> Node<V> {
    /// Counts another guard of the allocation in `word`. Returns `false` if there is none of it any
    /// more.
    #[inline(always)]
    #[track_caller]
    fn acquire(&self, mut word: u64) -> bool {
        loop {
            if word & GUARDS == 0 {
                return false;
            }
            assert!(
                word & GUARDS < GUARDS,
                "the value has 1,048,575 guards: drop some before more are acquired"
            );
            // Release: publishes the caller's claim; pairs with the acquire in `audit`. Relaxed at
            // a failure: the caller has acquired the value with the word, or with its own guard.
            let (counted, another) = (Ordering::Release, Ordering::Relaxed);
            match (self.word).compare_exchange(word, word + 1, counted, another) {
                Ok(_) => return true,
                Err(seen) if (seen ^ word) & !(GUARDS | MAPPED) == 0 => word = seen,
                Err(_) => return false,
            }
        }
    }
}

impl<K: Plain, V: Send + Sync, S> Drop for RefHashMap<K, V, S> {
    /// Drops all values, also those of guards that were leaked.
    fn drop(&mut self) {
        if !needs_drop::<V>() {
            return;
        }
        let mut allocated = self.values.allocated();
        drops::each(|| {
            let Some(node) = allocated.next() else {
                return false;
            };
            let node = node.descriptor();
            // Relaxed: the map is owned exclusively.
            let word = node.word.load(Ordering::Relaxed);
            // A thread that exited in between may have left a node without a guard.
            if word & GUARDS != 0 {
                node.word.store(word & !GUARDS, Ordering::Relaxed);
                // SAFETY: the value is initialized while there are guards. No thread has one: they
                // borrow the map, which is owned exclusively. Each node comes once.
                drop(unsafe { (*node.value.get()).assume_init_read() });
            }
            true
        });
    }
}

/// A guard of a value that is, or was, in a [`RefHashMap`]. The value stays alive as long as the
/// guard.
///
/// Dropping it costs one atomic instruction.
pub struct HashMapRef<'a, V: Send + Sync> {
    values: &'a Pool<Node<V>>,
    node: &'a Node<V>,
}

impl<'a, V: Send + Sync> HashMapRef<'a, V> {
    /// Allocates a node for a value, and returns the only guard of it.
    fn new(values: &'a Pool<Node<V>>, value: V) -> Result<HashMapRef<'a, V>, NotInserted<V>> {
        let node = match values.allocate() {
            Ok(node) => node,
            Err(error) => {
                let reason = Refused::Memory(error);
                return Err(NotInserted { value, reason });
            }
        };
        let node = node.into_raw();
        // SAFETY: only this call owns the node. A thread that still has its address accesses the
        // word only.
        unsafe { (*node.value.get()).write(value) };
        // Relaxed: only the owner changes a word without guards.
        let last = node.word.load(Ordering::Relaxed) & !GUARDS;
        // Release: pairs with the acquire of the word in `get`.
        let word = last.wrapping_add(GUARDS + 1) & !MAPPED | 1;
        node.word.store(word, Ordering::Release);
        Ok(HashMapRef { values, node })
    }

    /// Returns the value that was not inserted.
    fn refused(self, reason: Refused) -> NotInserted<V> {
        match self.into_inner() {
            Ok(value) => NotInserted { value, reason },
            Err(_) => unreachable!("no other thread has the address"),
        }
    }

    /// Returns the value itself.
    ///
    /// # Errors
    ///
    /// The guard, if the value is in the map or has another guard.
    pub fn into_inner(self) -> Result<V, HashMapRef<'a, V>> {
        // Relaxed, and at a failure: the exchange decides.
        let word = self.node.word.load(Ordering::Relaxed);
        // Acquire: pairs with the release of the guards that were dropped before. Release: pairs
        // with the acquire of the word in `get`. If this thread has taken the address out of the
        // map, a reader that loads a word without guards also sees the bucket changed.
        let (last, another) = (Ordering::AcqRel, Ordering::Relaxed);
        let is_last = word & GUARDS == 1
            && (self.node.word)
                .compare_exchange(word, word - 1, last, another)
                .is_ok();
        if !is_last {
            return Err(self);
        }
        let this = ManuallyDrop::new(self);
        // SAFETY: this call alone has just taken the number of guards to zero.
        Ok(unsafe { this.end() })
    }

    /// Takes the value out of the node and frees the node.
    ///
    /// # Safety
    ///
    /// The caller alone has taken the number of guards to zero, and does not use `self` again.
    pub(super) unsafe fn end(&self) -> V {
        // SAFETY: the value was written before the guards were counted. None is left, and no thread
        // can acquire one.
        let value = unsafe { (*self.node.value.get()).assume_init_read() };
        // SAFETY: `new` has left the node allocated, and the caller alone owns it. This comes
        // before the value is dropped, because that may panic.
        drop(unsafe { self.values.adopt(self.node) });
        value
    }
}

impl<V: Send + Sync> Deref for HashMapRef<'_, V> {
    type Target = V;

    #[inline]
    fn deref(&self) -> &V {
        // SAFETY: the value was written before the guards were counted, and stays initialized as
        // long as this one counts.
        unsafe { (*self.node.value.get()).assume_init_ref() }
    }
}

impl<V: Send + Sync> Clone for HashMapRef<'_, V> {
    /// Returns another guard of the same value.
    ///
    /// # Panics
    ///
    /// As for [`get`](RefHashMap::get).
    #[track_caller]
    fn clone(&self) -> Self {
        // SAFETY: the node is one of this pool.
        unsafe { self.values.claim(self.node) };
        // Relaxed: the exchange checks it. This guard keeps the allocation the same.
        let is_counted = self.node.acquire(self.node.word.load(Ordering::Relaxed));
        debug_assert!(is_counted, "this guard counts");
        HashMapRef { ..*self }
    }
}

impl<V: Send + Sync> Drop for HashMapRef<'_, V> {
    #[inline]
    fn drop(&mut self) {
        // Release: orders this guard's accesses to the value before its end; pairs with the acquire
        // below, and with the acquire in `into_inner` and of the word in `get`.
        if self.node.word.fetch_sub(1, Ordering::Release) & GUARDS == 1 {
            // Acquire: pairs with the release of the other guards. A load and not a fence, because
            // ThreadSanitizer knows no fences, and would report each value that is dropped here.
            self.node.word.load(Ordering::Acquire);
            // SAFETY: this call alone has just taken the number of guards to zero.
            drop(unsafe { self.end() });
        }
    }
}

impl<V: Send + Sync + fmt::Debug> fmt::Debug for HashMapRef<'_, V> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        V::fmt(self, f)
    }
}

/// An iterator over the keys of a [`RefHashMap`] with guards of their values: see
/// [`RefHashMap::iter`].
pub struct RefHashMapIter<'a, K: Plain, V: Send + Sync, S> {
    map: &'a RefHashMap<K, V, S>,
    entries: HashMapIter<'a, K, u64, S>,
}

impl<'a, K: Plain + Eq + Hash, V: Send + Sync, S: BuildHasher> Iterator
    for RefHashMapIter<'a, K, V, S>
{
    type Item = (K, HashMapRef<'a, V>);

    fn next(&mut self) -> Option<(K, HashMapRef<'a, V>)> {
        // The copied address may be that of a value that has ended since.
        (self.entries).find_map(|(key, _)| Some((key, self.map.get(&key)?)))
    }
}

impl<K: Plain + Eq + Hash, V: Send + Sync, S: BuildHasher> FusedIterator
    for RefHashMapIter<'_, K, V, S>
{
}

impl<K: Plain, V: Send + Sync, S> fmt::Debug for RefHashMapIter<'_, K, V, S> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("RefHashMapIter").finish_non_exhaustive()
    }
}

impl<'a, K: Plain + Eq + Hash, V: Send + Sync, S: BuildHasher> IntoIterator
    for &'a RefHashMap<K, V, S>
{
    type Item = (K, HashMapRef<'a, V>);
    type IntoIter = RefHashMapIter<'a, K, V, S>;

    fn into_iter(self) -> RefHashMapIter<'a, K, V, S> {
        self.iter()
    }
}

impl<K: Plain + Eq + Hash, V: Send + Sync, S: BuildHasher + Default> Default
    for RefHashMap<K, V, S>
{
    fn default() -> Self {
        RefHashMap::with_hasher(S::default())
    }
}

impl<K, V, S> fmt::Debug for RefHashMap<K, V, S>
where
    K: Plain + Eq + Hash + fmt::Debug,
    V: Send + Sync + fmt::Debug,
    S: BuildHasher,
{
    /// Shows the entries, as [`iter`](RefHashMap::iter) returns them.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_map().entries(self).finish()
    }
}
