//! A list of values of any type, traversed with reference counts (S92, figure 5.7).
//!
//! ```text
//! node:   next | number of guards, REMOVED | seen | value
//!
//! visit    { next node's guards + 1 }; moving on, also { this node's guards - 1 }   if the version is unchanged
//! insert   { link = node, node.next = what the link held }                          if the version is unchanged
//! remove   { node's guards | REMOVED }, by a holder of a guard                      if the version is unchanged
//! release  { node's guards - 1 }                                                    if the version is unchanged
//!          of the last guard of a removed node: { link = node.next, node's guards = 0 }
//! ```
//!
//! S92's `VisitNextNode` compares a link and a count, and changes the count. The link may belong to
//! a node that was removed while the visitor was there, and may lead to a node that was removed
//! later and has been reused. S92 does not say what protects that node. (Counting the links of
//! removed nodes would, but then one stopped visitor would retain all nodes that are removed behind
//! it.) Here a removed node keeps its place until its last guard is released, and others step over
//! it:
//!
//! 1. A node with a guard is in the list. So its link leads to a node that is in the list at that
//!    version, and so does the count that is incremented at that version.
//! 2. One change unlinks a node, and takes the last guard of a removed node with it. So the node
//!    then belongs to the holder of that guard alone. A node that is in the list without a guard is
//!    not removed.
//! 3. Places do not change while a node is in the list: a visitor continues at its own place.
//!
//! So the memory is bounded by the values in the list and the removed values that guards hold.

use std::cell::UnsafeCell;
use std::mem::MaybeUninit;

use super::NotInserted;
use super::list::Refused;
use super::nodes::{self, Chain, Changed, Position, address, until_unchanged};
use crate::dcas::{Mechanism, StableWord, Version, VersionedWords};
use crate::or_panic::OrPanic;
use crate::sync::{AtomicU64, Ordering};
use crate::type_stable::{self, Allocated, Descriptor};

mod audit;
mod collection;
mod guard;

pub use collection::{NoMemory, RefIter};
pub use guard::Ref;

/// In the word of guards: the node was removed, and is in the list only for its guards.
pub(super) const REMOVED: u64 = 1 << 62;

/// A node.
#[repr(C)]
pub(super) struct Node<T> {
    next: StableWord,
    /// The number of guards, and REMOVED. Zero in a node that is in no list.
    guards: StableWord,
    /// 1: an [audit](RefList::audit) has seen a guard, and none was acquired since.
    seen: AtomicU64,
    /// Initialized while the node is in the list.
    value: UnsafeCell<MaybeUninit<T>>,
}

// SAFETY: the words are atomic. Guards only share the value, and the one call that ends the node
// takes it out.
unsafe impl<T: Send + Sync> Sync for Node<T> {}
// SAFETY: all zeros is a valid instance, and may appear at any time: the words are read as atomics,
// and the value is `MaybeUninit`.
unsafe impl<T: Send + Sync> Descriptor for Node<T> {}

impl<T: Send + Sync> nodes::Node for Node<T> {
    #[inline(always)]
    fn next(&self) -> &StableWord {
        &self.next
    }
}

