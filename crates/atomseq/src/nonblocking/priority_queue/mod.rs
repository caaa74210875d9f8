//! A priority queue: a list in ascending order, with an index of hints.
//!
//! ```text
//! index, level 1    first ──────────> node ────────────────────> node ──> 0     hints: stored
//! index, level 0    first ──> node ─> node ──────────> node ───> node ──> 0     without a check
//! list              head  ──> node ─> node ─> node ──> node ───> node ──> 0     links: covered words
//!
//! insert    search;  begin; { link = node, node.next = what the link held }   if the version is unchanged
//! pop                begin; { head = first.next, first.next = REMOVED }       if the version is unchanged
//! remove    search;  begin; { link = node.next, node.next = REMOVED }         if the version is unchanged
//! ```
//!
//! GC96 keeps its ready and delay queues in lists (section 5.2), which are searched from the head.
//! This list has the index of a skip list (Pugh 1990) beside it, and only the list is covered by
//! the version. So each operation is one change of two words, whatever the height of a node.
//!
//! A search takes no version. It follows hints, and returns a node that seems to be before a place,
//! and close to it. The operation then reads the version, checks that this node is in the list and
//! before the place, and goes on from there by links. So another thread's change makes it repeat
//! these few steps, and not the search.
//!
//! Invariants:
//!
//! 1. Links change only together with the version, and no version recurs.
//! 2. The link of a node is REMOVED, which is 0, until a change links it, and from the change that
//!    unlinks it to the one that links it again; that of the last node is END. So at each version
//!    exactly the nodes in the list have another link than REMOVED. This must hold for fresh nodes
//!    too: a search may come to one by a change that is rolled back.
//! 3. Priority and stamp are written only while the node's owner alone has it, and each of these
//!    periods starts with a change of the list and with a release fence, as in a `List`.
//! 4. The stamp of a linked node holds the version at which it was linked. So stamps are different,
//!    those of equal priorities ascend from front to end, and a node with the stamp of a handle is
//!    the entry of that handle.
//! 5. A hint is 0 or the address of a node of this queue, which may be anywhere in the list, or in
//!    none. Any thread may store hints at any time. A search follows one only to a node that is in
//!    the list, further on than the last one, and before the place. So a wrong hint takes time, and
//!    causes no error. A search that goes past a node, and finds that a level has lost it, stores
//!    the hint again (`index`).

use std::cell::UnsafeCell;
use std::fmt;
use std::mem::{ManuallyDrop, MaybeUninit};
use std::sync::atomic::{AtomicU64 as Count, fence};

use super::nodes::{self, Chain, Changed, NO_ADDRESS, address, until_unchanged};
use super::plain::{Plain, Words};
use super::ref_list::NoMemory;
use crate::dcas::{Mechanism, StableWord, Version, VersionedWords};
use crate::or_panic::OrPanic;
use crate::platform;
use crate::sync::{AtomicU64, Ordering};
use crate::type_stable::{self, Allocated, Descriptor};

mod index;

use index::{Index, LEVELS, Place, Route};

/// The link of a node that is not in the list. Zero, as in a node that never was.
const REMOVED: u64 = 0;

/// The link of the last node. The head is END or 0 if the list is empty.
const END: u64 = NO_ADDRESS;

/// The size of a cache line.
const LINE: usize = 64;

/// A node.
#[repr(C)]
struct Node<P, T> {
    next: StableWord,
    /// The version at which the node was linked, and in the lowest four bits its height: the number
    /// of levels of the index that it is on.
    stamp: AtomicU64,
    priority: Words<P>,
    /// The hints to the next node on each level.
    above: [AtomicU64; LEVELS],
    /// Initialized while the node is in the list.
    value: UnsafeCell<MaybeUninit<T>>,
}

// SAFETY: all but the value is read as atomic words. The value is accessed only by the thread that
// inserts the node before it is linked, and by the one that unlinked it.
unsafe impl<P: Plain, T: Send> Sync for Node<P, T> {}
// SAFETY: all zeros is a valid instance, and may appear at any time: all but the value is read as
// atomic words, and the value is `MaybeUninit`.
unsafe impl<P: Plain, T: Send> Descriptor for Node<P, T> {}

