//! The buckets, where they lie, and the operations on the bucket of one hash.
//!
//! ```text
//! get      route: the bucket that the hash belongs to, and its state
//!          compare the live entries, then the linked nodes; the state is unchanged
//! insert   route; the key is absent; reserve a free entry        1 compare-and-swap
//!          write the entry
//!          reserved -> live, version + 1                         1 compare-and-swap
//! remove   route; find the entry; live -> free, version + 1      1 compare-and-swap
//! replace  as insert; the same compare-and-swap frees the old entry
//! ```
//!
//! A bucket without a free entry links a node instead, by k-CAS of its state and the links.
//!
//! Invariants:
//!
//! 1. The entries that count, and the links, change only together with the version, and no version
//!    of a bucket recurs. So a search after which the state is unchanged has seen one state of the
//!    bucket, and a change that succeeds at that state finds it.
//! 2. An entry in place is written only by the thread that has reserved it. The reservation starts
//!    while the entry does not count. Only the owner ends it, so a thread that is stopped meanwhile
//!    withholds this one entry, and other threads use other entries or nodes.
//! 3. A node belongs to the thread that allocated it, until a change links it, and to the thread
//!    that unlinked it. So it is freed once.
//! 4. Of a bucket and its parent, the depth of the parent alone decides to which of them a hash
//!    belongs: see `resize.rs`.

use std::marker::PhantomData;
use std::ptr::{NonNull, null_mut, with_exposed_provenance};

use super::bucket::{Bucket, LIVE, MAX_DEPTH, Node, State, slots};
use super::iteration::in_bucket;
use crate::dcas::{Backoff, StableWord};
use crate::mappings;
use crate::nonblocking::nodes::{NO_ADDRESS, address};
use crate::nonblocking::plain::Plain;
use crate::percpu::Counter;
use crate::platform;
use crate::sync::{AtomicPtr, AtomicU64, AtomicUsize, Ordering};
use crate::type_stable::{Allocated, Error, Pool};

/// The number of buckets of an empty table. A power of two.
pub(super) const FEWEST: usize = 8;

/// The number of buckets of the first segment. Each later one doubles the number of buckets.
const FIRST: usize = 64;

const SEGMENTS: usize = MAX_DEPTH as usize - FIRST.trailing_zeros() as usize + 1;

/// After how many nodes a search checks the state: see [`nodes`](crate::nonblocking::nodes).
const STEPS: usize = 64;

/// A hash table that grows and shrinks by one bucket at a time.
pub(super) struct Table<K: Plain, V: Plain> {
    pub(super) buckets: Count,
    /// The number of buckets at first. The table does not shrink below it.
    pub(super) fewest: usize,
    /// A hint: the reversed hash at which a removal of some entry starts its search.
    pub(super) start: Start,
    /// The memory of the buckets. Segment 0 has those below FIRST; segment s above 0 has those
    /// whose index has its top bit at position s + 5.
    segments: [AtomicPtr<u8>; SEGMENTS],
    pub(super) nodes: Pool<Node<K, V>>,
    pub(super) entries: Counter,
    of: PhantomData<fn() -> (K, V)>,
}

/// A hint: the number of buckets. It changes rarely in comparison to what else is in a table.
#[repr(align(128))]
pub(super) struct Count(pub(super) AtomicUsize);

/// Beside no other field, because threads that remove entries change it.
#[repr(align(128))]
pub(super) struct Start(pub(super) AtomicU64);

/// An attempt has found the state changed, or no memory.
pub(super) struct Changed;

/// Where a key is.
#[derive(Clone, Copy)]
pub(super) enum Place<'a, K: Plain, V: Plain> {
    Nowhere,
    /// In place.
    Slot(usize),
    /// In a node, behind this link.
    Node(&'a StableWord, &'a Node<K, V>),
}

/// What a search found, at one state of a bucket.
pub(super) struct Found<'a, K: Plain, V: Plain> {
    hash: u64,
    bucket: Bucket<'a, K, V>,
    state: State,
    place: Place<'a, K, V>,
    pub(super) value: Option<V>,
}

