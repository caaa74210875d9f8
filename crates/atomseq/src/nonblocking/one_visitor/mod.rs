//! A list whose values have one visitor at a time: the one-visitor mark of S92, section 5.2.3, in
//! place of reference counts.
//!
//! ```text
//! node:   next | visitor: 0 or 1 | seen | value
//!
//! visit    { next node's visitor = 1 }; moving on, also { this node's visitor = 0 }   if the version is unchanged
//! remove   { link = node.next, node.visitor = 0 }, by its visitor only                if the version is unchanged
//! ```
//!
//! Only a node's visitor removes it. So the node of a visit is in the list, and so is the node that
//! its link leads to at that version. A visitor never has to find its place again.

use std::cell::UnsafeCell;
use std::fmt;
use std::marker::PhantomData;
use std::mem::MaybeUninit;

use super::NoMemory;
use super::nodes::{self, Chain, Changed, Position, address, until_unchanged};
use crate::dcas::{Mechanism, StableWord, Version, VersionedWords};
use crate::or_panic::OrPanic;
use crate::sync::{AtomicU64, Ordering};
use crate::type_stable::{self, Descriptor};

mod audit;
mod visit;

pub use visit::Visit;

/// A node.
#[repr(C)]
pub(super) struct Node<T> {
    next: StableWord,
    /// 1 while a thread visits the node, else 0.
    visitor: StableWord,
    /// 1: an [audit](OneVisitorList::audit) has seen a visit, and none began since.
    seen: AtomicU64,
    /// Initialized while the node is in the list.
    value: UnsafeCell<MaybeUninit<T>>,
}

// SAFETY: the words are atomic. Only the node's visitor accesses the value.
unsafe impl<T: Send> Sync for Node<T> {}
// SAFETY: all zeros is a valid instance, and may appear at any time: the words are read as atomics,
// and the value is `MaybeUninit`.
unsafe impl<T: Send> Descriptor for Node<T> {}

impl<T: Send> nodes::Node for Node<T> {
    #[inline(always)]
    fn next(&self) -> &StableWord {
        &self.next
    }
}

/// A list that threads traverse at the same time, with one visitor per value at a time (S92,
/// section 5.2.3, the one-visitor mark).
///
/// A visitor marks a value when it enters it, and other visitors skip marked values, as in the run
/// queue of Synthesis. So a [`Visit`] gives `&mut T`, and its holder alone may remove the value, at
/// once. No thread waits for a mark: a value whose visitor is stopped or has exited is skipped.
///
/// The scope is `Machine`; progress is that of the [mechanism](super#progress). Moving to the next
/// value costs one change of two words: one atomic instruction under OS-assisted DCAS, at most six
/// under k-CAS. It is retried after any other change of the list. Insertion costs the same, and so
/// does removal, after a search for the place. Memory: one node per value, reused as soon as the
/// value is removed.
///
/// Every operation may be called in a signal handler. A handler that interrupted a visit skips that
/// value.
///
/// ```
/// use atomseq::nonblocking::OneVisitorList;
///
/// let tasks = OneVisitorList::new();
/// for steps in [3, 1, 2] {
///     tasks.push_front(steps)?;
/// }
/// std::thread::scope(|scope| {
///     for _ in 0..2 {
///         scope.spawn(|| while !tasks.is_empty() {
///             // Does a step of each task that no other thread visits; removes finished tasks.
///             tasks.retain(|steps| {
///                 *steps -= 1;
///                 *steps > 0
///             });
///         });
///     }
/// });
/// # Ok::<(), atomseq::nonblocking::NoMemory<i32>>(())
/// ```
///
/// Values must be `Send`:
///
/// ```compile_fail,E0277
/// atomseq::nonblocking::OneVisitorList::<std::rc::Rc<u8>>::new();
/// ```
///
/// The `&mut` of a visit is the only one:
///
/// ```compile_fail,E0505
/// let list = atomseq::nonblocking::OneVisitorList::from_iter([String::new()]);
/// let mut visit = list.visit_first().unwrap();
/// let text: &mut String = &mut visit;
/// drop(visit);
/// text.push('a');
/// ```
///
/// A visit can be shared only if the value can:
///
/// ```compile_fail,E0277
/// fn share<T: Sync>(_: T) {}
/// let list = atomseq::nonblocking::OneVisitorList::from_iter([std::cell::Cell::new(1)]);
/// share(list.visit_first());
/// ```
pub struct OneVisitorList<T: Send> {
    pub(super) chain: Chain<Node<T>>,
}