/// A list of values that threads may traverse, insert into and remove from at the same time (S92,
/// section 5.2.3).
///
/// A visitor of a value holds a guard, a [`Ref`], which keeps the value alive. A removed value is
/// dropped with its last guard. No thread waits: a value can be removed while others access it, and
/// a stopped visitor retains only its one value.
///
/// The scope is `Machine`; progress is that of the [mechanism](super#progress). Moving to the next
/// value costs one change of two words: one atomic instruction under OS-assisted DCAS, at most six
/// under k-CAS. Insertion costs the same; removal changes one word. The last guard of a removed
/// value costs a search for its place, and one change of two words. Memory: one node for each value
/// that is in the list or has a guard. If visitors may exclude each other, a
/// [`OneVisitorList`](super::OneVisitorList) needs no counts. Values that can be copied are cheaper
/// to search in a [`List`](super::List).
///
/// Every operation may be called in a signal handler. But a guard that is dropped there may be the
/// last one, and then the value's destructor runs in the handler.
///
/// ```
/// use atomseq::nonblocking::RefList;
///
/// let names = RefList::new();
/// for name in ["ada", "grace", "alan"] {
///     names.push_front(name.to_string())?;
/// }
/// let grace = names.find(|name| name == "grace").unwrap();
/// assert!(names.remove(&grace));
/// assert_eq!(names.iter().map(|name| name.len()).sum::<usize>(), 7);
/// // The value is out of the list, and still valid for the holder of the guard.
/// assert_eq!(*grace, "grace");
/// assert_eq!(grace.into_inner().unwrap(), "grace");
/// # Ok::<(), atomseq::nonblocking::NoMemory<String>>(())
/// ```
///
/// Values are shared by threads, and dropped in any of them, so they must be `Send` and `Sync`:
///
/// ```compile_fail,E0277
/// let list = atomseq::nonblocking::RefList::new();
/// list.push_front(std::cell::Cell::new(1));
/// ```
///
/// A guard ends before its list, and a reference before its guard:
///
/// ```compile_fail,E0505
/// let list = atomseq::nonblocking::RefList::from_iter([1]);
/// let guard = list.front();
/// drop(list);
/// drop(guard);
/// ```
///
/// ```compile_fail,E0505
/// let list = atomseq::nonblocking::RefList::from_iter([String::new()]);
/// let guard = list.front().unwrap();
/// let text: &str = &guard;
/// drop(guard);
/// println!("{text}");
/// ```
pub struct RefList<T: Send + Sync> {
    pub(super) chain: Chain<Node<T>>,
}

impl<T: Send + Sync> RefList<T> {
    /// Creates an empty list without a limit.
    ///
    /// # Panics
    ///
    /// If there is no memory, or a value is too large for a page of nodes.
    #[track_caller]
    pub fn new() -> RefList<T> {
        RefList::made(VersionedWords::new(), None).or_panic()
    }

    /// Creates an empty list of up to `values` values, including removed ones that still have a
    /// guard: see [`Options::limit`](type_stable::Options::limit).
    ///
    /// # Errors
    ///
    /// [`type_stable::Error::Zero`], [`TooLarge`](type_stable::Error::TooLarge),
    /// [`OutOfMemory`](type_stable::Error::OutOfMemory).
    pub fn try_with_limit(values: usize) -> Result<RefList<T>, type_stable::Error> {
        RefList::made(VersionedWords::new(), Some(values))
    }

    /// Creates a list that uses this mechanism whatever the process has chosen, for tests and
    /// comparisons.
    #[cfg(any(test, feature = "unstable-internals"))]
    pub fn forced(mechanism: Mechanism) -> RefList<T> {
        RefList::made(VersionedWords::with_mechanism(mechanism), None).or_panic()
    }

    pub(super) fn made(
        versioned: VersionedWords,
        limit: Option<usize>,
    ) -> Result<RefList<T>, type_stable::Error> {
        let chain = Chain::new(versioned, limit)?;
        Ok(RefList { chain })
    }

    /// Returns the number of modifications plus 1, including those of counts. A new list is at
    /// version 1. Interrupted attempts may count too, as for
    /// [`Domain::version`](crate::dcas::Domain::version).
    pub fn version(&self) -> Version {
        self.chain.versioned.version()
    }

    /// Returns the mechanism that this list uses.
    pub fn mechanism(&self) -> Mechanism {
        self.chain.versioned.mechanism()
    }

    /// Returns the maximum number of values.
    pub fn limit(&self) -> usize {
        self.chain.limit()
    }

    /// Returns the number of values in the list, by counting them at one version. Takes time in
    /// proportion to it.
    pub fn len(&self) -> usize {
        until_unchanged(|| {
            let (version, mut count) = (self.chain.versioned.begin(), 0);
            self.chain.seek(version, self.chain.head(), |node| {
                count += usize::from(self.is_present(node));
                false
            })?;
            self.chain.check(version).map(|()| count)
        })
    }

    /// Returns whether the list was empty at some time during the call.
    pub fn is_empty(&self) -> bool {
        until_unchanged(|| {
            let version = self.chain.versioned.begin();
            let first = self.seek_present(version, self.chain.head())?.node;
            self.chain.check(version).map(|()| first.is_none())
        })
    }

    /// Inserts a value at the front. Constant time; one atomic instruction under OS-assisted DCAS.
    ///
    /// # Errors
    ///
    /// [`NoMemory`], which returns the value.
    pub fn push_front(&self, value: T) -> Result<(), NoMemory<T>> {
        let node = self.node_of(value)?;
        until_unchanged(|| self.link(self.chain.versioned.begin(), self.chain.head(), &node));
        node.into_raw();
        Ok(())
    }

