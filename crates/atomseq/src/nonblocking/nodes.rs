//! What the lists share: nodes in type-stable memory, linked by covered words, and the walk along
//! them.
//!
//! ```text
//! object: version, mechanism        head ──> node ──> node ──> 0         a link holds a node's address
//!                                            next     next
//! ```
//!
//! A walk begins at a version, follows links with plain loads, and counts only if the object is
//! still at that version in the end (GC96 figure 2). Until then it may have gone astray, over nodes
//! that were freed, and are parts of other lists by now, or of none. Each of them is a node all the
//! same, and each link leads to one; but a way over recycled nodes may go round in circles, so a
//! walk also asks for the version from time to time.

use std::ops::Deref;
use std::ptr::with_exposed_provenance;

use crate::dcas::{Mechanism, StableWord, Version, VersionedWords};
use crate::drops;
use crate::heap::{Shared, boxed};
use crate::sync::spin_loop;
use crate::type_stable::{Allocated, Descriptor, Error, Pool};

/// After so many nodes a walk looks whether its version still is.
const STEPS: usize = 64;

/// What no link that leads to a node holds: addresses are multiples of 64.
pub(super) const NO_ADDRESS: u64 = 63;

/// A node of one of the lists.
pub(super) trait Node: Descriptor {
    /// The link to the next one.
    fn next(&self) -> &StableWord;
}

/// The object has changed since the version.
pub(super) enum Changed {
    /// That was seen.
    Seen,
    /// An exchange found it out, and has given way to the others.
    Forestalled,
}

/// Where a walk has ended: the link that leads to a node, and the node; none at the end of the
/// list.
pub(super) struct Position<'a, N> {
    pub(super) link: &'a StableWord,
    pub(super) node: Option<&'a N>,
}

/// A version number, and the head of the list that it covers. They stay where they are when the
/// list is moved.
pub(super) struct Anchor {
    pub(super) object: VersionedWords,
    pub(super) head: StableWord,
}

impl Anchor {
    fn new(object: VersionedWords) -> Result<Box<Anchor>, Error> {
        let head = StableWord::default();
        boxed(Anchor { object, head }).ok_or(Error::OutOfMemory)
    }
}