impl<P: Plain, T: Send> nodes::Node for Node<P, T> {
    #[inline(always)]
    fn next(&self) -> &StableWord {
        &self.next
    }
}

impl<P: Plain, T: Send> Node<P, T> {
    #[inline(always)]
    fn height(&self) -> usize {
        // Relaxed: a hint.
        height_in(self.stamp.load(Ordering::Relaxed))
    }
}

/// Returns the height in a stamp.
#[inline(always)]
fn height_in(stamp: u64) -> usize {
    (stamp & 15) as usize
}

/// A node that holds a value and is not linked. If a comparison panics, this drops the value.
struct Filled<'a, P: Plain, T: Send>(ManuallyDrop<Allocated<'a, Node<P, T>>>);

impl<'a, P: Plain, T: Send> Filled<'a, P, T> {
    #[inline]
    fn with(node: Allocated<'a, Node<P, T>>, value: T) -> Filled<'a, P, T> {
        // SAFETY: only the caller owns the node. A thread that still has its address does not
        // access the value.
        unsafe { (*node.value.get()).write(value) };
        Filled(ManuallyDrop::new(node))
    }

    /// Stamps the node, for a change at this version that links it.
    #[inline(always)]
    fn stamp(&self, version: Version, height: usize) -> u64 {
        let stamp = version.number() << 4 | height as u64;
        // Relaxed: the change publishes it, or it does not count.
        self.0.stamp.store(stamp, Ordering::Relaxed);
        stamp
    }

    /// Leaves the node to the list that it was linked into.
    #[inline]
    fn into_raw(self) -> &'a Node<P, T> {
        let mut this = ManuallyDrop::new(self);
        // SAFETY: `this` is not used again, nor dropped.
        unsafe { ManuallyDrop::take(&mut this.0) }.into_raw()
    }
}

impl<P: Plain, T: Send> Drop for Filled<'_, P, T> {
    fn drop(&mut self) {
        // SAFETY: `self` is not used again.
        let node = unsafe { ManuallyDrop::take(&mut self.0) };
        // SAFETY: `with` has written the value, and the node was not linked.
        let value = unsafe { (*node.value.get()).assume_init_read() };
        // The node comes first: dropping the value may panic.
        drop(node);
        drop(value);
    }
}

/// Names an entry of a [`PriorityQueue`], to remove it or to change its priority. Once the entry
/// has left the queue, the handle names nothing, whatever the queue does with the memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Handle {
    queue: u64,
    pub(super) node: u64,
    stamp: u64,
}

