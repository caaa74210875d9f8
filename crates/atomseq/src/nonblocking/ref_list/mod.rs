//! A list of anything, gone through with reference counts (S92 figure 5.7).
//!
//! ```text
//! node:   next | count of guards | position | value
//!
//! visit    { next node's count + 1 }, moving on also { this node's count - 1 }   if still that version
//! remove   { link = node.next, node.next = REMOVED }                             if still that version
//! ```
//!
//! S92's `VisitNextNode` compares a link and a count, and changes the count. The link may be one of
//! a node that was deleted under the visitor's feet, and lead to a node that was deleted after it
//! and serves another purpose by now; the figure, and the text, leave open what keeps that one
//! safe. (Counting links from deleted nodes would: but then one visitor who stands still keeps
//! everything that is deleted behind it.) Here:
//!
//! 1. A removed node's link says REMOVED, from the exchange on that removes it. So a link leads to
//!    a node in the list, at that version, and so does the count that is raised since that version.
//! 2. A node is its last guard's or, if there is none, its remover's: the exchange that takes the
//!    count to zero while the link says REMOVED, or sets REMOVED while the count is zero. There is
//!    one, since each sees the other's version.
//! 3. A visitor whose node was removed finds its place again by positions, which fall from the
//!    front to the end: a node's is the version at which it came in.
//!
//! So memory is bounded by what is in the list and what guards hold, one node each.

use std::cell::UnsafeCell;
use std::mem::MaybeUninit;

use super::nodes::{self, Chain, Changed, NO_ADDRESS, address, until_unchanged};
use crate::dcas::{Mechanism, StableWord, Version, VersionedWords};
use crate::sync::{AtomicU64, Ordering};
use crate::type_stable::{self, Descriptor};

mod collection;
mod guard;

pub use collection::{NoMemory, RefIter};
pub use guard::Ref;

/// What the link of a node holds that was removed.
const REMOVED: u64 = NO_ADDRESS;

/// A node.
#[repr(C)]
struct Node<T> {
    next: StableWord,
    /// How many guards there are.
    count: StableWord,
    position: AtomicU64,
    /// There while it is in the list, or somebody has a guard.
    value: UnsafeCell<MaybeUninit<T>>,
}

// SAFETY: words are atomic; the value is shared through guards, and taken out by the one who ends
// it.
unsafe impl<T: Send + Sync> Sync for Node<T> {}
// SAFETY: zeros are an instance, and may appear at any time: words read as atomics, and room for a
// value that is not there.
unsafe impl<T: Send + Sync> Descriptor for Node<T> {}

impl<T: Send + Sync> nodes::Node for Node<T> {
    #[inline(always)]
    fn next(&self) -> &StableWord {
        &self.next
    }
}

