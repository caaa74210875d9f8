//! A list of values of any type, traversed with reference counts (S92, figure 5.7).
//!
//! ```text
//! node:   next | number of guards | position | value
//!
//! visit    { next node's count + 1 }; moving on, also { this node's count - 1 }   if the version is unchanged
//! remove   { link = node.next, node.next = REMOVED }                              if the version is unchanged
//! ```
//!
//! S92's `VisitNextNode` compares a link and a count, and changes the count. The link may belong to
//! a node that was removed while the visitor was there, and may lead to a node that was removed
//! later and has been reused. S92 does not say what protects that node. (Counting the links of
//! removed nodes would, but then one stopped visitor would retain all nodes that are removed behind
//! it.) The following invariants protect it here:
//!
//! 1. The change that removes a node sets its link to REMOVED. So any other link leads to a node
//!    that is in the list at that version, and so does the count that is incremented at that
//!    version.
//! 2. A removed node belongs to its last guard or, if it has none, to its remover. This is the
//!    change that takes the count to zero while the link is REMOVED, or sets REMOVED while the
//!    count is zero. There is exactly one such change, because each fails if the other has advanced
//!    the version.
//! 3. A visitor whose node was removed finds its place again by positions, which decrease from
//!    front to end. A node's position is the version at which it was inserted.
//!
//! So the memory is bounded by the values in the list and the removed values that guards hold.

use std::cell::UnsafeCell;
use std::mem::MaybeUninit;

use super::nodes::{self, Chain, Changed, NO_ADDRESS, address, until_unchanged};
use crate::dcas::{Mechanism, StableWord, Version, VersionedWords};
use crate::or_panic::OrPanic;
use crate::sync::{AtomicU64, Ordering};
use crate::type_stable::{self, Descriptor};

mod collection;
mod guard;

pub use collection::{NoMemory, RefIter};
pub use guard::Ref;

/// The link of a removed node.
const REMOVED: u64 = NO_ADDRESS;

/// A node.
#[repr(C)]
struct Node<T> {
    next: StableWord,
    /// The number of guards.
    count: StableWord,
    position: AtomicU64,
    /// Initialized while the node is in the list or has a guard.
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
/// under k-CAS. Insertion costs the same, and so does removal, after a search for the place.
/// Memory: one node for each value that is in the list or has a guard. If visitors may exclude each
/// other, a [`OneVisitorList`](super::OneVisitorList) needs no counts. Values that can be copied
/// are cheaper to search in a [`List`](super::List).
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
    chain: Chain<Node<T>>,
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

    /// Returns the number of values in the list, by counting the nodes at one version. Takes time
    /// in proportion to it.
    pub fn len(&self) -> usize {
        self.chain.count()
    }

    /// Returns whether the list was empty at some time during the call.
    pub fn is_empty(&self) -> bool {
        let ([head], _) = self.chain.versioned.snapshot([self.chain.head()]);
        head == 0
    }

    /// Inserts a value at the front. Constant time; one atomic instruction under OS-assisted DCAS.
    ///
    /// # Errors
    ///
    /// [`NoMemory`], which returns the value.
    pub fn push_front(&self, value: T) -> Result<(), NoMemory<T>> {
        let node = match self.chain.allocate() {
            Ok(node) => node,
            Err(reason) => return Err(NoMemory { value, reason }),
        };
        // SAFETY: only this call owns the node. A thread that still has its address reads the words
        // only.
        unsafe { (*node.value.get()).write(value) };
        until_unchanged(|| {
            let version = self.chain.versioned.begin();
            // Relaxed: the change below publishes it, or it does not count.
            node.position.store(version.number(), Ordering::Relaxed);
            let head = self.chain.head();
            let first = self.chain.load(head);
            self.chain
                .exchange(version, (head, address(&*node)), (&node.next, first))
        });
        node.into_raw();
        Ok(())
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
    /// The value is dropped with its last guard. Takes time in proportion to the values before it.
    ///
    /// # Panics
    ///
    /// If the guard belongs to another list.
    #[track_caller]
    pub fn remove(&self, value: &Ref<'_, T>) -> bool {
        assert!(std::ptr::eq(value.list, self), "a guard of another list");
        let node = value.node;
        until_unchanged(|| {
            let version = self.chain.versioned.begin();
            let behind = self.chain.load(&node.next);
            if behind == REMOVED {
                return self.chain.check(version).map(|()| false);
            }
            let is_it = |other: &Node<T>| std::ptr::eq(other, node);
            let link = self.chain.seek(version, self.chain.head(), is_it)?.link;
            self.chain
                .exchange(version, (link, behind), (&node.next, REMOVED))?;
            // The caller's guard still counts, so this call does not end the node.
            Ok(true)
        })
    }

    /// Removes the first value, and returns a guard of it.
    pub fn pop_front(&self) -> Option<Ref<'_, T>> {
        loop {
            let first = self.front()?;
            if self.remove_if_first(first.node) {
                return Some(first);
            }
        }
    }

