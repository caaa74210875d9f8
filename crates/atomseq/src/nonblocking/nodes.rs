//! What the linked structures share: nodes in type-stable memory, linked by covered words, and the
//! traversal.
//!
//! ```text
//! versioned: version, mechanism       head ──> node ──> node ──> 0     a link holds the
//!                                              next     next           address of a node
//! ```
//!
//! A traversal starts at a version and follows links by plain loads. It is valid only if the
//! version is unchanged at the end (GC96, figure 2). Until then it may reach nodes that were freed,
//! and that belong to other lists by now or to none. Each of them is still a node, and each of its
//! links leads to a node, so every load is safe. But a path over reused nodes may be circular, so a
//! traversal also checks the version every `STEPS` nodes.

use std::ops::Deref;
use std::ptr::with_exposed_provenance;
use std::time::Duration;

use crate::dcas::{Mechanism, StableWord, Version, VersionedWords};
use crate::drops;
use crate::heap::{Shared, boxed};
use crate::sync::{AtomicU64, Ordering, spin_loop};
use crate::type_stable::{Allocated, Audit, Descriptor, Error, Pool};

/// After how many nodes a traversal checks the version.
pub(super) const STEPS: usize = 64;

/// The largest value that is no node's address: addresses are multiples of 64.
pub(super) const NO_ADDRESS: u64 = 63;

/// A node of a linked structure.
pub(super) trait Node: Descriptor {
    /// Returns the link to the next node.
    fn next(&self) -> &StableWord;
}

/// The version has changed, so the attempt must be repeated.
pub(super) enum Changed {
    /// A check found the change. The attempt has not backed off.
    Seen,
    /// A change failed, and the attempt has backed off from other threads.
    Forestalled,
}

/// Where a traversal has ended: the link that leads to a node, and the node, or `None` at the end
/// of the list.
pub(super) struct Position<'a, N> {
    pub(super) link: &'a StableWord,
    pub(super) node: Option<&'a N>,
}

/// A version number, with the head of the list that it covers. It keeps its address when the list
/// is moved.
pub(super) struct Anchor {
    pub(super) versioned: VersionedWords,
}

impl Anchor {
    pub(super) fn new(versioned: VersionedWords) -> Result<Box<Anchor>, Error> {
        boxed(Anchor { versioned }).ok_or(Error::OutOfMemory)
    }

    /// Returns the link to the first node. It lies beside the version, which is written together
    /// with it.
    #[inline(always)]
    pub(super) fn head(&self) -> &StableWord {
        self.versioned.attached()
    }
}

/// The memory of nodes, which several lists may share.
pub(super) struct Memory<N: Node> {
    pool: Pool<N>,
    mechanism: Mechanism,
}

/// A list of nodes.
pub(super) struct Chain<N: Node> {
    anchor: Box<Anchor>,
    memory: Shared<Memory<N>>,
}

impl<N: Node> Deref for Chain<N> {
    type Target = Anchor;

    #[inline(always)]
    fn deref(&self) -> &Anchor {
        &self.anchor
    }
}

impl<N: Node> Chain<N> {
    pub(super) fn new(versioned: VersionedWords, limit: Option<usize>) -> Result<Chain<N>, Error> {
        let options = Pool::options();
        let pool = match limit {
            Some(limit) => options.limit(limit).try_build()?,
            None => options.try_build()?,
        };
        let memory = Memory {
            pool,
            mechanism: versioned.mechanism(),
        };
        Ok(Chain {
            anchor: Anchor::new(versioned)?,
            memory: Shared::new(memory).ok_or(Error::OutOfMemory)?,
        })
    }

    /// Creates an empty list that takes its nodes from the same memory.
    pub(super) fn sibling(&self) -> Result<Chain<N>, Error> {
        Ok(Chain {
            anchor: Anchor::new(VersionedWords::with_mechanism(self.memory.mechanism))?,
            memory: self.memory.clone(),
        })
    }

    pub(super) fn limit(&self) -> usize {
        self.memory.pool.limit()
    }

