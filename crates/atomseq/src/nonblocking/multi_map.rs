//! A map from keys to sets of values: a hash table with a list in each bucket (GC96, section 5.2).
//!
//! ```text
//! insert    begin; search the pair;  { head = node, node.next = what head held }   if the version is unchanged
//! remove    begin; search the pair;  { link = node.next }                          if the version is unchanged
//! get       begin; walk the bucket;  the version is unchanged
//! ```
//!
//! The Cache Kernel's dependency map has a fixed number of buckets, and so has this: no operation
//! moves an entry. Each bucket is a `Chain` with a version of its own, and all of them take their
//! nodes from one pool. The invariants are those of `list`.

use std::fmt;
use std::hash::{BuildHasher, Hash, RandomState};
use std::time::Duration;

use super::nodes::{self, Chain, Changed, Position, address, until_unchanged};
use super::plain::{Plain, Words};
use crate::dcas::{Mechanism, StableWord, Version, VersionedWords};
use crate::or_panic::OrPanic;
use crate::type_stable::{Audit, Descriptor, Error};

/// A node.
#[repr(C)]
struct Node<K, V> {
    next: StableWord,
    key: Words<K>,
    value: Words<V>,
}

// SAFETY: all zeros is a valid instance, and may appear at any time: every field is read as atomic
// words, and has no destructor.
unsafe impl<K: Plain, V: Plain> Descriptor for Node<K, V> {}

impl<K: Plain, V: Plain> nodes::Node for Node<K, V> {
    #[inline(always)]
    fn next(&self) -> &StableWord {
        &self.next
    }
}

type Bucket<K, V> = Chain<Node<K, V>>;

/// A map from each key to a set of values, which all threads and their signal handlers may read and
/// change at the same time.
///
/// It is GC96's *dependency map*: a kernel keeps the records that depend on an object under that
/// object's key, of several kinds if the value says which. For example, a physical page has a
/// record for each virtual page that is mapped to it, and one for each thread that is signalled
/// when it changes. Each pair of a key and a value occurs once. Keys and values are [`Plain`]: they
/// are copied in and out, word by word.
///
/// The scope is `Machine`. Progress is that of the [mechanism](super#progress), in each bucket: an
/// operation is retried if another one has changed the same bucket meanwhile. The number of buckets
/// is fixed. An operation on a key takes time in proportion to the entries of its bucket, so choose
/// about as many buckets as there will be keys. A search costs no atomic instruction. A change also
/// costs one change of two words: one atomic instruction under OS-assisted DCAS, at most six under
/// k-CAS. Memory: one node for each entry, reused at once; it does not wait for readers. A bucket
/// takes two words and an allocation of 128 bytes. All of it is returned when the map is dropped.
///
/// The default hasher is std's [`RandomState`]; it may be used in a signal handler, as long as the
/// map was created outside. `hash`, `eq` and closures run while the operation holds nothing, so if
/// one panics, the operation panics and has changed nothing more. `eq` may get bit patterns that no
/// thread stored ([`Plain`]); closures do not. A closure that changes the bucket of its own entry
/// on each call is called indefinitely.
///
/// Every operation may be called in a signal handler that interrupted any other one, except those
/// that return a `Vec` or panic.
///
/// ```
/// use atomseq::nonblocking::MultiMap;
///
/// // Which pages of which address spaces are mapped to a physical page.
/// let mappings = MultiMap::<u64, [u32; 2]>::with_buckets(256);
/// assert!(mappings.insert(7, [1, 0x400])?);
/// assert!(mappings.insert(7, [2, 0x800])?);
/// assert!(!mappings.insert(7, [2, 0x800])?);
/// assert_eq!(mappings.fold(&7, 0, |count, _| count + 1), 2);
///
/// // Address space 1 is unloaded, and then the physical page.
/// mappings.retain(|_, [space, _]| space != 1);
/// assert_eq!(mappings.pop(&7), Some([2, 0x800]));
/// assert_eq!(mappings.pop(&7), None);
/// # Ok::<(), atomseq::type_stable::Error>(())
/// ```
///
/// Values that are not [`Plain`] do not compile:
///
/// ```compile_fail,E0277
/// atomseq::nonblocking::MultiMap::<u64, String>::with_buckets(1);
/// ```
pub struct MultiMap<K: Plain, V: Plain, S = RandomState> {
    hasher: S,
    buckets: Box<[Bucket<K, V>]>,
}

