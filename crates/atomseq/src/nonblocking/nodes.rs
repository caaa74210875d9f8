//! What the lists share: nodes in type-stable memory, linked by covered words, and the walk along them.
//!
//! ```text
//! object: version, mechanism        head ──> node ──> node ──> 0         a link holds a node's address
//!                                            next     next
//! ```
//!
//! A walk begins at a version, follows links with plain loads, and counts only if the object is still at that version
//! in the end (GC96 figure 2). Until then it may have gone astray, over nodes that were freed, and are parts
//! of other lists by now, or of none. Each of them is a node all the same, and each link leads to one; but a way over
//! recycled nodes may go round in circles, so a walk also asks for the version from time to time.

use std::ops::Deref;
use std::ptr::{self, with_exposed_provenance};
use std::sync::Arc;
use std::sync::atomic::{AtomicPtr, Ordering};

use crate::dcas::{Mechanism, Object, StableWord, Version};
use crate::drops;
use crate::memory::{Allocated, Descriptor, Error, Pool};
use crate::sync::spin_loop;

/// After so many nodes a walk looks whether its version still is.
const STEPS: usize = 64;

/// What no link that leads to a node holds: addresses are multiples of 64.
pub(super) const NO_ADDRESS: u64 = 63;

/// A node of one of the lists.
pub(super) trait Node: Descriptor {
    /// The link to the next one.
    fn next(&self) -> &StableWord;

    /// Each of its covered words; one, if that is all, twice.
    fn words(&self) -> [&StableWord; 2];
}

/// The object has changed since the version.
pub(super) enum Changed {
    /// That was seen.
    Seen,
    /// An exchange found it out, and has given way to the others.
    Forestalled,
}

/// Where a walk has ended: the link that leads to a node, and the node; none at the end of the list.
pub(super) struct Place<'a, N> {
    pub(super) link: &'a StableWord,
    pub(super) node: Option<&'a N>,
}

/// A version number, and the head of the list that it covers.
///
/// By k-CAS it lives as long as the nodes of its list. Somebody in an operation of another list in the same memory may have
/// come to a node that has gone from there to this list meanwhile, and help the operation that is under way there, whose words are
/// these; and still be at it when that operation is over and this list gone.
pub(super) struct Anchor {
    pub(super) object: Object,
    pub(super) head: StableWord,
    /// Among those that are kept.
    next: AtomicPtr<Anchor>,
}

impl Anchor {
    fn new(object: Object) -> Arc<Anchor> {
        let (head, next) = (StableWord::default(), AtomicPtr::default());
        Arc::new(Anchor { object, head, next })
    }
}

/// The memory of nodes, which lists may share.
pub(super) struct Memory<N: Node> {
    pool: Pool<N>,
    mechanism: Mechanism,
    /// Anchors of lists that are gone, for others to come: their heads hold 0. A stack, which is taken as a whole.
    kept: AtomicPtr<Anchor>,
}

impl<N: Node> Memory<N> {
    /// One that nobody has.
    fn anchor(&self) -> Arc<Anchor> {
        let Some(anchor) = self.take_kept() else {
            return Anchor::new(Object::forced(self.mechanism));
        };
        let rest = anchor.next.load(Ordering::Relaxed);
        // SAFETY: kept ones, which this call has taken.
        let behind = |one: *mut Anchor| unsafe { (*one).next.load(Ordering::Relaxed) };
        if !rest.is_null() {
            let mut last = rest;
            while !behind(last).is_null() {
                last = behind(last);
            }
            // SAFETY: the same, from one to the last behind it.
            unsafe { self.keep_all(rest, last) };
        }
        anchor
    }

    /// The first one, and with it all that are kept.
    fn take_kept(&self) -> Option<Arc<Anchor>> {
        // Acquire: pairs with the release in `keep_all`.
        let first = self.kept.swap(ptr::null_mut(), Ordering::Acquire);
        // SAFETY: made by `into_raw` in `keep`, and taken from here by one.
        (!first.is_null()).then(|| unsafe { Arc::from_raw(first) })
    }

    fn keep(&self, anchor: Arc<Anchor>) {
        let anchor = Arc::into_raw(anchor).cast_mut();
        // SAFETY: it is this call's.
        unsafe { self.keep_all(anchor, anchor) };
    }

    /// # Safety
    ///
    /// They are the caller's, from the first to the last one.
    unsafe fn keep_all(&self, first: *mut Anchor, last: *mut Anchor) {
        // SAFETY: the caller's promise.
        let last = unsafe { &*last };
        // Release: pairs with the acquire in `take_kept`. What is on the stack meanwhile may come and go: it is not looked at.
        let keep = |before| {
            last.next.store(before, Ordering::Relaxed);
            Some(first)
        };
        let _ = (self.kept).fetch_update(Ordering::Release, Ordering::Relaxed, keep);
    }
}

