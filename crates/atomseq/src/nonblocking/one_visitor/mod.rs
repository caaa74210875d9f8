//! A list whose values are visited by one at a time: S92 5.2.3's binary mark in place of counts.
//!
//! ```text
//! node:   next | visitor: 0 or 1 | value
//!
//! visit    { next node's visitor = 1 }, moving on also { this node's visitor = 0 }   if still that version
//! remove   { link = node.next, node.visitor = 0 }, by its visitor only               if still that version
//! ```
//!
//! A node is removed by nobody but its visitor, so the node that somebody stands on is in the list,
//! and so is what its link leads to at that version: nothing has to be found again.

use std::cell::UnsafeCell;
use std::fmt;
use std::marker::PhantomData;
use std::mem::MaybeUninit;

use super::NoMemory;
use super::nodes::{self, Chain, Changed, Position, address, until_unchanged};
use crate::dcas::{Mechanism, StableWord, Version, VersionedWords};
use crate::type_stable::{self, Descriptor};

mod visit;

pub use visit::Visit;

/// A node.
#[repr(C)]
struct Node<T> {
    next: StableWord,
    /// Is somebody visiting it?
    visitor: StableWord,
    /// There while it is in the list.
    value: UnsafeCell<MaybeUninit<T>>,
}

// SAFETY: words are atomic; the value is its visitor's alone.
unsafe impl<T: Send> Sync for Node<T> {}
// SAFETY: zeros are an instance, and may appear at any time: words read as atomics, and room for a
// value that is not there.
unsafe impl<T: Send> Descriptor for Node<T> {}

impl<T: Send> nodes::Node for Node<T> {
    #[inline(always)]
    fn next(&self) -> &StableWord {
        &self.next
    }
}

/// A list of values that threads go through at the same time, each value visited by one of them at
/// a time (S92 5.2.3, the one-visitor mark).
///
/// As in Synthesis' run queue, a visitor enters a value by a mark, and others pass it by. So a
/// [`Visit`] gives `&mut T`, and its holder alone may remove the value, at once. Nobody waits for a
/// mark: a value whose visitor stands still, or has ended, is passed by, and that is all.
///
/// Scope `Machine`; progress as the [mechanism](crate::dcas)'s. Going on to the next value costs
/// one exchange of two words (1 atomic instruction OS-assisted, up to 6 by k-CAS), which begins
/// again after any other change of the list; so does inserting and, after a search for the place,
/// removing. Memory is a node a value, used again as soon as the value is removed.
///
/// Every operation may be called in a signal handler; one that has interrupted a visit passes that
/// value by.
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
///             // A step of each task that nobody else is at; what is done goes.
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
/// Values move between threads:
///
/// ```compile_fail,E0277
/// atomseq::nonblocking::OneVisitorList::<std::rc::Rc<u8>>::new();
/// ```
///
/// and one visit's `&mut` is the only one:
///
/// ```compile_fail,E0505
/// let list = atomseq::nonblocking::OneVisitorList::from_iter([String::new()]);
/// let mut visit = list.visit_first().unwrap();
/// let text: &mut String = &mut visit;
/// drop(visit);
/// text.push('a');
/// ```
///
/// A visit is shared only if the value may be:
///
/// ```compile_fail,E0277
/// fn share<T: Sync>(_: T) {}
/// let list = atomseq::nonblocking::OneVisitorList::from_iter([std::cell::Cell::new(1)]);
/// share(list.visit_first());
/// ```
pub struct OneVisitorList<T: Send> {
    chain: Chain<Node<T>>,
}

impl<T: Send> OneVisitorList<T> {
    /// An empty list without a limit.
    ///
    /// # Panics
    ///
    /// If there is no memory, or values are so large that no page holds one.
    pub fn new() -> OneVisitorList<T> {
        OneVisitorList::made(VersionedWords::new(), None).unwrap_or_else(|error| panic!("{error}"))
    }

    /// The same, of up to so many values: see [`Pool::limit`](type_stable::Options::limit).
    ///
    /// # Errors
    ///
    /// [`type_stable::Error::Zero`], [`TooLarge`](type_stable::Error::TooLarge),
    /// [`OutOfMemory`](type_stable::Error::OutOfMemory).
    pub fn try_with_limit(values: usize) -> Result<OneVisitorList<T>, type_stable::Error> {
        OneVisitorList::made(VersionedWords::new(), Some(values))
    }