    /// Removes a node that the caller has a guard of, if it is the first one. Returns whether it
    /// did.
    fn remove_if_first(&self, node: &Node<T>) -> bool {
        let head = self.chain.head();
        until_unchanged(|| {
            let version = self.chain.versioned.begin();
            if self.chain.load(head) != address(node) {
                return self.chain.check(version).map(|()| false);
            }
            let behind = self.chain.load(&node.next);
            self.chain
                .exchange(version, (head, behind), (&node.next, REMOVED))?;
            Ok(true)
        })
    }

    /// Acquires `guards` guards, one or two, of the node behind `from`, of which the caller has a
    /// guard, or of the first node: `VisitNextNode` in S92. If `from` says so, the same change
    /// releases the caller's guard, except at the end of the list. Returns the new guard, and
    /// whether the caller's was released.
    fn visit(&self, from: Option<(&Node<T>, bool)>, guards: u64) -> (Option<Ref<'_, T>>, bool) {
        let mut ended = None;
        let next = until_unchanged(|| {
            let version = self.chain.versioned.begin();
            let link = match from {
                None => self.chain.head(),
                Some((node, _)) => self.link_behind(version, node)?,
            };
            let Some(next) = self.chain.node(self.chain.load(link)) else {
                return self.chain.check(version).map(|()| None);
            };
            let more = (&next.count, self.chain.load(&next.count) + guards);
            match from {
                Some((node, true)) => {
                    let left = self.chain.load(&node.count) - 1;
                    let is_over = left == 0 && self.chain.load(&node.next) == REMOVED;
                    self.chain.exchange(version, more, (&node.count, left))?;
                    ended = is_over.then_some(node);
                }
                _ => self.chain.compare_exchange(version, more)?,
            }
            Ok(Some(next))
        });
        // Builds all guards that were counted before a value is dropped, because that may panic.
        let [next, another] = [1, 2].map(|number| {
            let node = next.filter(|_| number <= guards);
            node.map(|node| Ref { list: self, node })
        });
        if let Some(node) = ended {
            // SAFETY: this call alone has just taken the count of a removed node to zero.
            drop(unsafe { self.end(node) });
        }
        // The caller builds the second guard itself.
        std::mem::forget(another);
        let released = next.is_some() && from.is_some_and(|(_, release)| release);
        (next, released)
    }

    /// Returns the link to the successor of a node that the caller has a guard of.
    fn link_behind<'a>(
        &'a self,
        version: Version,
        node: &'a Node<T>,
    ) -> Result<&'a StableWord, Changed> {
        if self.chain.load(&node.next) != REMOVED {
            return Ok(&node.next);
        }
        // Relaxed: changes of the list have published the positions of its nodes, and the version
        // shows which ones count.
        let position = node.position.load(Ordering::Relaxed);
        let is_behind = |other: &Node<T>| other.position.load(Ordering::Relaxed) < position;
        let place = self.chain.seek(version, self.chain.head(), is_behind)?;
        Ok(place.link)
    }

    /// Releases a guard: `ReleaseNode` in S92.
    fn release(&self, node: &Node<T>) {
        let is_over = until_unchanged(|| {
            let version = self.chain.versioned.begin();
            let left = self.chain.load(&node.count) - 1;
            let is_over = left == 0 && self.chain.load(&node.next) == REMOVED;
            self.chain.compare_exchange(version, (&node.count, left))?;
            Ok(is_over)
        });
        if is_over {
            // SAFETY: this call alone has just taken the count of a removed node to zero.
            drop(unsafe { self.end(node) });
        }
    }

    /// Takes the value out of a node and frees the node.
    ///
    /// # Safety
    ///
    /// The node is removed, and the caller alone has taken its count to zero.
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
            // exclusively, so there is no guard.
            unsafe { (*node.value.get()).assume_init_read() }
        });
    }
}