/// A queue from which the entry with the least priority leaves first, and from which any entry can
/// be removed by its [`Handle`].
///
/// With times as priorities it is a delay queue ([`pop_due`](PriorityQueue::pop_due)), which is
/// what the Cache Kernel has one for (GC96, section 5). Entries of equal priority leave in the
/// order in which they were inserted. Priorities are [`Plain`]; wrap them in
/// [`Reverse`](std::cmp::Reverse) for a queue whose greatest entry leaves first. Values are of any
/// type that is `Send`, and only the thread that takes a value out accesses it.
///
/// The scope is `Machine`. Progress is that of the [mechanism](super#progress): no thread that is
/// preempted, stopped or has exited inside an operation blocks the others. An operation costs one
/// change of two words: one atomic instruction under OS-assisted DCAS, at most six under k-CAS.
/// Insertion and removal also take a search without atomic instructions, whose expected time grows
/// with the logarithm of the number of entries. It relies on an index of hints; a thread that is
/// stopped or exits between a change and the hints for it makes searches slower, until one of them
/// restores the hints. Popping takes no search. Memory: 1,024 priorities and about 8 KiB, and
/// one node per entry, reused at once; it does not wait for readers. The memory of nodes is not
/// returned before the queue is dropped; a [limit](PriorityQueue::try_with_limit) bounds it.
///
/// The comparison of priorities runs while the operation holds nothing. If it panics, the operation
/// panics and has changed nothing, except for
/// [`change_priority`](PriorityQueue::change_priority). It may get bit patterns that no thread
/// stored ([`Plain`]). A comparison that changes the same queue may be repeated without end.
///
/// Every operation may be called in a signal handler, whatever it has interrupted.
///
/// ```
/// use atomseq::nonblocking::PriorityQueue;
///
/// let timers = PriorityQueue::new();
/// let retry = timers.insert(30_u64, "retry")?;
/// timers.insert(10, "poll")?;
/// let close = timers.insert(20, "close")?;
///
/// assert_eq!(timers.remove(close), Some((20, "close")));
/// timers.change_priority(retry, 5);
/// assert_eq!(timers.peek(), Some(5));
/// assert_eq!(timers.pop_due(7), Some((5, "retry")));
/// assert_eq!(timers.pop_due(7), None);
/// assert_eq!(timers.pop(), Some((10, "poll")));
/// # Ok::<(), atomseq::nonblocking::NoMemory<&str>>(())
/// ```
///
/// Values must be `Send`:
///
/// ```compile_fail,E0277
/// atomseq::nonblocking::PriorityQueue::<u64, std::rc::Rc<u8>>::new();
/// ```
pub struct PriorityQueue<P: Plain, T: Send> {
    chain: Chain<Node<P, T>>,
    /// One index.
    index: Box<[Index<P>]>,
    /// A number that no other queue of this process has or had.
    number: u64,
}

impl<P: Plain + Ord, T: Send> PriorityQueue<P, T> {
    /// Creates an empty queue without a limit.
    ///
    /// # Panics
    ///
    /// If there is no memory, or a priority and a value are too large for a page of nodes.
    #[track_caller]
    pub fn new() -> PriorityQueue<P, T> {
        PriorityQueue::made(VersionedWords::new(), None).or_panic()
    }

    /// Creates an empty queue of up to `entries` entries, including those that are being inserted:
    /// see [`Options::limit`](type_stable::Options::limit).
    ///
    /// # Errors
    ///
    /// [`type_stable::Error::Zero`], [`TooLarge`](type_stable::Error::TooLarge),
    /// [`OutOfMemory`](type_stable::Error::OutOfMemory).
    pub fn try_with_limit(entries: usize) -> Result<PriorityQueue<P, T>, type_stable::Error> {
        PriorityQueue::made(VersionedWords::new(), Some(entries))
    }

    /// Creates a queue that uses this mechanism whatever the process has chosen, for tests and
    /// comparisons.
    #[cfg(any(test, feature = "unstable-internals"))]
    pub fn forced(mechanism: Mechanism) -> PriorityQueue<P, T> {
        PriorityQueue::made(VersionedWords::with_mechanism(mechanism), None).or_panic()
    }

    pub(super) fn made(
        versioned: VersionedWords,
        limit: Option<usize>,
    ) -> Result<PriorityQueue<P, T>, type_stable::Error> {
        static QUEUES: Count = Count::new(0);
        Ok(PriorityQueue {
            chain: Chain::new(versioned, limit)?,
            index: Index::new().ok_or(type_stable::Error::OutOfMemory)?,
            // Relaxed: only the number counts, and each is given once.
            number: QUEUES.fetch_add(1, Ordering::Relaxed),
        })
    }

    /// Inserts an entry, behind those of equal priority. One atomic instruction under OS-assisted
    /// DCAS, and a search.
    ///
    /// # Errors
    ///
    /// [`NoMemory`], which returns the value.
    #[inline]
    pub fn insert(&self, priority: P, value: T) -> Result<Handle, NoMemory<T>> {
        self.insert_from(priority, value, VersionedWords::begin)
    }

    /// Does the same, with `gap` right after each read of the version: see
    /// [`List::try_insert_between`](super::List::try_insert_between).
    #[cfg(any(test, feature = "unstable-internals"))]
    pub fn insert_between(
        &self,
        priority: P,
        value: T,
        gap: impl FnMut(Version) -> Version,
    ) -> Result<Handle, NoMemory<T>> {
        self.insert_from(priority, value, nodes::begin_with(gap))
    }