    pub(super) fn allocate(&self) -> Result<Allocated<'_, N>, Error> {
        self.memory.pool.allocate()
    }

    /// Returns a node to the pool.
    ///
    /// # Safety
    ///
    /// As for [`adopt`](Chain::adopt).
    pub(super) unsafe fn free(&self, node: &N) {
        // SAFETY: the caller's promise.
        drop(unsafe { self.adopt(node) });
    }

    /// Takes a node back from the list.
    ///
    /// # Safety
    ///
    /// No link of a list leads to the node, and the caller alone owns it.
    pub(super) unsafe fn adopt(&self, node: &N) -> Allocated<'_, N> {
        // SAFETY: the node was allocated from this pool, and `into_raw` left it to a list. The
        // caller promises that it owns the node.
        unsafe { self.memory.pool.adopt(node) }
    }

    /// Claims a node that is in the list, or was when it was read: see
    /// [`List::audit`](super::List::audit).
    #[inline(always)]
    pub(super) fn claim(&self, node: &N) {
        // SAFETY: links lead to nodes of this memory only.
        unsafe { self.memory.pool.claim(node) };
    }

    /// Calls `claim_all`, then `last_look` with each node that was not claimed for longer than
    /// `time` when this function was called, and frees it.
    ///
    /// # Safety
    ///
    /// No link of a list leads to such a node, and no thread that continues owns it.
    pub(super) unsafe fn audit(
        &self,
        time: Duration,
        claim_all: impl FnOnce(),
        mut last_look: impl FnMut(&N),
    ) -> Audit {
        let pool = &self.memory.pool;
        pool.audit_after(at_least_some(time), claim_all, |unclaimed| {
            // SAFETY: the caller's promise: the owner uses the node no more.
            if let Some(node) = unsafe { unclaimed.reclaim() } {
                last_look(&node);
            }
        })
    }

    /// Calls `claim_all`, then `is_lost` with each node that was not claimed for longer than `time`
    /// when this function was called, and frees it if that returns `true`.
    ///
    /// # Safety
    ///
    /// No link of a list leads to a node for which `is_lost` returns `true`, and no thread that
    /// continues owns it.
    pub(super) unsafe fn audit_where(
        &self,
        time: Duration,
        claim_all: impl FnOnce(),
        mut is_lost: impl FnMut(&N) -> bool,
    ) -> Audit {
        let pool = &self.memory.pool;
        pool.audit_after(at_least_some(time), claim_all, |unclaimed| {
            if is_lost(unclaimed.descriptor()) {
                // SAFETY: the caller's promise: the owner uses the node no more.
                drop(unsafe { unclaimed.reclaim() });
            }
        })
    }

    /// Claims all nodes that are in the list at one version.
    pub(super) fn claim_all(&self) {
        self.claim_where(|_| true);
    }

    /// Claims all nodes that are in the list at one version and are not held, or whose holders no
    /// audit has seen. Notes in `seen` that it has seen the holders of the others.
    pub(super) fn claim_all_but_seen<'a>(
        &'a self,
        is_held: impl Fn(&N) -> bool,
        seen: impl Fn(&'a N) -> &'a AtomicU64,
    ) {
        self.claim_where(|node| {
            let (is_held, seen) = (is_held(node), seen(node));
            // Relaxed, and in the caller's look at `seen`: pairs with the holder's by the changes
            // of the version. A thread that begins to hold the node meanwhile has begun to do so
            // before this.
            let is_claimed = !is_held || seen.load(Ordering::Relaxed) == 0;
            if is_claimed && is_held {
                seen.store(1, Ordering::Relaxed);
            }
            is_claimed
        });
    }

    fn claim_where<'a>(&'a self, is_claimed: impl Fn(&'a N) -> bool) {
        until_unchanged(|| {
            let version = self.versioned.begin();
            self.seek(version, self.head(), |node| {
                if is_claimed(node) {
                    self.claim(node);
                }
                false
            })?;
            self.check(version)
        });
    }

    /// Returns the value of a covered word, of the list or of a node.
    #[inline(always)]
    pub(super) fn load(&self, word: &StableWord) -> u64 {
        self.versioned.load(word)
    }

    /// Returns the node at an address that a link has held, or `None` for 0 and other values that
    /// are no address.
    #[inline(always)]
    pub(super) fn node(&self, address: u64) -> Option<&N> {
        if address <= NO_ADDRESS {
            return None;
        }
        // SAFETY: links hold addresses of nodes of this memory. They remain nodes, free or not, as
        // long as the memory lives, which the list's share of it ensures.
        Some(unsafe { &*with_exposed_provenance::<N>(address as usize) })
    }

    /// Follows links from `from` to the first node that satisfies `found`, or to the end.
    #[inline]
    pub(super) fn seek<'a>(
        &'a self,
        version: Version,
        from: &'a StableWord,
        mut found: impl FnMut(&'a N) -> bool,
    ) -> Result<Position<'a, N>, Changed> {
        let mut link = from;
        loop {
            for _ in 0..STEPS {
                let Some(node) = self.node(self.load(link)) else {
                    return Ok(Position { link, node: None });
                };
                if found(node) {
                    let node = Some(node);
                    return Ok(Position { link, node });
                }
                link = node.next();
            }
            self.check(version)?;
        }
    }

    /// Returns the number of nodes at one version.
    pub(super) fn count(&self) -> usize {
        until_unchanged(|| {
            let (version, mut count) = (self.versioned.begin(), 0);
            self.seek(version, self.head(), |_| {
                count += 1;
                false
            })?;
            self.check(version).map(|()| count)
        })
    }

    /// Returns `Ok` if the version is unchanged, so that everything read since counts.
    #[inline(always)]
    pub(super) fn check(&self, version: Version) -> Result<(), Changed> {
        match self.versioned.is_still(version) {
            true => Ok(()),
            false => Err(Changed::Seen),
        }
    }

    /// Stores to two words if the version is unchanged.
    #[inline(always)]
    pub(super) fn exchange(
        &self,
        version: Version,
        first: (&StableWord, u64),
        second: (&StableWord, u64),
    ) -> Result<(), Changed> {
        // SAFETY: the words are different, unless the search has met changes of a later version. At
        // this version each belongs to this list, to a node in it, or to a node that the caller
        // alone owns. So only this `versioned` changes them if the version is unchanged. The memory
        // of nodes lives as long as this list and all lists that share it.
        match unsafe { self.versioned.store_pair_if(version, first, second) } {
            true => Ok(()),
            false => self.forestalled(),
        }
    }

    /// Stores to one word if the version is unchanged.
    #[inline(always)]
    pub(super) fn compare_exchange(
        &self,
        version: Version,
        word: (&StableWord, u64),
    ) -> Result<(), Changed> {
        // SAFETY: at this version the word belongs to this list, to a node in it, or to a node that
        // the caller alone owns. The memory of nodes lives as long as this list and all lists that
        // share it.
        match unsafe { self.versioned.store_if(version, word) } {
            true => Ok(()),
            false => self.forestalled(),
        }
    }

    #[cold]
    fn forestalled(&self) -> Result<(), Changed> {
        self.versioned.back_off();
        Err(Changed::Forestalled)
    }

    /// Removes all nodes from a list that the caller owns exclusively. `last_look` may take the
    /// value out of each; this function drops it.
    pub(super) fn clear<V>(&mut self, mut last_look: impl FnMut(&Self, &N) -> V) {
        // Rolls back or completes what an exited thread left unfinished.
        self.versioned.begin();
        let mut address = self.load(self.head());
        drops::each(|| {
            let Some(node) = self.node(address) else {
                return false;
            };
            address = self.load(node.next());
            let value = last_look(self, node);
            // SAFETY: the node was in this list, which the caller owns exclusively and which does
            // not reach it any more. This comes before the value is dropped, because that may
            // panic.
            unsafe { self.free(node) };
            drop(value);
            true
        });
    }
}