/// The memory of nodes, which lists may share.
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
    pub(super) fn new(object: VersionedWords, limit: Option<usize>) -> Result<Chain<N>, Error> {
        let options = Pool::options();
        let pool = match limit {
            Some(limit) => options.limit(limit).build()?,
            None => options.build()?,
        };
        let memory = Memory {
            pool,
            mechanism: object.mechanism(),
        };
        Ok(Chain {
            anchor: Anchor::new(object)?,
            memory: Shared::new(memory).ok_or(Error::OutOfMemory)?,
        })
    }

    /// An empty one with nodes from the same memory.
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

    /// Gives a node back.
    ///
    /// # Safety
    ///
    /// No link of a list leads to it, and the caller alone owns it.
    pub(super) unsafe fn free(&self, node: &N) {
        // SAFETY: it was allocated and left so when a list got it, and the caller's promise.
        drop(unsafe { self.memory.pool.adopt(node) });
    }

    /// The value of a covered word: of the list's head, or of a node.
    #[inline(always)]
    pub(super) fn load(&self, word: &StableWord) -> u64 {
        self.object.load(word)
    }

    /// The node at an address that a link has held; none for 0.
    #[inline(always)]
    pub(super) fn node(&self, address: u64) -> Option<&N> {
        if address <= NO_ADDRESS {
            return None;
        }
        // SAFETY: links hold addresses of nodes of this memory, which are nodes as long as that
        // lives, free or not.
        Some(unsafe { &*with_exposed_provenance::<N>(address as usize) })
    }

    /// Goes from a link on to the first node for which `found` says so, or to the end.
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

    /// How many nodes there are.
    pub(super) fn count(&self) -> usize {
        until_unchanged(|| {
            let (version, mut count) = (self.object.begin(), 0);
            self.seek(version, &self.head, |_| {
                count += 1;
                false
            })?;
            self.check(version).map(|()| count)
        })
    }

    /// Does all that was read since the version count?
    #[inline(always)]
    pub(super) fn check(&self, version: Version) -> Result<(), Changed> {
        match self.object.is_still(version) {
            true => Ok(()),
            false => Err(Changed::Seen),
        }
    }

    /// Sets two words, if nothing has changed since the version.
    #[inline(always)]
    pub(super) fn exchange(
        &self,
        version: Version,
        first: (&StableWord, u64),
        second: (&StableWord, u64),
    ) -> Result<(), Changed> {
        // SAFETY: different words: the list's, or of nodes in it, as the version proves, or of a
        // node that the caller alone has. So only this object's exchanges change them now; the
        // memory lives as long as the list, and as all others that its nodes have been in.
        match unsafe { self.object.store_pair_if(version, first, second) } {
            true => Ok(()),
            false => self.forestalled(),
        }
    }

    /// Sets one word, if nothing has changed since the version.
    #[inline(always)]
    pub(super) fn compare_exchange(
        &self,
        version: Version,
        word: (&StableWord, u64),
    ) -> Result<(), Changed> {
        // SAFETY: as for two.
        match unsafe { self.object.store_if(version, word) } {
            true => Ok(()),
            false => self.forestalled(),
        }
    }

    #[cold]
    fn forestalled(&self) -> Result<(), Changed> {
        self.object.back_off();
        Err(Changed::Forestalled)
    }

    /// Takes all nodes out of a list that nobody else has. What the last look at each takes out of
    /// it is dropped.
    pub(super) fn clear<V>(&mut self, mut last_look: impl FnMut(&Self, &N) -> V) {
        // Undoes what a thread has left half done that ended in the middle.
        self.object.begin();
        let mut address = self.load(&self.head);
        drops::each(|| {
            let Some(node) = self.node(address) else {
                return false;
            };
            address = self.load(node.next());
            let value = last_look(self, node);
            // SAFETY: it was in the list, which nobody else has, and which is not looked at any
            // more. Before the value is dropped, which may panic.
            unsafe { self.free(node) };
            drop(value);
            true
        });
    }
}

impl<N: Node> Drop for Chain<N> {
    fn drop(&mut self) {
        // Rolls back or completes what a thread that exited in the middle has left, some of it
        // perhaps in nodes that siblings have next.
        self.object.begin();
    }
}

/// What a test or a bench makes of a version between two steps of an operation: that version, or an
/// earlier one, since which something has changed. A later one would let looks count that do not
/// belong to it.
#[cfg(any(test, feature = "unstable-internals"))]
#[inline(always)]
pub(super) fn between(version: Version, gap: &mut impl FnMut(Version) -> Version) -> Version {
    gap(version).min(version)
}

/// How an operation begins that has `gap` right after its first look.
#[cfg(any(test, feature = "unstable-internals"))]
pub(super) fn begin_with(
    mut gap: impl FnMut(Version) -> Version,
) -> impl FnMut(&VersionedWords) -> Version {
    move |object| between(object.begin(), &mut gap)
}

/// A node's address, for a link.
#[inline(always)]
pub(super) fn address<N>(node: &N) -> u64 {
    // Exposed when it was allocated.
    std::ptr::from_ref(node).addr() as u64
}

/// Repeats an attempt until nothing has changed under it. Which attempt it is says how long to wait
/// before.
#[inline(always)]
pub(super) fn until_unchanged<R>(mut attempt: impl FnMut() -> Result<R, Changed>) -> R {
    let mut round = 0;
    loop {
        match attempt() {
            Ok(result) => return result,
            Err(Changed::Forestalled) => {}
            Err(Changed::Seen) => {
                // Somebody has changed something: nobody is waited for, so no yielding.
                (0..4u32 << round).for_each(|_| spin_loop());
                round = (round + 1).min(6);
            }
        }
    }
}