    #[inline]
    fn insert_from(
        &self,
        priority: P,
        value: T,
        begin: impl FnMut(&VersionedWords) -> Version,
    ) -> Result<Handle, NoMemory<T>> {
        match self.chain.allocate() {
            Ok(node) => Ok(self.link(node, priority, value, begin)),
            Err(reason) => Err(NoMemory { value, reason }),
        }
    }

    /// Links a node, which the caller alone owns, with this entry.
    #[inline]
    fn link(
        &self,
        node: Allocated<'_, Node<P, T>>,
        priority: P,
        value: T,
        mut begin: impl FnMut(&VersionedWords) -> Version,
    ) -> Handle {
        node.priority.store(priority);
        let node = Filled::with(node, value);
        // Before the search: this chooses the mechanism, by which links are loaded.
        let version = self.version();
        let height = self.index[0].height_of_next(version);
        let linked = match self.mechanism() {
            // Decided once, and not again at each load.
            Mechanism::Assisted => self.link_near::<true>(&node, height, version, &mut begin),
            Mechanism::Kcas => self.link_near::<false>(&node, height, version, &mut begin),
        };
        let (node, stamp) = match linked {
            Some((stamp, place)) => {
                let node = node.into_raw();
                let height = height_in(stamp);
                self.enter_lowest_level(node, height, &place);
                (node, stamp)
            }
            None => self.link_far(node, height, begin),
        };
        Handle {
            queue: self.number,
            node: address(node),
            stamp,
        }
    }

    /// Links a node if its place is close to a stop, or to the front of a short list. Returns its
    /// stamp and the place.
    #[inline(always)]
    fn link_near<const IS_ASSISTED: bool>(
        &self,
        node: &Filled<'_, P, T>,
        height: usize,
        version: Version,
        begin: &mut impl FnMut(&VersionedWords) -> Version,
    ) -> Option<(u64, Place<'_, Node<P, T>>)> {
        let priority = node.0.priority.load();
        // A short list needs no index.
        let height = match self.has_levels(version) {
            true => height,
            false => 0,
        };
        let is_before = |_: &Node<P, T>, other: P| other <= priority;
        let start = self.start_near(version, priority)?;
        let reader = self.chain.versioned.reader(match IS_ASSISTED {
            true => Mechanism::Assisted,
            false => Mechanism::Kcas,
        });
        until_unchanged(|| {
            let version = begin(&self.chain.versioned);
            let Some(place) = self.place_near(reader, start, is_before) else {
                return Ok(None);
            };
            let stamp = node.stamp(version, height);
            self.chain.exchange(
                version,
                (place.link, address(&**node.0)),
                (&node.0.next, place.behind),
            )?;
            Ok(Some((stamp, place)))
        })
    }