impl<N: Node> Drop for Memory<N> {
    fn drop(&mut self) {
        if self.mechanism == Mechanism::Assisted {
            return;
        }
        // Each word is bound to the descriptor of its last change.
        let object = Object::forced(Mechanism::Kcas);
        // SAFETY: the memory goes, and nobody has a list in it any more.
        let release = |word: &StableWord| unsafe { object.release(word) };
        self.pool.for_each_used(|node| {
            let [first, second] = node.words();
            release(first);
            // Once each: after the first time, the descriptor may be another operation's.
            if !std::ptr::eq(first, second) {
                release(second);
            }
        });
        while let Some(anchor) = self.take_kept() {
            release(&anchor.head);
            *self.kept.get_mut() = anchor.next.load(Ordering::Relaxed);
        }
    }
}

/// A list of nodes.
pub(super) struct Chain<N: Node> {
    anchor: Arc<Anchor>,
    memory: Arc<Memory<N>>,
}

impl<N: Node> Deref for Chain<N> {
    type Target = Anchor;

    #[inline(always)]
    fn deref(&self) -> &Anchor {
        &self.anchor
    }
}

impl<N: Node> Chain<N> {
    pub(super) fn new(object: Object, limit: Option<usize>) -> Result<Chain<N>, Error> {
        let options = Pool::options();
        let pool = match limit {
            Some(limit) => options.limit(limit).build()?,
            None => options.build()?,
        };
        let memory = Memory {
            pool,
            mechanism: object.mechanism(),
            kept: AtomicPtr::default(),
        };
        Ok(Chain {
            anchor: Anchor::new(object),
            memory: Arc::new(memory),
        })
    }

    /// An empty one with nodes from the same memory.
    pub(super) fn sibling(&self) -> Chain<N> {
        Chain {
            anchor: self.memory.anchor(),
            memory: Arc::clone(&self.memory),
        }
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
        // SAFETY: links hold addresses of nodes of this memory, which are nodes as long as that lives, free or not.
        Some(unsafe { &*with_exposed_provenance::<N>(address as usize) })
    }

    /// Goes from a link on to the first node for which `found` says so, or to the end.
    #[inline]
    pub(super) fn seek<'a>(
        &'a self,
        version: Version,
        from: &'a StableWord,
        mut found: impl FnMut(&'a N) -> bool,
    ) -> Result<Place<'a, N>, Changed> {
        let mut link = from;
        loop {
            for _ in 0..STEPS {
                let Some(node) = self.node(self.load(link)) else {
                    return Ok(Place { link, node: None });
                };
                if found(node) {
                    let node = Some(node);
                    return Ok(Place { link, node });
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
        // SAFETY: different words: the list's, or of nodes in it, as the version proves, or of a node that the caller alone
        // has. So only this object's exchanges change them now; the memory lives as long as the list, and as all others that
        // its nodes have been in.
        match unsafe { self.object.exchange_since(version, first, second) } {
            true => Ok(()),
            false => self.forestalled(),
        }
    }

    /// Sets one word, if nothing has changed since the version.
    #[inline(always)]
    pub(super) fn exchange_one(
        &self,
        version: Version,
        word: (&StableWord, u64),
    ) -> Result<(), Changed> {
        // SAFETY: as for two.
        match unsafe { self.object.exchange_one_since(version, word) } {
            true => Ok(()),
            false => self.forestalled(),
        }
    }

    #[cold]
    fn forestalled(&self) -> Result<(), Changed> {
        self.object.give_way();
        Err(Changed::Forestalled)
    }

    /// Takes all nodes out of a list that nobody else has. What the last look at each takes out of it is dropped.
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
            // SAFETY: it was in the list, which nobody else has, and which is not looked at any more. Before the value is
            // dropped, which may panic.
            unsafe { self.free(node) };
            drop(value);
            true
        });
    }
}

impl<N: Node> Drop for Chain<N> {
    fn drop(&mut self) {
        self.object.begin();
        if self.memory.mechanism == Mechanism::Kcas {
            until_unchanged(|| self.exchange_one(self.object.begin(), (&self.head, 0)));
            self.memory.keep(Arc::clone(&self.anchor));
        }
    }
}

/// What a test or a bench makes of a version between two steps of an operation: that version, or an earlier one, since which
/// something has changed. A later one would let looks count that do not belong to it.
#[inline(always)]
pub(super) fn between(version: Version, gap: &mut impl FnMut(Version) -> Version) -> Version {
    gap(version).min(version)
}

/// A node's address, for a link.
#[inline(always)]
pub(super) fn address<N>(node: &N) -> u64 {
    // Exposed when it was allocated.
    std::ptr::from_ref(node).addr() as u64
}

/// Repeats an attempt until nothing has changed under it. Which attempt it is says how long to wait before.
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