impl<T: Send> OneVisitorList<T> {
    /// Creates an empty list without a limit.
    ///
    /// # Panics
    ///
    /// If there is no memory, or a value is too large for a page of nodes.
    #[track_caller]
    pub fn new() -> OneVisitorList<T> {
        OneVisitorList::made(VersionedWords::new(), None).or_panic()
    }

    /// Creates an empty list of up to `values` values: see
    /// [`Options::limit`](type_stable::Options::limit).
    ///
    /// # Errors
    ///
    /// [`type_stable::Error::Zero`], [`TooLarge`](type_stable::Error::TooLarge),
    /// [`OutOfMemory`](type_stable::Error::OutOfMemory).
    pub fn try_with_limit(values: usize) -> Result<OneVisitorList<T>, type_stable::Error> {
        OneVisitorList::made(VersionedWords::new(), Some(values))
    }

    /// Creates a list that uses this mechanism whatever the process has chosen, for tests and
    /// comparisons.
    #[cfg(any(test, feature = "unstable-internals"))]
    pub fn forced(mechanism: Mechanism) -> OneVisitorList<T> {
        let made = OneVisitorList::made(VersionedWords::with_mechanism(mechanism), None);
        made.or_panic()
    }

    pub(super) fn made(
        versioned: VersionedWords,
        limit: Option<usize>,
    ) -> Result<OneVisitorList<T>, type_stable::Error> {
        let chain = Chain::new(versioned, limit)?;
        Ok(OneVisitorList { chain })
    }

    /// Returns the number of modifications plus 1, including those of marks. A new list is at
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