impl<K: Plain, V: Plain> Found<'_, K, V> {
    /// Returns whether the bucket has not changed since.
    #[inline(always)]
    pub(super) fn is_still(&self) -> bool {
        self.bucket.is_still(self.state)
    }
}

/// What to do with the entry of a key.
pub(super) enum Change<V> {
    Keep,
    Remove,
    Put(V),
}

impl<K: Plain, V: Plain> Table<K, V> {
    /// Creates a table of that many buckets, a power of two.
    pub(super) fn new(buckets: usize) -> Result<Table<K, V>, Error> {
        let table = Table {
            buckets: Count(AtomicUsize::new(buckets)),
            fewest: buckets,
            start: Start(AtomicU64::new(0)),
            segments: [const { AtomicPtr::new(null_mut()) }; SEGMENTS],
            nodes: Pool::options().try_build()?,
            entries: Counter::new(),
            of: PhantomData,
        };
        let depth = buckets.ilog2();
        if depth > MAX_DEPTH {
            return Err(Error::TooLarge);
        }
        // If the counter gets no memory now, it counts in a shared word and asks again.
        _ = table.entries.prepare();
        // The largest segment comes first: the system refuses it before the others take up memory.
        for index in (0..buckets).rev() {
            let bucket = table.at_or_map(index).ok_or(Error::OutOfMemory)?;
            bucket.compare_exchange(State(0), State::live_at(depth));
        }
        Ok(table)
    }

    /// Returns the number of entries. Each change is counted right after it is made.
    pub(super) fn len(&self) -> usize {
        // Another thread may have counted a removal whose insertion is not counted yet.
        (self.entries.sum() as i64).max(0) as usize
    }

    /// Returns the segment of a bucket, and the index of the first bucket in it.
    #[inline(always)]
    fn segment_of(index: usize) -> (usize, usize) {
        let segment = (index | (FIRST - 1)).ilog2() - (FIRST.ilog2() - 1);
        // 0 in the first segment.
        let start = ((FIRST / 2) << segment) & !(FIRST - 1);
        (segment as usize, start)
    }

    fn bytes_of(segment: usize) -> Option<usize> {
        let buckets = FIRST << segment.saturating_sub(1);
        buckets.checked_mul(Bucket::<K, V>::STRIDE)
    }