impl<K: Plain + Eq + Hash, V: Plain + Eq> MultiMap<K, V> {
    /// Creates an empty map with this number of buckets, std's random hasher, and no limit.
    ///
    /// # Panics
    ///
    /// If the number is 0, there is no memory, or a key and a value are too large for a page of
    /// nodes.
    #[track_caller]
    pub fn with_buckets(buckets: usize) -> MultiMap<K, V> {
        let versioned = VersionedWords::new();
        MultiMap::made(buckets, versioned, None, RandomState::new()).or_panic()
    }

    /// Creates a map that uses this mechanism whatever the process has chosen, for tests and
    /// comparisons.
    #[cfg(any(test, feature = "unstable-internals"))]
    pub fn forced(buckets: usize, mechanism: Mechanism) -> MultiMap<K, V> {
        let versioned = VersionedWords::with_mechanism(mechanism);
        MultiMap::made(buckets, versioned, None, RandomState::new()).or_panic()
    }
}

impl<K: Plain + Eq + Hash, V: Plain + Eq, S: BuildHasher> MultiMap<K, V, S> {
    /// Creates an empty map with this number of buckets and this hasher, of up to `entries`
    /// entries, including those that are being inserted: see
    /// [`Options::limit`](crate::type_stable::Options::limit).
    ///
    /// # Errors
    ///
    /// [`Error::Zero`], [`Error::TooLarge`], [`Error::OutOfMemory`], [`Error::StartingUp`].
    pub fn try_with_limit_and_hasher(
        buckets: usize,
        entries: usize,
        hasher: S,
    ) -> Result<MultiMap<K, V, S>, Error> {
        MultiMap::made(buckets, VersionedWords::new(), Some(entries), hasher)
    }

    pub(super) fn made(
        count: usize,
        versioned: VersionedWords,
        limit: Option<usize>,
        hasher: S,
    ) -> Result<MultiMap<K, V, S>, Error> {
        if count == 0 {
            return Err(Error::Zero);
        }
        let mut buckets = Vec::new();
        buckets
            .try_reserve_exact(count)
            .map_err(|_| Error::OutOfMemory)?;
        let first = Chain::new(versioned, limit)?;
        for _ in 1..count {
            buckets.push(first.sibling()?);
        }
        buckets.push(first);
        let buckets = buckets.into_boxed_slice();
        Ok(MultiMap { hasher, buckets })
    }

    /// Returns the bucket of a key.
    #[inline]
    fn bucket(&self, key: &K) -> &Bucket<K, V> {
        // The upper bits then depend on all bits of the hash, however good it is.
        let hash = self.hasher.hash_one(key);
        let hash = hash.wrapping_mul(0x9e37_79b9_7f4a_7c15);
        let hash = (hash ^ hash >> 32).wrapping_mul(0x9e37_79b9_7f4a_7c15);
        let scaled = u128::from(hash) * self.buckets.len() as u128;
        &self.buckets[(scaled >> 64) as usize]
    }

    /// Inserts a value for a key. Returns `false` if the key has this value already.
    ///
    /// Takes a search of the bucket, and one atomic instruction under OS-assisted DCAS.
    ///
    /// # Errors
    ///
    /// [`Error::LimitReached`], [`Error::OutOfMemory`]. Nothing was changed.
    pub fn insert(&self, key: K, value: V) -> Result<bool, Error> {
        self.insert_from(key, value, VersionedWords::begin)
    }

    /// Does the same, with `gap` between each read of the version and the change. `gap` may return
    /// an earlier version, at which the change fails.
    #[cfg(any(test, feature = "unstable-internals"))]
    pub fn insert_between(
        &self,
        key: K,
        value: V,
        gap: impl FnMut(Version) -> Version,
    ) -> Result<bool, Error> {
        self.insert_from(key, value, nodes::begin_with(gap))
    }

    fn insert_from(
        &self,
        key: K,
        value: V,
        mut begin: impl FnMut(&VersionedWords) -> Version,
    ) -> Result<bool, Error> {
        let bucket = self.bucket(&key);
        // Allocated only when there is something to link, and kept for the next attempt.
        let mut new = None;
        let inserted = until_unchanged(|| {
            let version = begin(&bucket.versioned);
            let is_there = place(bucket, version, &key, |found| found == value)?
                .node
                .is_some();
            if is_there {
                return bucket.check(version).map(|()| Ok(false));
            }
            if new.is_none() {
                match bucket.allocate() {
                    Err(error) => return bucket.check(version).map(|()| Err(error)),
                    Ok(node) => {
                        node.key.store(key);
                        node.value.store(value);
                        new = Some(node);
                    }
                }
            }
            if let Some(new) = &new {
                let first = bucket.load(bucket.head());
                let head = (bucket.head(), address::<Node<K, V>>(new));
                bucket.exchange(version, head, (&new.next, first))?;
            }
            Ok(Ok(true))
        });
        if inserted == Ok(true) {
            // The list owns it.
            new.map(|node| node.into_raw());
        }
        inserted
    }