impl<N: Node> Drop for Chain<N> {
    fn drop(&mut self) {
        // Rolls back or completes what an exited thread left unfinished. Some of it may be in nodes
        // that other lists of this memory use next.
        self.versioned.begin();
    }
}

/// Returns the version that a test or a benchmark substitutes between two steps of an operation:
/// the given one, or an earlier one, at which the change fails. A later version is not allowed,
/// because reads of an earlier version would count at it.
#[cfg(any(test, feature = "unstable-internals"))]
#[inline(always)]
pub(super) fn between(version: Version, gap: &mut impl FnMut(Version) -> Version) -> Version {
    gap(version).min(version)
}

/// Returns a start of an operation that calls `gap` right after it has read the version.
#[cfg(any(test, feature = "unstable-internals"))]
pub(super) fn begin_with(
    mut gap: impl FnMut(Version) -> Version,
) -> impl FnMut(&VersionedWords) -> Version {
    move |versioned| between(versioned.begin(), &mut gap)
}

/// The audit of a pool finds everything if the time is zero, claimed or not.
pub(super) fn at_least_some(time: Duration) -> Duration {
    time.max(Duration::from_nanos(1))
}

/// Returns the address of a node, for a link.
#[inline(always)]
pub(super) fn address<N>(node: &N) -> u64 {
    // The address was exposed when the node was allocated.
    std::ptr::from_ref(node).addr() as u64
}

/// Repeats an attempt until the version does not change during it. The kind of failure decides how
/// long this waits before the next attempt.
#[inline(always)]
pub(super) fn until_unchanged<R>(mut attempt: impl FnMut() -> Result<R, Changed>) -> R {
    let mut round = 0;
    loop {
        match attempt() {
            Ok(result) => return result,
            Err(Changed::Forestalled) => {}
            Err(Changed::Seen) => {
                // Other threads have made progress. There is no thread to wait for, so this does
                // not yield.
                (0..4u32 << round).for_each(|_| spin_loop());
                round = (round + 1).min(6);
            }
        }
    }
}