    /// Allocates a node with this value, which the caller alone owns.
    fn node_of(&self, value: T) -> Result<Allocated<'_, Node<T>>, NoMemory<T>> {
        let node = match self.chain.allocate() {
            Ok(node) => node,
            Err(reason) => return Err(NoMemory { value, reason }),
        };
        // SAFETY: only this call owns the node. A thread that still has its address reads the words
        // only.
        unsafe { (*node.value.get()).write(value) };
        Ok(node)
    }

    /// Links a node, which the caller alone owns, before the node that a link leads to.
    fn link(&self, version: Version, link: &StableWord, node: &Node<T>) -> Result<(), Changed> {
        let behind = self.chain.load(link);
        self.chain
            .exchange(version, (link, address(node)), (&node.next, behind))
    }

    /// Returns a guard of the first value.
    pub fn front(&self) -> Option<Ref<'_, T>> {
        self.visit(None, 1).0
    }

    /// Returns a guard of the first value that satisfies `is_it`.
    pub fn find(&self, mut is_it: impl FnMut(&T) -> bool) -> Option<Ref<'_, T>> {
        let mut visited = self.front();
        while let Some(value) = visited {
            if is_it(&value) {
                return Some(value);
            }
            visited = value.into_next();
        }
        None
    }

    /// Calls `visit` with each value. [`iter`](RefList::iter) states which these are.
    pub fn for_each(&self, mut visit: impl FnMut(&T)) {
        self.find(|value| {
            visit(value);
            false
        });
    }

    /// Returns an iterator over guards of the values, from the front.
    ///
    /// No value comes twice, and each value that is in the list all the time comes, whatever other
    /// threads change meanwhile.
    pub fn iter(&self) -> RefIter<'_, T> {
        RefIter {
            list: self,
            last: None,
            ended: false,
        }
    }

    /// Removes a value from the list. Returns `false` if it has been removed already.
    ///
    /// The value is dropped with its last guard. Constant time; one atomic instruction under
    /// OS-assisted DCAS. The value's node keeps its place until then, and the release of that guard
    /// takes time in proportion to the nodes before it.
    ///
    /// # Panics
    ///
    /// If the guard belongs to another list.
    #[track_caller]
    pub fn remove(&self, value: &Ref<'_, T>) -> bool {
        assert!(std::ptr::eq(value.list, self), "a guard of another list");
        let guards = &value.node.guards;
        until_unchanged(|| {
            let version = self.chain.versioned.begin();
            let held = self.chain.load(guards);
            if held & REMOVED != 0 {
                return self.chain.check(version).map(|()| false);
            }
            self.chain
                .compare_exchange(version, (guards, held | REMOVED))?;
            Ok(true)
        })
    }

    /// Removes the first value, and returns a guard of it. One change of one word.
    pub fn pop_front(&self) -> Option<Ref<'_, T>> {
        let node = until_unchanged(|| {
            let version = self.chain.versioned.begin();
            let Some(first) = self.seek_present(version, self.chain.head())?.node else {
                return self.chain.check(version).map(|()| None);
            };
            let (guards, more) = self.one_more(first, 1);
            self.chain
                .compare_exchange(version, (guards, more | REMOVED))?;
            Ok(Some(first))
        })?;
        Some(Ref { list: self, node })
    }

    /// Returns whether a node was not removed.
    #[inline(always)]
    fn is_present(&self, node: &Node<T>) -> bool {
        self.chain.load(&node.guards) & REMOVED == 0
    }

    /// Returns the first node behind a link that was not removed.
    fn seek_present<'a>(
        &'a self,
        version: Version,
        link: &'a StableWord,
    ) -> Result<Position<'a, Node<T>>, Changed> {
        self.chain.seek(version, link, |node| self.is_present(node))
    }

    /// Returns the change that acquires so many guards of a node.
    fn one_more<'a>(&self, node: &'a Node<T>, guards: u64) -> (&'a StableWord, u64) {
        // Before the change: an audit that sees the guard sees this too, or has looked since.
        // Relaxed: the change's release orders it; pairs with the acquire of `begin` in the audit.
        if node.seen.load(Ordering::Relaxed) != 0 {
            node.seen.store(0, Ordering::Relaxed);
        }
        (&node.guards, self.chain.load(&node.guards) + guards)
    }

    /// Acquires `guards` guards, one or two, of the next value behind `from`, of which the caller
    /// has a guard, or of the first value: `VisitNextNode` in S92. If `from` says so, the same
    /// change releases the caller's guard, except at the end of the list, and except if it is the
    /// last one of a removed value. Returns one of the new guards, and whether the caller's was
    /// released.
    fn visit<'a>(
        &'a self,
        from: Option<(&'a Node<T>, bool)>,
        guards: u64,
    ) -> (Option<Ref<'a, T>>, bool) {
        let mut released = false;
        let next = until_unchanged(|| {
            let version = self.chain.versioned.begin();
            let link = from.map_or(self.chain.head(), |(node, _)| &node.next);
            // The caller's node is in the list, because it has a guard.
            let Some(next) = self.seek_present(version, link)?.node else {
                return self.chain.check(version).map(|()| None);
            };
            let more = self.one_more(next, guards);
            match from {
                Some((node, true)) if self.chain.load(&node.guards) != REMOVED + 1 => {
                    let left = self.chain.load(&node.guards) - 1;
                    self.chain.exchange(version, more, (&node.guards, left))?;
                    released = true;
                }
                _ => self.chain.compare_exchange(version, more)?,
            }
            Ok(Some(next))
        });
        (next.map(|node| Ref { list: self, node }), released)
    }

    /// Inserts a value behind a node that the caller has a guard of.
    fn insert_behind(&self, before: &Node<T>, value: T) -> Result<(), NotInserted<T>> {
        let new = match self.node_of(value) {
            Ok(new) => new,
            Err(NoMemory { value, reason }) => {
                let reason = reason.into();
                return Err(NotInserted { value, reason });
            }
        };
        let is_inserted = until_unchanged(|| {
            let version = self.chain.versioned.begin();
            if !self.is_present(before) {
                return self.chain.check(version).map(|()| false);
            }
            self.link(version, &before.next, &new).map(|()| true)
        });
        if is_inserted {
            new.into_raw();
            return Ok(());
        }
        // SAFETY: written by `node_of`. The node was in no list, so this call alone has the value,
        // and the node is freed without it.
        let value = unsafe { (*new.value.get()).assume_init_read() };
        let reason = Refused::Absent;
        Err(NotInserted { value, reason })
    }

    /// Releases a guard: `ReleaseNode` in S92.
    fn release(&self, node: &Node<T>) {
        let is_over = until_unchanged(|| {
            let version = self.chain.versioned.begin();
            match self.chain.load(&node.guards) {
                held if held == REMOVED + 1 => self.unlink(version, node).map(|()| true),
                held => {
                    self.chain
                        .compare_exchange(version, (&node.guards, held - 1))?;
                    Ok(false)
                }
            }
        });
        if is_over {
            // SAFETY: this call alone has just unlinked the node.
            drop(unsafe { self.end(node) });
        }
    }

    /// Unlinks a removed node, and takes its guards.
    fn unlink(&self, version: Version, node: &Node<T>) -> Result<(), Changed> {
        let is_it = |other: &Node<T>| std::ptr::eq(other, node);
        let link = self.chain.seek(version, self.chain.head(), is_it)?.link;
        let behind = self.chain.load(&node.next);
        self.chain.claim(node);
        self.chain
            .exchange(version, (link, behind), (&node.guards, 0))
    }

    /// Takes the value out of a node and frees the node.
    ///
    /// # Safety
    ///
    /// The caller alone has just unlinked the node, and taken its last guard.
    unsafe fn end(&self, node: &Node<T>) -> T {
        // SAFETY: the value was written before the node was linked. No guard of it is left, and no
        // thread can acquire one.
        let value = unsafe { (*node.value.get()).assume_init_read() };
        // SAFETY: no link leads to the node, and the caller alone owns it. This comes before the
        // value is dropped, because that may panic.
        unsafe { self.chain.free(node) };
        value
    }
}

impl<T: Send + Sync> Drop for RefList<T> {
    fn drop(&mut self) {
        self.chain.clear(|_, node| {
            // SAFETY: the node is in the list, so its value is initialized. The list is owned
            // exclusively, so no guard of it will be used.
            unsafe { (*node.value.get()).assume_init_read() }
        });
    }
}