    /// Returns the memory of a bucket, or `None` if its segment is not mapped.
    #[inline(always)]
    pub(super) fn at(&self, index: usize) -> Option<Bucket<'_, K, V>> {
        let (segment, start) = Self::segment_of(index);
        // Acquire: pairs with the release that published the segment.
        let base = NonNull::new(self.segments.get(segment)?.load(Ordering::Acquire))?;
        // SAFETY: the segment has room for the bucket, and is unmapped only when the table is
        // dropped. It was zero at first, and is used as buckets of these types only.
        Some(unsafe { Bucket::new(base.add((index - start) * Bucket::<K, V>::STRIDE)) })
    }

    /// Does the same, and maps the segment if it is not. `None` if there is no memory for it.
    pub(super) fn at_or_map(&self, index: usize) -> Option<Bucket<'_, K, V>> {
        if let Some(bucket) = self.at(index) {
            return Some(bucket);
        }
        let segment = Self::segment_of(index).0;
        let place = self.segments.get(segment)?;
        let bytes = Self::bytes_of(segment)?;
        let mapped = mappings::map(bytes)?;
        // Release: pairs with the acquire in `at`.
        let (published, by_another) = (Ordering::Release, Ordering::Relaxed);
        let new = mapped.as_ptr();
        if place
            .compare_exchange(null_mut(), new, published, by_another)
            .is_err()
        {
            // SAFETY: mapped above with this size, and no other thread knows it.
            unsafe { mappings::unmap(mapped, bytes) };
        }
        self.at(index)
    }

    /// Returns the index of the bucket that a hash belongs to if the count of buckets is right.
    #[inline(always)]
    fn likely_index(&self, hash: u64) -> usize {
        // Acquire: pairs with the release of the thread that increased it, so the segments of all
        // buckets below are seen mapped.
        let count = self.buckets.0.load(Ordering::Acquire);
        let mask = usize::MAX >> (count - 1).leading_zeros();
        let index = hash as usize & mask;
        match index >= count {
            true => index & mask >> 1,
            false => index,
        }
    }

    /// Prefetches the bucket that a hash belongs to, in most cases.
    #[inline]
    pub(super) fn prefetch(&self, hash: u64) {
        if let Some(bucket) = self.at(self.likely_index(hash)) {
            platform::prefetch(std::ptr::from_ref(bucket.word()).addr());
        }
    }

    /// Returns the bucket that a hash belongs to, with its index and its state, in which it is
    /// LIVE.
    #[inline(always)]
    pub(super) fn route(&self, hash: u64) -> (usize, Bucket<'_, K, V>, State) {
        let index = self.likely_index(hash);
        if let Some(bucket) = self.at(index) {
            let state = bucket.state();
            if state.phase() == LIVE && index_at(hash, state.depth()) == index {
                return (index, bucket, state);
            }
        }
        self.route_from(hash, index)
    }

    /// Does the same, after the hint in `buckets` led to another bucket.
    #[cold]
    #[inline(never)]
    fn route_from(&self, hash: u64, mut index: usize) -> (usize, Bucket<'_, K, V>, State) {
        loop {
            let live = self.at(index).and_then(|bucket| {
                let state = self.live_state(index, bucket)?;
                Some((index, bucket, state))
            });
            match live {
                Some((_, _, state)) => {
                    let own = index_at(hash, state.depth());
                    match (own == index, live) {
                        (true, Some(live)) => return live,
                        _ => index = own,
                    }
                }
                None => index = parent_of(index),
            }
        }
    }

    /// Finds the entry of a key.
    #[inline(always)]
    pub(super) fn find(&self, hash: u64, key: &K) -> Found<'_, K, V>
    where
        K: Eq,
    {
        loop {
            let (_, bucket, state) = self.route(hash);
            if let Ok((place, value)) = self.search(bucket, state, hash, key) {
                return Found {
                    hash,
                    bucket,
                    state,
                    place,
                    value,
                };
            }
        }
    }

    /// Returns the value of a key.
    #[inline(always)]
    pub(super) fn get(&self, hash: u64, key: &K) -> Option<V>
    where
        K: Eq,
    {
        self.find(hash, key).value
    }

    #[inline(always)]
    fn search<'a>(
        &'a self,
        bucket: Bucket<'a, K, V>,
        state: State,
        hash: u64,
        key: &K,
    ) -> Result<(Place<'a, K, V>, Option<V>), Changed>
    where
        K: Eq,
    {
        let mut found = (Place::Nowhere, None);
        if let Some(slot) = Self::slot_of(bucket, state, key) {
            found = (Place::Slot(slot), Some(bucket.entry(slot).value.load()));
        }
        if found.1.is_none() && bucket.word().load(bucket.link()) != 0 {
            found = self.search_nodes(bucket, state, hash, key)?;
        }
        match bucket.is_still(state) {
            true => Ok(found),
            false => Err(Changed),
        }
    }

    /// Returns the live entry that holds a key.
    #[inline(always)]
    fn slot_of(bucket: Bucket<'_, K, V>, state: State, key: &K) -> Option<usize>
    where
        K: Eq,
    {
        let is_at = |slot: usize| bucket.entry(slot).key.load() == *key;
        if size_of::<K>() > 16 {
            return slots(state.live()).find(|slot| is_at(*slot));
        }
        // Compares all of them: which one it is cannot be predicted.
        let mut equal = 0;
        for slot in 0..Bucket::<K, V>::SLOTS {
            equal |= u64::from(is_at(slot)) << slot;
        }
        equal &= state.live();
        (equal != 0).then_some(equal.trailing_zeros() as usize)
    }

    #[inline(never)]
    fn search_nodes<'a>(
        &'a self,
        bucket: Bucket<'a, K, V>,
        state: State,
        hash: u64,
        key: &K,
    ) -> Result<(Place<'a, K, V>, Option<V>), Changed>
    where
        K: Eq,
    {
        let mut found = (Place::Nowhere, None);
        self.each_node(bucket, state, |link, node| {
            // A foreign node has another hash: see `resize.rs`.
            let is_it = node.hash.load() == hash && node.entry.key.load() == *key;
            if is_it {
                found = (Place::Node(link, node), Some(node.entry.value.load()));
            }
            !is_it
        })?;
        Ok(found)
    }

    /// Calls `each` with every node of a bucket and the link that leads to it, until `each` returns
    /// `false`. What it has read counts if the state is unchanged afterwards.
    pub(super) fn each_node<'a>(
        &'a self,
        bucket: Bucket<'a, K, V>,
        state: State,
        mut each: impl FnMut(&'a StableWord, &'a Node<K, V>) -> bool,
    ) -> Result<(), Changed> {
        let mut link = bucket.link();
        loop {
            for _ in 0..STEPS {
                let Some(node) = self.node(bucket.word().load(link)) else {
                    return Ok(());
                };
                if !each(link, node) {
                    return Ok(());
                }
                link = &node.next;
            }
            if !bucket.is_still(state) {
                return Err(Changed);
            }
        }
    }

    /// Calls `each` with every entry of a bucket and its hash: that of a node as it was stored, and
    /// that of an entry in place as `hash` returns it. Each entry was valid at
    /// the state when it was passed to `each`; all of them together are if this returns `Ok` and
    /// the state is unchanged afterwards.
    pub(super) fn each_entry<'a>(
        &'a self,
        bucket: Bucket<'a, K, V>,
        state: State,
        hash: &impl Fn(&K) -> u64,
        mut each: impl FnMut(Place<'a, K, V>, u64, K, V) -> Result<(), Changed>,
    ) -> Result<(), Changed> {
        for slot in slots(state.live()) {
            let entry = bucket.entry(slot);
            let (key, value) = (entry.key.load(), entry.value.load());
            if !bucket.is_still(state) {
                return Err(Changed);
            }
            each(Place::Slot(slot), hash(&key), key, value)?;
        }
        let mut outcome = Ok(());
        self.each_node(bucket, state, |link, node| {
            let (key, value) = (node.entry.key.load(), node.entry.value.load());
            let hash = node.hash.load();
            outcome = match bucket.is_still(state) {
                true => each(Place::Node(link, node), hash, key, value),
                false => Err(Changed),
            };
            outcome.is_ok()
        })?;
        outcome
    }

    /// Returns the node at an address that a link has held, or `None` for 0.
    #[inline(always)]
    fn node(&self, address: u64) -> Option<&Node<K, V>> {
        if address <= NO_ADDRESS {
            return None;
        }
        // SAFETY: links hold addresses of nodes of this pool. They remain nodes, free or not, as
        // long as the pool lives.
        Some(unsafe { &*with_exposed_provenance::<Node<K, V>>(address as usize) })
    }

    /// Frees a node.
    ///
    /// # Safety
    ///
    /// No link leads to the node, and the caller alone owns it.
    pub(super) unsafe fn free(&self, node: &Node<K, V>) {
        // SAFETY: the node was allocated from this pool, and `into_raw` left it to a bucket. The
        // caller promises that it owns the node.
        drop(unsafe { self.nodes.adopt(node) });
    }

    /// Allocates a node for an entry.
    pub(super) fn node_of(
        &self,
        hash: u64,
        key: K,
        value: V,
    ) -> Result<Allocated<'_, Node<K, V>>, Error> {
        let node = self.nodes.allocate()?;
        node.hash.store(hash);
        node.entry.key.store(key);
        node.entry.value.store(value);
        Ok(node)
    }

    /// Changes the entry of a key as `decide` says, which gets the value as of the change. Returns
    /// this value. `decide` is called again if the bucket has changed since.
    ///
    /// # Errors
    ///
    /// There was no memory for a node. Nothing was changed.
    #[inline(always)]
    pub(super) fn alter(
        &self,
        hash: u64,
        key: &K,
        mut decide: impl FnMut(Option<V>) -> Change<V>,
    ) -> Result<Option<V>, Error>
    where
        K: Eq,
    {
        let mut backoff = Backoff::new();
        loop {
            let found = self.find(hash, key);
            let changed = match decide(found.value) {
                Change::Keep => return Ok(found.value),
                Change::Remove if found.value.is_none() => return Ok(None),
                Change::Remove => self.take_out(found.bucket, found.state, found.place),
                Change::Put(value) => self.put(&found, *key, value)?,
            };
            if changed {
                return Ok(found.value);
            }
            backoff.spin();
        }
    }

    /// Removes all entries of a bucket at once, and its foreign nodes.
    ///
    /// # Errors
    ///
    /// The bucket has changed, and nothing was removed.
    pub(super) fn clear(
        &self,
        index: usize,
        bucket: Bucket<'_, K, V>,
        state: State,
    ) -> Result<(), Changed> {
        let mut count = 0;
        self.each_entry(bucket, state, &in_bucket(index), |_, of_key, _, _| {
            count += u64::from(index_at(of_key, state.depth()) == index);
            Ok(())
        })?;
        let mut address = bucket.word().load(bucket.link());
        let emptied = |state: State| state.next().with_live(0);
        let is_emptied = match address {
            0 => bucket.change(state, emptied).is_some(),
            _ => self.exchange(bucket, state, emptied, || [(bucket.link(), 0)]),
        };
        if !is_emptied {
            return Err(Changed);
        }
        while let Some(node) = self.node(address) {
            address = bucket.word().load(&node.next);
            // SAFETY: this call has just unlinked all nodes of the bucket. At this state the link
            // led to the first one, and each to the next.
            unsafe { self.free(node) };
        }
        self.entries.add(u64::wrapping_neg(count));
        Ok(())
    }

    /// Returns whether an operation on this hash also looks whether the table must grow or shrink:
    /// one in 32 does, and each one while the table is small. The number of entries is spread over
    /// the CPUs, and looking at it takes their cache lines.
    ///
    /// The top bits of the hash itself would not do: keys at some equal distances have hashes that
    /// share these bits, for any number of keys. Mixed, they differ: of a million distances, none
    /// made 500 operations in a row look nowhere.
    #[inline(always)]
    pub(super) fn looks_after(&self, hash: u64) -> bool {
        let mixed = (hash ^ hash >> 32).wrapping_mul(0xd6e8_feb8_6659_fd93);
        // Relaxed: a hint.
        mixed >> 59 == 0 || self.buckets.0.load(Ordering::Relaxed) < 2 * FIRST
    }

    /// Removes an entry that was found at that state. Returns `false` if its bucket has changed
    /// since.
    #[inline(always)]
    pub(super) fn take_out(
        &self,
        bucket: Bucket<'_, K, V>,
        state: State,
        place: Place<'_, K, V>,
    ) -> bool {
        let is_out = match place {
            Place::Nowhere => true,
            Place::Slot(slot) => {
                let without = |state: State| state.next().with_live(state.live() & !(1 << slot));
                bucket.change(state, without).is_some()
            }
            Place::Node(link, node) => self.unlink(bucket, state, link, node),
        };
        if is_out {
            self.entries.add(u64::MAX);
        }
        is_out
    }

    /// Unlinks a node and frees it. Returns `false` if the bucket has changed since.
    #[inline(never)]
    pub(super) fn unlink(
        &self,
        bucket: Bucket<'_, K, V>,
        since: State,
        link: &StableWord,
        node: &Node<K, V>,
    ) -> bool {
        let is_unlinked = self.exchange(bucket, since, State::next, || {
            [(link, bucket.word().load(&node.next))]
        });
        if is_unlinked {
            // SAFETY: this call alone has just unlinked the node, so it owns it.
            unsafe { self.free(node) };
        }
        is_unlinked
    }

    /// Changes the state and stores to links, if only `reserved` has changed since. `words` are
    /// different words: links of this bucket, of its nodes at this state, and of a node that the
    /// caller alone owns. `change` returns the state at another version.
    pub(super) fn exchange<'a, const N: usize>(
        &self,
        bucket: Bucket<'_, K, V>,
        since: State,
        change: impl Fn(State) -> State,
        words: impl Fn() -> [(&'a StableWord, u64); N],
    ) -> bool {
        let mut seen = since;
        loop {
            let words = words();
            // SAFETY: `seen` comes from `begin`, and no version recurs. At this state the words
            // belong to this bucket alone, as this function's callers ensure. Buckets and nodes
            // stay mapped as long as the table lives, which each thread in an operation borrows.
            if unsafe { (bucket.word()).exchange(seen.0, change(seen).0, words) } {
                return true;
            }
            seen = bucket.state();
            if !seen.is_same(since) {
                return false;
            }
        }
    }

    /// Stores an entry in place of what was found. Returns `false` if the bucket has changed since.
    #[inline(always)]
    fn put(&self, found: &Found<'_, K, V>, key: K, value: V) -> Result<bool, Error> {
        let (bucket, state) = (found.bucket, found.state);
        let free = !(state.live() | state.reserved()) & Bucket::<K, V>::ALL;
        let is_put = match found.place {
            Place::Node(link, node) => self.put_node(found, Some((link, node)), key, value)?,
            _ if free == 0 => self.put_node(found, None, key, value)?,
            _ => {
                let slot = free.trailing_zeros() as usize;
                let bit = 1 << slot;
                if !bucket.reserve(state, bit) {
                    return Ok(false);
                }
                bucket.write(slot, key, value);
                let old = match found.place {
                    Place::Slot(slot) => 1 << slot,
                    _ => 0,
                };
                let with = |state: State| {
                    (state.next().with_live(state.live() & !old | bit))
                        .with_reserved(state.reserved() & !bit)
                };
                let reserved = state.with_reserved(state.reserved() | bit);
                let is_put = bucket.change(reserved, with).is_some();
                if !is_put {
                    bucket.release(bit);
                }
                is_put
            }
        };
        if is_put && found.value.is_none() {
            self.entries.increment();
        }
        Ok(is_put)
    }

    /// Reserves a free entry in the bucket of a hash, and leaves it so.
    #[cfg(any(test, feature = "unstable-internals"))]
    pub(super) fn abandon_insertion(&self, hash: u64) -> bool {
        let (_, bucket, state) = self.route(hash);
        let free = !(state.live() | state.reserved()) & Bucket::<K, V>::ALL;
        free != 0 && bucket.reserve(state, 1 << free.trailing_zeros())
    }

    /// Stores an entry in a node, in place of the one in `old`, or of one in place.
    #[inline(never)]
    fn put_node(
        &self,
        found: &Found<'_, K, V>,
        old: Option<(&StableWord, &Node<K, V>)>,
        key: K,
        value: V,
    ) -> Result<bool, Error> {
        let new = self.node_of(found.hash, key, value)?;
        let bucket = found.bucket;
        let (link, freed) = match found.place {
            Place::Slot(slot) => (bucket.link(), 1 << slot),
            _ => (old.map_or(bucket.link(), |(link, _)| link), 0),
        };
        let behind = old.map_or(link, |(_, node)| &node.next);
        let with = |state: State| state.next().with_live(state.live() & !freed);
        let words = || {
            let behind = bucket.word().load(behind);
            [(link, address(&*new)), (&new.next, behind)]
        };
        let is_put = self.exchange(bucket, found.state, with, words);
        if is_put {
            new.into_raw();
            if let Some((_, node)) = old {
                // SAFETY: this call alone has just unlinked the node, so it owns it.
                unsafe { self.free(node) };
            }
        }
        Ok(is_put)
    }
}

/// Returns the index of the bucket that a hash belongs to at a depth.
#[inline(always)]
pub(super) fn index_at(hash: u64, depth: u32) -> usize {
    (hash & !(u64::MAX << depth)) as usize
}

/// Returns the bucket that a bucket's hashes belong to before it is one.
pub(super) fn parent_of(index: usize) -> usize {
    match index {
        0 => 0,
        _ => index ^ 1 << index.ilog2(),
    }
}

impl<K: Plain, V: Plain> Drop for Table<K, V> {
    fn drop(&mut self) {
        // A k-CAS that an exited thread left unfinished stays so: only a thread that reads its
        // state completes it, and none does any more.
        for (segment, place) in self.segments.iter_mut().enumerate() {
            if let (Some(base), Some(bytes)) =
                (NonNull::new(*place.get_mut()), Self::bytes_of(segment))
            {
                // SAFETY: `at_or_map` mapped the segment with this size. The table is owned
                // exclusively, and buckets have no destructor.
                unsafe { mappings::unmap(base, bytes) };
            }
        }
    }
}