    /// Links a node at any place.
    #[inline(never)]
    fn link_far<'a>(
        &'a self,
        node: Filled<'a, P, T>,
        height: usize,
        mut begin: impl FnMut(&VersionedWords) -> Version,
    ) -> (&'a Node<P, T>, u64) {
        let priority = node.0.priority.load();
        let is_before = |_: &Node<P, T>, other: P| other <= priority;
        let mut route = self.route(priority, height, is_before);
        let mut stamp = 0;
        until_unchanged(|| {
            if stamp != 0 && height > 0 {
                self.advance(&mut route, is_before);
            }
            let version = begin(&self.chain.versioned);
            let from = self.start(version, &mut route, (priority, height), is_before)?;
            let position = self.chain.seek(version, from, |other| {
                let is_behind = !is_before(other, other.priority.load());
                if !is_behind {
                    route.last = Some(other);
                }
                is_behind
            })?;
            stamp = node.stamp(version, height);
            let behind = position.node.map_or(END, address);
            self.chain.exchange(
                version,
                (position.link, address(&**node.0)),
                (&node.0.next, behind),
            )
        });
        let node = node.into_raw();
        self.enter_index(node, height, &route);
        (node, stamp)
    }

    /// Returns the link at which to start from the route's last node. If that node is not in the
    /// list any more, or not before the place, searches again, and the attempt must be repeated.
    #[inline]
    fn start<'a>(
        &'a self,
        version: Version,
        route: &mut Route<'a, Node<P, T>>,
        (priority, height): (P, usize),
        is_before: impl Fn(&Node<P, T>, P) -> bool + Copy,
    ) -> Result<&'a StableWord, Changed> {
        let Some(last) = route.last else {
            return Ok(self.chain.head());
        };
        if self.chain.load(&last.next) != REMOVED && is_before(last, last.priority.load()) {
            return Ok(&last.next);
        }
        let outcome = self.chain.check(version);
        *route = self.route(priority, height, is_before);
        // If the version is unchanged, the search was misled: the node has left since.
        outcome.and(Err(Changed::Seen))
    }

    /// Pops the entry with the least priority; of several, the one that was inserted first. Returns
    /// `None` if the queue is empty. One atomic instruction under OS-assisted DCAS.
    #[inline]
    pub fn pop(&self) -> Option<(P, T)> {
        self.pop_if(|_| true, VersionedWords::begin)
    }

    /// Does the same, with `gap` right after each read of the version: see
    /// [`List::try_insert_between`](super::List::try_insert_between).
    #[cfg(any(test, feature = "unstable-internals"))]
    pub fn pop_between(&self, gap: impl FnMut(Version) -> Version) -> Option<(P, T)> {
        self.pop_if(|_| true, nodes::begin_with(gap))
    }

    /// Pops the entry with the least priority if that is at most `now`: of a delay queue, the next
    /// entry whose time has come.
    #[inline]
    pub fn pop_due(&self, now: P) -> Option<(P, T)> {
        self.pop_if(|priority| priority <= now, VersionedWords::begin)
    }

    #[inline]
    fn pop_if(
        &self,
        is_due: impl Fn(P) -> bool,
        mut begin: impl FnMut(&VersionedWords) -> Version,
    ) -> Option<(P, T)> {
        let chain = &self.chain;
        let (priority, node) = until_unchanged(|| {
            let version = begin(&chain.versioned);
            let Some(node) = chain.node(chain.load(chain.head())) else {
                return chain.check(version).map(|()| None);
            };
            let priority = node.priority.load();
            if !is_due(priority) {
                return chain.check(version).map(|()| None);
            }
            let behind = chain.load(&node.next);
            // Its value and its header, and the node that the next call takes.
            platform::prefetch(address(node) as usize + LINE);
            if behind > END {
                platform::prefetch(behind as usize);
            }
            chain.exchange(version, (chain.head(), behind), (&node.next, REMOVED))?;
            Ok(Some((priority, node)))
        })?;
        self.leave_front(node);
        // SAFETY: this call alone has just unlinked the node.
        Some((priority, unsafe { self.take(node) }))
    }

    /// Returns the least priority. No atomic instruction.
    #[inline]
    pub fn peek(&self) -> Option<P> {
        until_unchanged(|| {
            let version = self.chain.versioned.begin();
            let first = self.chain.node(self.chain.load(self.chain.head()));
            let priority = first.map(|node| node.priority.load());
            self.chain.check(version).map(|()| priority)
        })
    }

    /// Returns the priority of an entry, or `None` if it has left the queue. No atomic instruction.
    ///
    /// # Panics
    ///
    /// If the handle is another queue's.
    #[track_caller]
    pub fn priority(&self, handle: Handle) -> Option<P> {
        self.node_of(handle);
        self.priority_of(handle)
    }

    /// Removes an entry, and returns it. Returns `None` if it has left the queue. One atomic
    /// instruction under OS-assisted DCAS, and a search.
    ///
    /// # Panics
    ///
    /// If the handle is another queue's.
    #[track_caller]
    pub fn remove(&self, handle: Handle) -> Option<(P, T)> {
        self.node_of(handle);
        self.remove_from(handle, VersionedWords::begin)
    }

    /// Does the same, with `gap` right after each read of the version: see
    /// [`List::try_insert_between`](super::List::try_insert_between).
    #[cfg(any(test, feature = "unstable-internals"))]
    pub fn remove_between(
        &self,
        handle: Handle,
        gap: impl FnMut(Version) -> Version,
    ) -> Option<(P, T)> {
        self.remove_from(handle, nodes::begin_with(gap))
    }

    fn remove_from(
        &self,
        handle: Handle,
        begin: impl FnMut(&VersionedWords) -> Version,
    ) -> Option<(P, T)> {
        let (priority, node) = self.unlink(handle, begin)?;
        // SAFETY: this call alone has just unlinked the node.
        Some((priority, unsafe { self.take(node) }))
    }

    /// Changes the priority of an entry, which gets a new handle. Returns `None` if the entry has
    /// left the queue.
    ///
    /// The entry is removed and inserted again, each in one step (GC96, section 5.1). In between it
    /// is not in the queue: other operations see the queue without it, and a thread that is stopped
    /// or exits there keeps it. The same holds if the comparison of priorities panics during the
    /// insertion, which drops the value. Needs no memory.
    ///
    /// # Panics
    ///
    /// If the handle is another queue's.
    #[track_caller]
    pub fn change_priority(&self, handle: Handle, priority: P) -> Option<Handle> {
        self.node_of(handle);
        let (_, node) = self.unlink(handle, VersionedWords::begin)?;
        // Release: orders the change that unlinked the node before the stores of its next period.
        // Pairs with the acquire fence in `VersionedWords::is_still`.
        fence(Ordering::Release);
        // SAFETY: the value was written before the node was linked, and this call alone has
        // unlinked it.
        let value = unsafe { (*node.value.get()).assume_init_read() };
        // SAFETY: no link leads to the node, which this call alone owns.
        let node = unsafe { self.chain.adopt(node) };
        Some(self.link(node, priority, value, VersionedWords::begin))
    }

    /// Returns the node that a handle names or named.
    #[track_caller]
    fn node_of(&self, handle: Handle) -> &Node<P, T> {
        assert!(handle.queue == self.number, "a handle of another queue");
        let node = self.chain.node(handle.node);
        node.expect("a handle of this queue holds the address of a node")
    }

    fn priority_of(&self, handle: Handle) -> Option<P> {
        let node = self.node_of(handle);
        until_unchanged(|| {
            let version = self.chain.versioned.begin();
            let priority = self.is_there(node, handle).then(|| node.priority.load());
            self.chain.check(version).map(|()| priority)
        })
    }

    /// Returns whether the handle's entry is in the list. It counts only if the version is
    /// unchanged afterwards.
    fn is_there(&self, node: &Node<P, T>, handle: Handle) -> bool {
        // Relaxed: lies between the acquire in `begin` and the fence in `is_still`.
        let stamp = node.stamp.load(Ordering::Relaxed);
        stamp == handle.stamp && self.chain.load(&node.next) != REMOVED
    }

    /// Unlinks the entry of a handle, and returns its priority and its node, which the caller owns
    /// then.
    fn unlink(
        &self,
        handle: Handle,
        mut begin: impl FnMut(&VersionedWords) -> Version,
    ) -> Option<(P, &Node<P, T>)> {
        let node = self.node_of(handle);
        let priority = self.priority_of(handle)?;
        let is_before = |other: &Node<P, T>, of_other: P| {
            let stamp = other.stamp.load(Ordering::Relaxed);
            (of_other, stamp) < (priority, handle.stamp)
        };
        let height = height_in(handle.stamp);
        let mut route = self.route(priority, height, is_before);
        let is_removed = until_unchanged(|| {
            let version = begin(&self.chain.versioned);
            if !self.is_there(node, handle) {
                return self.chain.check(version).map(|()| false);
            }
            let from = self.start(version, &mut route, (priority, height), is_before)?;
            let is_it = |other: &Node<P, T>| std::ptr::eq(other, node);
            let mut place = self.chain.seek(version, from, is_it)?;
            if place.node.is_none() {
                // The order of priorities is not one, and the start was not before the node.
                place = self.chain.seek(version, self.chain.head(), is_it)?;
            }
            if place.node.is_none() {
                // The node is in the list at this version, so the version is over.
                return self.chain.check(version).and(Err(Changed::Seen));
            }
            let behind = self.chain.load(&node.next);
            self.chain
                .exchange(version, (place.link, behind), (&node.next, REMOVED))?;
            Ok(true)
        });
        if !is_removed {
            return None;
        }
        self.leave_index(node, &route);
        Some((priority, node))
    }

    /// Removes and returns entries, the least first, until the queue is empty.
    pub fn drain(&self) -> impl Iterator<Item = (P, T)> {
        std::iter::from_fn(|| self.pop())
    }
}