    /// Removes a value of a key. Returns `false` if the key does not have this value.
    ///
    /// Takes a search of the bucket, and one atomic instruction under OS-assisted DCAS.
    pub fn remove(&self, key: &K, value: &V) -> bool {
        let wanted = |found| found == *value;
        self.take(key, wanted, VersionedWords::begin).is_some()
    }

    /// Does the same, with `gap` as in [`insert_between`](MultiMap::insert_between).
    #[cfg(any(test, feature = "unstable-internals"))]
    pub fn remove_between(&self, key: &K, value: &V, gap: impl FnMut(Version) -> Version) -> bool {
        let wanted = |found| found == *value;
        self.take(key, wanted, nodes::begin_with(gap)).is_some()
    }

    /// Removes the value of a key that was inserted last, and returns it. `None` if the key has no
    /// value.
    ///
    /// Takes a search of the bucket, and one atomic instruction under OS-assisted DCAS.
    pub fn pop(&self, key: &K) -> Option<V> {
        self.take(key, |_| true, VersionedWords::begin)
    }

    fn take(
        &self,
        key: &K,
        mut wanted: impl FnMut(V) -> bool,
        mut begin: impl FnMut(&VersionedWords) -> Version,
    ) -> Option<V> {
        let bucket = self.bucket(key);
        until_unchanged(|| {
            let version = begin(&bucket.versioned);
            let place = place(bucket, version, key, &mut wanted)?;
            match place.node {
                None => bucket.check(version).map(|()| None),
                Some(node) => unlink(bucket, version, place.link, node).map(Some),
            }
        })
    }

    /// Returns whether a key has this value. No atomic instruction.
    pub fn contains(&self, key: &K, value: &V) -> bool {
        let bucket = self.bucket(key);
        until_unchanged(|| {
            let version = bucket.versioned.begin();
            let found = place(bucket, version, key, |found| found == *value)?.node;
            bucket.check(version).map(|()| found.is_some())
        })
    }

    /// Folds all values of a key as of one time, the newest first. If the bucket changes meanwhile,
    /// this retries from `init`. Allocates nothing, and costs no atomic instruction.
    pub fn fold<B: Clone>(&self, key: &K, init: B, mut fold: impl FnMut(B, V) -> B) -> B {
        let bucket = self.bucket(key);
        until_unchanged(|| {
            let mut folded = Some(init.clone());
            walk(bucket, bucket.versioned.begin(), |found, value| {
                if found == *key {
                    folded = folded.take().map(|before| fold(before, value));
                }
            })?;
            Ok(folded.expect("what each value left"))
        })
    }

    /// Removes all entries for which `keep` returns `false`.
    ///
    /// Visits the buckets one after the other. An entry that is inserted meanwhile may or may not
    /// be visited. If another thread, or `keep`, changes a bucket meanwhile, its entries are seen
    /// again; under OS-assisted DCAS also if a removal is interrupted and rolled back. A `keep`
    /// that inserts again what this removes is called indefinitely.
    pub fn retain(&self, mut keep: impl FnMut(K, V) -> bool) {
        for bucket in &self.buckets {
            // The last attempt goes from the head to the end.
            until_unchanged(|| {
                let mut version = bucket.versioned.begin();
                let mut link = bucket.head();
                while let Some(node) = bucket.node(bucket.load(link)) {
                    let (key, value) = (node.key.load(), node.value.load());
                    // Without this check, `keep` could get an entry that no thread stored.
                    bucket.check(version)?;
                    if keep(key, value) {
                        link = &node.next;
                        continue;
                    }
                    unlink(bucket, version, link, node)?;
                    let before = version;
                    version = bucket.versioned.begin();
                    // If this was the only change since, the link is still in the bucket.
                    if version.number() != before.number() + 1 {
                        return Err(Changed::Seen);
                    }
                }
                bucket.check(version)
            });
        }
    }

    /// Returns a copy of all entries, those of each bucket as of one time.
    pub fn snapshot(&self) -> Vec<(K, V)> {
        let mut entries = Vec::new();
        for bucket in &self.buckets {
            let before = entries.len();
            until_unchanged(|| {
                entries.truncate(before);
                let version = bucket.versioned.begin();
                walk(bucket, version, |key, value| entries.push((key, value)))
            });
        }
        entries
    }
}

impl<K: Plain, V: Plain, S> MultiMap<K, V, S> {
    /// Returns the number of entries, by counting those of each bucket as of one time.
    pub fn len(&self) -> usize {
        self.buckets.iter().map(Chain::count).sum()
    }