    /// By this mechanism whatever was chosen, to test and to compare.
    #[cfg(any(test, feature = "unstable-internals"))]
    pub fn forced(mechanism: Mechanism) -> OneVisitorList<T> {
        let made = OneVisitorList::made(VersionedWords::with_mechanism(mechanism), None);
        made.unwrap_or_else(|error| panic!("{error}"))
    }

    pub(super) fn made(
        object: VersionedWords,
        limit: Option<usize>,
    ) -> Result<OneVisitorList<T>, type_stable::Error> {
        let chain = Chain::new(object, limit)?;
        Ok(OneVisitorList { chain })
    }

    /// Returns one more than the number of changes so far, those of marks included. Interrupted
    /// attempts may count as well, as for [`Domain::version`](crate::dcas::Domain::version). A new
    /// list is at version one.
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

    /// How many values there are, counted one by one.
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
        self.push_at(&self.chain.head, value)
    }

    /// Inserts a value where a link leads: the head, or of a node that the caller visits.
    fn push_at(&self, link: &StableWord, value: T) -> Result<(), NoMemory<T>> {
        let node = match self.chain.allocate() {
            Ok(node) => node,
            Err(reason) => return Err(NoMemory { value, reason }),
        };
        // SAFETY: the node is this call's alone. Whoever still has its address looks at words only.
        unsafe { (*node.value.get()).write(value) };
        until_unchanged(|| {
            let version = self.chain.object.begin();
            let behind = self.chain.load(link);
            self.chain
                .exchange(version, (link, address(&*node)), (&node.next, behind))
        });
        node.into_raw();
        Ok(())
    }

    /// Visits the first value that nobody else visits.
    pub fn visit_first(&self) -> Option<Visit<'_, T>> {
        self.visit_from(&self.chain.head, None)
    }

    /// Visits the first value from a link on that nobody else visits, and ends the visit of another
    /// one with that; not at the end of the list.
    fn visit_from<'a>(
        &'a self,
        link: &'a StableWord,
        leave: Option<&Node<T>>,
    ) -> Option<Visit<'a, T>> {
        let node = until_unchanged(|| {
            let version = self.chain.object.begin();
            let Some(node) = self.seek_free(version, link)?.node else {
                return self.chain.check(version).map(|()| None);
            };
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

    /// Visits all values, but for those that somebody else visits when their turn comes.
    pub fn for_each(&self, mut visit: impl FnMut(&mut T)) {
        self.retain(|value| {
            visit(value);
            true
        });
    }

    /// The same, and removes the values for which `keep` says `false`.
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

    /// Takes out the first value that nobody visits.
    pub fn pop_front(&self) -> Option<T> {
        let node = until_unchanged(|| {
            let version = self.chain.object.begin();
            let place = self.seek_free(version, &self.chain.head)?;
            let Some(node) = place.node else {
                return self.chain.check(version).map(|()| None);
            };
            let behind = self.chain.load(&node.next);
            self.chain.compare_exchange(version, (place.link, behind))?;
            Ok(Some(node))
        })?;
        // SAFETY: just unlinked, while nobody visited it.
        Some(unsafe { self.end(node) })
    }

    /// The first node from a link on that nobody visits.
    fn seek_free<'a>(
        &'a self,
        version: Version,
        link: &'a StableWord,
    ) -> Result<Position<'a, Node<T>>, Changed> {
        let is_free = |node: &Node<T>| self.chain.load(&node.visitor) == 0;
        self.chain.seek(version, link, is_free)
    }

    /// Takes the value out of a node and gives the node back.
    ///
    /// # Safety
    ///
    /// The caller has just unlinked it, and it was the caller's or nobody's.
    unsafe fn end(&self, node: &Node<T>) -> T {
        // SAFETY: it was written before the node came into the list, and nobody else visits it, now
        // or later.
        let value = unsafe { (*node.value.get()).assume_init_read() };
        // SAFETY: no link leads to it, and the caller alone has it.
        unsafe { self.chain.free(node) };
        value
    }
}

impl<T: Send> Drop for OneVisitorList<T> {
    fn drop(&mut self) {
        self.chain.clear(|_, node| {
            // SAFETY: in the list, so there is a value; nobody else has the list, so there is no
            // visit.
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
    fn extend<I: IntoIterator<Item = T>>(&mut self, values: I) {
        for value in values {
            // As other collections do that cannot grow.
            self.push_front(value)
                .unwrap_or_else(|error| panic!("{error}"));
        }
    }
}

impl<T: Send> FromIterator<T> for OneVisitorList<T> {
    /// The last value comes first.
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