impl<P: Plain, T: Send> PriorityQueue<P, T> {
    /// Takes the value out of a node and frees the node.
    ///
    /// # Safety
    ///
    /// The caller alone has unlinked the node.
    #[inline]
    unsafe fn take(&self, node: &Node<P, T>) -> T {
        // SAFETY: the value was written before the node was linked, and the caller alone has
        // unlinked it.
        let value = unsafe { (*node.value.get()).assume_init_read() };
        // SAFETY: the caller has unlinked the node, so it owns it, and no link leads to it.
        unsafe { self.chain.free(node) };
        value
    }

    /// Returns the number of entries, by counting the nodes at one version. Takes time in
    /// proportion to it.
    pub fn len(&self) -> usize {
        self.chain.count()
    }

    /// Returns whether the queue was empty at some time during the call.
    pub fn is_empty(&self) -> bool {
        let ([head], _) = self.chain.versioned.snapshot([self.chain.head()]);
        head <= END
    }

    /// Returns the maximum number of entries.
    pub fn limit(&self) -> usize {
        self.chain.limit()
    }

    /// Returns the number of modifications plus 1 (GC96, section 5.3). A new queue is at version 1.
    /// Interrupted attempts may count too, as for
    /// [`Domain::version`](crate::dcas::Domain::version).
    pub fn version(&self) -> Version {
        self.chain.versioned.version()
    }