    /// Returns whether each bucket was empty at some time during the call.
    pub fn is_empty(&self) -> bool {
        let mut buckets = self.buckets.iter();
        buckets.all(|bucket| bucket.versioned.snapshot([bucket.head()]).0 == [0])
    }

    /// Returns the number of buckets.
    pub fn buckets(&self) -> usize {
        self.buckets.len()
    }

    /// Returns the maximum number of entries.
    pub fn limit(&self) -> usize {
        self.buckets[0].limit()
    }

    /// Returns the mechanism that this map uses.
    pub fn mechanism(&self) -> Mechanism {
        self.buckets[0].versioned.mechanism()
    }

    /// Frees nodes that exited threads have left in no bucket: GC96's audit. Returns how many nodes
    /// are allocated, and how many of them were freed.
    ///
    /// A thread that exits inside [`insert`](MultiMap::insert), or inside an operation that removes
    /// an entry, may leave one node. It is freed by the second audit that finds it in no bucket, if
    /// `time` has passed since the first one. Takes time in proportion to the nodes, and costs up
    /// to three atomic instructions for each. Retried while a bucket changes, so it may starve.
    /// `time` is rounded up to milliseconds, and is one at least.
    ///
    /// # Safety
    ///
    /// Until this returns, no thread that continues has been inside one operation on this map for
    /// longer than `time`, even if it was stopped there. Another audit is such an operation, and
    /// operations of handlers count as part of the interrupted one. Otherwise it might use a node
    /// that this has freed.
    pub unsafe fn audit(&self, time: Duration) -> Audit {
        // SAFETY: the caller's promise.
        unsafe { self.audit_from(time, || ()) }
    }

    /// Does the same, and calls `gap` after the walk through the buckets.
    ///
    /// # Safety
    ///
    /// As for [`audit`](MultiMap::audit).
    #[inline]
    pub(super) unsafe fn audit_from(&self, time: Duration, gap: impl FnOnce()) -> Audit {
        let claim_all = || {
            self.claim_all();
            gap();
        };
        // SAFETY: a node that is found was in no bucket that `claim_all` has walked through, and
        // was claimed by no thread since an audit more than `time` before this one started. Each
        // thread that unlinks a node claims it before. So when this one started, a thread that
        // owned the node was inside the same operation for longer than `time`. The caller promises
        // that it does not continue then, so it does not link the node either.
        unsafe { self.buckets[0].audit(time, claim_all, |_| ()) }
    }

    /// Claims all nodes that are in a bucket.
    pub(super) fn claim_all(&self) {
        self.buckets.iter().for_each(Chain::claim_all);
    }
}

/// Returns where the first entry of the key is whose value is wanted, or the end of the bucket.
#[inline]
fn place<'a, K: Plain + Eq, V: Plain>(
    bucket: &'a Bucket<K, V>,
    version: Version,
    key: &K,
    mut wanted: impl FnMut(V) -> bool,
) -> Result<Position<'a, Node<K, V>>, Changed> {
    bucket.seek(version, bucket.head(), |node| {
        node.key.load() == *key && wanted(node.value.load())
    })
}

/// Calls `each` with every entry of a bucket. Each was valid at the version when it was passed to
/// `each`; all of them together are if this returns `Ok`.
fn walk<K: Plain, V: Plain>(
    bucket: &Bucket<K, V>,
    version: Version,
    mut each: impl FnMut(K, V),
) -> Result<(), Changed> {
    let mut link = bucket.head();
    while let Some(node) = bucket.node(bucket.load(link)) {
        let (key, value) = (node.key.load(), node.value.load());
        bucket.check(version)?;
        each(key, value);
        link = &node.next;
    }
    bucket.check(version)
}

/// Unlinks a node, frees it, and returns its value.
#[inline]
fn unlink<K: Plain, V: Plain>(
    bucket: &Bucket<K, V>,
    version: Version,
    link: &StableWord,
    node: &Node<K, V>,
) -> Result<V, Changed> {
    let (behind, value) = (bucket.load(&node.next), node.value.load());
    bucket.claim(node);
    bucket.compare_exchange(version, (link, behind))?;
    // SAFETY: this call alone has just unlinked the node, so it owns it.
    unsafe { bucket.free(node) };
    Ok(value)
}

impl<K, V, S> fmt::Debug for MultiMap<K, V, S>
where
    K: Plain + Eq + Hash + fmt::Debug,
    V: Plain + Eq + fmt::Debug,
    S: BuildHasher,
{
    /// Shows the entries, as [`snapshot`](MultiMap::snapshot) returns them.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_map().entries(self.snapshot()).finish()
    }
}