    /// Returns the number of values, by counting the nodes at one version. Takes time in proportion
    /// to it.
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
        self.push_at(self.chain.head(), value)
    }

    /// Inserts a value behind a link: that of the head, or of a node that the caller visits.
    fn push_at(&self, link: &StableWord, value: T) -> Result<(), NoMemory<T>> {
        let node = match self.chain.allocate() {
            Ok(node) => node,
            Err(reason) => return Err(NoMemory { value, reason }),
        };
        // SAFETY: only this call owns the node. A thread that still has its address reads the words
        // only.
        unsafe { (*node.value.get()).write(value) };
        until_unchanged(|| {
            let version = self.chain.versioned.begin();
            let behind = self.chain.load(link);
            self.chain
                .exchange(version, (link, address(&*node)), (&node.next, behind))
        });
        node.into_raw();
        Ok(())
    }

    /// Visits the first value that has no visitor. Returns `None` if there is none.
    pub fn visit_first(&self) -> Option<Visit<'_, T>> {
        self.visit_from(self.chain.head(), None)
    }

    /// Visits the first value behind a link that has no visitor. In the same change, ends the visit
    /// of `leave`, unless there is no such value.
    fn visit_from<'a>(
        &'a self,
        link: &'a StableWord,
        leave: Option<&Node<T>>,
    ) -> Option<Visit<'a, T>> {
        let node = until_unchanged(|| {
            let version = self.chain.versioned.begin();
            let Some(node) = self.seek_free(version, link)?.node else {
                return self.chain.check(version).map(|()| None);
            };
            // Before the change: an audit that sees the visit sees this too, or has looked since.
            // Relaxed: the change's release orders it; pairs with the acquire of `begin` in the
            // audit.
            if node.seen.load(Ordering::Relaxed) != 0 {
                node.seen.store(0, Ordering::Relaxed);
            }
            let enter = (&node.visitor, 1);
            match leave {
                Some(left) => self.chain.exchange(version, enter, (&left.visitor, 0))?,
                None => self.chain.compare_exchange(version, enter)?,
            }
            Ok(Some(node))
        })?;
        Some(Visit {
            list: self,
            node,
            value: PhantomData,
        })
    }

    /// Visits each value that has no other visitor when its turn comes.
    pub fn for_each(&self, mut visit: impl FnMut(&mut T)) {
        self.retain(|value| {
            visit(value);
            true
        });
    }

    /// Visits each value that has no other visitor when its turn comes, and removes those for which
    /// `keep` returns `false`. Each removal takes time in proportion to the values before it.
    pub fn retain(&self, mut keep: impl FnMut(&mut T) -> bool) {
        let mut visited = self.visit_first();
        while let Some(mut visit) = visited {
            visited = if keep(&mut visit) {
                visit.into_next()
            } else {
                let next = visit.next();
                drop(visit.remove());
                next
            };
        }
    }

    /// Removes the first value that has no visitor, and returns it.
    pub fn pop_front(&self) -> Option<T> {
        let node = until_unchanged(|| {
            let version = self.chain.versioned.begin();
            let place = self.seek_free(version, self.chain.head())?;
            let Some(node) = place.node else {
                return self.chain.check(version).map(|()| None);
            };
            let behind = self.chain.load(&node.next);
            self.chain.claim(node);
            self.chain.compare_exchange(version, (place.link, behind))?;
            Ok(Some(node))
        })?;
        // SAFETY: this call alone has unlinked the node, which had no visitor.
        Some(unsafe { self.end(node) })
    }

    /// Returns the first node behind a link that has no visitor.
    fn seek_free<'a>(
        &'a self,
        version: Version,
        link: &'a StableWord,
    ) -> Result<Position<'a, Node<T>>, Changed> {
        let is_free = |node: &Node<T>| self.chain.load(&node.visitor) == 0;
        self.chain.seek(version, link, is_free)
    }

    /// Unlinks a node that has a visitor, and ends the visit.
    fn unlink_visited(&self, version: Version, node: &Node<T>) -> Result<(), Changed> {
        let is_it = |other: &Node<T>| std::ptr::eq(other, node);
        let link = self.chain.seek(version, self.chain.head(), is_it)?.link;
        let behind = self.chain.load(&node.next);
        self.chain.claim(node);
        self.chain
            .exchange(version, (link, behind), (&node.visitor, 0))
    }

    /// Takes the value out of a node and frees the node.
    ///
    /// # Safety
    ///
    /// The caller alone has just unlinked the node, which had no visitor or the caller as its
    /// visitor.
    unsafe fn end(&self, node: &Node<T>) -> T {
        // SAFETY: the value was written before the node was linked. The caller promises that no
        // other thread visits the node, and none can any more.
        let value = unsafe { (*node.value.get()).assume_init_read() };
        // SAFETY: no link leads to the node, and the caller alone owns it.
        unsafe { self.chain.free(node) };
        value
    }
}

impl<T: Send> Drop for OneVisitorList<T> {
    fn drop(&mut self) {
        self.chain.clear(|_, node| {
            // SAFETY: the node is in the list, so its value is initialized. The list is owned
            // exclusively, so there is no visit.
            unsafe { (*node.value.get()).assume_init_read() }
        });
    }
}

impl<T: Send> Default for OneVisitorList<T> {
    fn default() -> Self {
        OneVisitorList::new()
    }
}

impl<T: Send> Extend<T> for OneVisitorList<T> {
    /// Inserts each value at the front.
    ///
    /// # Panics
    ///
    /// If there is no memory, or the limit is reached.
    #[track_caller]
    fn extend<I: IntoIterator<Item = T>>(&mut self, values: I) {
        for value in values {
            // Panics, as other collections do that cannot grow.
            self.push_front(value).or_panic();
        }
    }
}

impl<T: Send> FromIterator<T> for OneVisitorList<T> {
    /// Inserts each value at the front, so that the last one comes first.
    fn from_iter<I: IntoIterator<Item = T>>(values: I) -> Self {
        let mut list = OneVisitorList::new();
        list.extend(values);
        list
    }
}

impl<T: Send> fmt::Debug for OneVisitorList<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("OneVisitorList")
            .field("len", &self.len())
            .finish_non_exhaustive()
    }
}