    /// Returns the mechanism that this queue uses.
    pub fn mechanism(&self) -> Mechanism {
        self.chain.versioned.mechanism()
    }
}

impl<P: Plain, T: Send> Drop for PriorityQueue<P, T> {
    fn drop(&mut self) {
        self.chain.clear(|_, node| {
            // SAFETY: the node is in the list, so its value is initialized, and the queue is owned
            // exclusively.
            unsafe { (*node.value.get()).assume_init_read() }
        });
    }
}

impl<P: Plain + Ord, T: Send> Default for PriorityQueue<P, T> {
    fn default() -> Self {
        PriorityQueue::new()
    }
}

impl<P: Plain + Ord, T: Send> Extend<(P, T)> for PriorityQueue<P, T> {
    /// Inserts each entry.
    ///
    /// # Panics
    ///
    /// If there is no memory, or the limit is reached.
    #[track_caller]
    fn extend<I: IntoIterator<Item = (P, T)>>(&mut self, entries: I) {
        for (priority, value) in entries {
            // Panics, as other collections do that cannot grow.
            self.insert(priority, value).or_panic();
        }
    }
}

impl<P: Plain + Ord, T: Send> FromIterator<(P, T)> for PriorityQueue<P, T> {
    /// # Panics
    ///
    /// If there is no memory.
    #[track_caller]
    fn from_iter<I: IntoIterator<Item = (P, T)>>(entries: I) -> Self {
        let mut queue = PriorityQueue::new();
        queue.extend(entries);
        queue
    }
}

impl<P: Plain, T: Send> fmt::Debug for PriorityQueue<P, T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("PriorityQueue")
            .field("len", &self.len())
            .finish_non_exhaustive()
    }
}