/// A list of values that threads may go through, insert into and remove from at the same time (S92
/// 5.2.3).
///
/// Whoever visits a value has a guard, a [`Ref`], by which it stays; a value that was removed is
/// dropped with its last guard. Nobody waits: a value can be removed while others look at it, and
/// who stands still holds up one value and nothing else.
///
/// Scope `Machine`; progress as the [mechanism](crate::dcas)'s. Going on to the next value costs
/// one exchange of two words (1 atomic instruction OS-assisted, up to 6 by k-CAS), so does
/// inserting and, after a search for the place, removing. Memory is a node for each value in the
/// list or in a guard's hands. Where visitors may exclude each other,
/// [`OneVisitorList`](super::OneVisitorList) does without counts; values that can be copied are
/// cheaper to search in a [`List`](super::List).
///
/// Every operation may be called in a signal handler. But a guard that is dropped there may be the
/// last one, and then the value's destructor runs there, too.
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
/// // It is out of the list, and still there for whoever has a guard.
/// assert_eq!(*grace, "grace");
/// assert_eq!(grace.into_inner().unwrap(), "grace");
/// # Ok::<(), atomseq::nonblocking::NoMemory<String>>(())
/// ```
///
/// Values are seen by several threads at once, and end in any:
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
    /// An empty list without a limit.
    ///
    /// # Panics
    ///
    /// If there is no memory, or values are so large that no page holds one.
    pub fn new() -> RefList<T> {
        RefList::made(VersionedWords::new(), None).unwrap_or_else(|error| panic!("{error}"))
    }

    /// The same, of up to so many values, removed ones that somebody has a guard of included: see
    /// [`Pool::limit`](type_stable::Options::limit).
    ///
    /// # Errors
    ///
    /// [`type_stable::Error::Zero`], [`TooLarge`](type_stable::Error::TooLarge),
    /// [`OutOfMemory`](type_stable::Error::OutOfMemory).
    pub fn try_with_limit(values: usize) -> Result<RefList<T>, type_stable::Error> {
        RefList::made(VersionedWords::new(), Some(values))
    }

    /// By this mechanism whatever was chosen, to test and to compare.
    #[cfg(any(test, feature = "unstable-internals"))]
    pub fn forced(mechanism: Mechanism) -> RefList<T> {
        RefList::made(VersionedWords::with_mechanism(mechanism), None)
            .unwrap_or_else(|error| panic!("{error}"))
    }

    pub(super) fn made(
        object: VersionedWords,
        limit: Option<usize>,
    ) -> Result<RefList<T>, type_stable::Error> {
        let chain = Chain::new(object, limit)?;
        Ok(RefList { chain })
    }

    /// One more than the changes that there were, those of counts included: a new list is at
    /// version 1. Interrupted attempts may count as well, as for
    /// [`Domain::version`](crate::dcas::Domain::version).
    pub fn version(&self) -> Version {
        self.chain.object.version()
    }

    /// Which mechanism it uses.
    pub fn mechanism(&self) -> Mechanism {
        self.chain.object.mechanism()
    }

    /// How many values there can be.
    pub fn limit(&self) -> usize {
        self.chain.limit()
    }

    /// How many values are in the list, counted one by one.
    pub fn len(&self) -> usize {
        self.chain.count()
    }

    /// Is there none?
    pub fn is_empty(&self) -> bool {
        let ([head], _) = self.chain.object.snapshot([&self.chain.head]);
        head == 0
    }

    /// Inserts a value at the front. Constant time.
    ///
    /// # Errors
    ///
    /// [`NoMemory`], with the value.
    pub fn push_front(&self, value: T) -> Result<(), NoMemory<T>> {
        let node = match self.chain.allocate() {
            Ok(node) => node,
            Err(reason) => return Err(NoMemory { value, reason }),
        };
        // SAFETY: the node is this call's alone. Whoever still has its address looks at words only.
        unsafe { (*node.value.get()).write(value) };
        until_unchanged(|| {
            let version = self.chain.object.begin();
            // Relaxed: shown by the exchange, or not at all.
            node.position.store(version.number(), Ordering::Relaxed);
            let head = &self.chain.head;
            let first = self.chain.load(head);
            self.chain
                .exchange(version, (head, address(&*node)), (&node.next, first))
        });
        node.into_raw();
        Ok(())
    }

    /// The first value.
    pub fn front(&self) -> Option<Ref<'_, T>> {
        self.visit(None, 1).0
    }

    /// The first value for which `is_it` says so.
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

    /// Visits every value. See [`iter`](RefList::iter) for which these are.
    pub fn for_each(&self, mut visit: impl FnMut(&T)) {
        self.find(|value| {
            visit(value);
            false
        });
    }

    /// Values from the front on.
    ///
    /// Whatever happens meanwhile, no value comes twice, and each that is in the list all the time
    /// comes.
    pub fn iter(&self) -> RefIter<'_, T> {
        RefIter {
            list: self,
            last: None,
            ended: false,
        }
    }

    /// Removes a value from the list. `false`: it is removed already.
    ///
    /// Others may have guards of it; it is dropped with the last one.
    ///
    /// # Panics
    ///
    /// If the guard is another list's.
    pub fn remove(&self, value: &Ref<'_, T>) -> bool {
        assert!(std::ptr::eq(value.list, self), "a guard of another list");
        let node = value.node;
        until_unchanged(|| {
            let version = self.chain.object.begin();
            let behind = self.chain.load(&node.next);
            if behind == REMOVED {
                return self.chain.check(version).map(|()| false);
            }
            let is_it = |other: &Node<T>| std::ptr::eq(other, node);
            let link = self.chain.seek(version, &self.chain.head, is_it)?.link;
            self.chain
                .exchange(version, (link, behind), (&node.next, REMOVED))?;
            // The caller's guard counts, so it is not this call that ends the value.
            Ok(true)
        })
    }

    /// Removes the first value.
    pub fn pop_front(&self) -> Option<Ref<'_, T>> {
        loop {
            let first = self.front()?;
            if self.remove_if_first(first.node) {
                return Some(first);
            }
        }
    }

    /// Removes a node that the caller has a guard of, if it is the first one.
    fn remove_if_first(&self, node: &Node<T>) -> bool {
        let head = &self.chain.head;
        until_unchanged(|| {
            let version = self.chain.object.begin();
            if self.chain.load(head) != address(node) {
                return self.chain.check(version).map(|()| false);
            }
            let behind = self.chain.load(&node.next);
            self.chain
                .exchange(version, (head, behind), (&node.next, REMOVED))?;
            Ok(true)
        })
    }

    /// S92's `VisitNextNode`: counts so many guards, one or two, for the node behind one that the
    /// caller has a guard of, or for the first one. And whether the caller's guard is gone with
    /// that: never at the end of the list.
    fn visit(&self, from: Option<(&Node<T>, bool)>, guards: u64) -> (Option<Ref<'_, T>>, bool) {
        let mut ended = None;
        let next = until_unchanged(|| {
            let version = self.chain.object.begin();
            let link = match from {
                None => &self.chain.head,
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
        // All guards that were counted, before a value is dropped, which may panic.
        let [next, another] = [1, 2].map(|number| {
            let node = next.filter(|_| number <= guards);
            node.map(|node| Ref { list: self, node })
        });
        if let Some(node) = ended {
            // SAFETY: this call has just taken the count of a removed node to zero.
            drop(unsafe { self.end(node) });
        }
        // The caller's, who knows how many were asked for.
        std::mem::forget(another);
        let let_go = next.is_some() && from.is_some_and(|(_, let_go)| let_go);
        (next, let_go)
    }

    /// The link to what is behind a node that the caller has a guard of.
    fn link_behind<'a>(
        &'a self,
        version: Version,
        node: &'a Node<T>,
    ) -> Result<&'a StableWord, Changed> {
        if self.chain.load(&node.next) != REMOVED {
            return Ok(&node.next);
        }
        // Relaxed: positions of nodes in the list were shown by exchanges; the version tells which
        // were.
        let position = node.position.load(Ordering::Relaxed);
        let is_behind = |other: &Node<T>| other.position.load(Ordering::Relaxed) < position;
        let place = self.chain.seek(version, &self.chain.head, is_behind)?;
        Ok(place.link)
    }

    /// S92's `ReleaseNode`.
    fn release(&self, node: &Node<T>) {
        let is_over = until_unchanged(|| {
            let version = self.chain.object.begin();
            let left = self.chain.load(&node.count) - 1;
            let is_over = left == 0 && self.chain.load(&node.next) == REMOVED;
            self.chain.compare_exchange(version, (&node.count, left))?;
            Ok(is_over)
        });
        if is_over {
            // SAFETY: this call has just taken the count of a removed node to zero.
            drop(unsafe { self.end(node) });
        }
    }

    /// Takes the value out of a node and gives the node back.
    ///
    /// # Safety
    ///
    /// It is removed, and the caller has taken the count to zero.
    unsafe fn end(&self, node: &Node<T>) -> T {
        // SAFETY: it was written before the node came into the list; nobody has a guard any more,
        // nor gets one.
        let value = unsafe { (*node.value.get()).assume_init_read() };
        // SAFETY: no link leads to it, and the caller alone has it. Before the value is dropped,
        // which may panic.
        unsafe { self.chain.free(node) };
        value
    }
}

impl<T: Send + Sync> Drop for RefList<T> {
    fn drop(&mut self) {
        self.chain.clear(|_, node| {
            // SAFETY: in the list, so there is a value; nobody else has the list, so there is no
            // guard.
            unsafe { (*node.value.get()).assume_init_read() }
        });
    }
}
