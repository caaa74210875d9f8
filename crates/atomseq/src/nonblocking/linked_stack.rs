//! A stack of nodes with insertion at its tail too (S92, figure 5.4).
//!
//! ```text
//!   head ──> node ──> node ──> node <── tail         empty: head is 0, and the tail has no meaning
//!            next     next     next                  the last node is the one that the tail names; its link has no meaning
//!
//!   push         { head = node, node.next = head }   if empty: { head = node, tail = node }
//!   push_back    { tail.next = node, tail = node }   if empty: { head = node, tail = node }
//!   pop          { head = head.next }                the last one: { head = 0 }
//! ```
//!
//! Because the tail marks the end, no change is of more than two words. Values are removed only at
//! the head. S92, section 5.2.1, says that the tail is similar; but removal there needs the node
//! before the last, which a singly linked list does not provide.

use std::cell::UnsafeCell;
use std::fmt;
use std::mem::MaybeUninit;

use super::NoMemory;
use super::nodes::{self, Chain, address, until_unchanged};
use crate::dcas::{Mechanism, StableWord, Version, VersionedWords};
use crate::drops;
use crate::or_panic::OrPanic;
use crate::type_stable::{self, Descriptor};

/// A node.
#[repr(C)]
struct Node<T> {
    next: StableWord,
    /// Initialized while the node is on the stack.
    value: UnsafeCell<MaybeUninit<T>>,
}

// SAFETY: the link is atomic. The value is accessed only by the thread that pushes the node before
// it is linked, and by the one that pops it after it is unlinked.
unsafe impl<T: Send> Sync for Node<T> {}
// SAFETY: all zeros is a valid instance, and may appear at any time: the link is read as an atomic,
// and the value is `MaybeUninit`.
unsafe impl<T: Send> Descriptor for Node<T> {}

impl<T: Send> nodes::Node for Node<T> {
    #[inline(always)]
    fn next(&self) -> &StableWord {
        &self.next
    }
}

/// An unbounded stack of values of any type, to whose end values can be added too (S92, figure
/// 5.4).
///
/// Where values are pushed at the tail alone, a [`LinkedQueue`](super::LinkedQueue) is faster: its
/// pushes and pops proceed in parallel. The scope is `Machine`; progress is that of the
/// [mechanism](super#progress). An operation costs one change of one or two words: one atomic
/// instruction under OS-assisted DCAS, at most six under k-CAS. It also takes a node from this
/// CPU's free ones, or returns it there, at no atomic instruction. Memory: one node per value,
/// reused as soon as the value is popped; it does not wait for readers. Only the thread that pops a
/// value accesses it.
///
/// Every operation may be called in a signal handler, whatever it has interrupted.
///
/// ```
/// use atomseq::nonblocking::LinkedStack;
///
/// let work = LinkedStack::from_iter(["cut", "sew"]);
/// work.push("urgent")?;
/// work.push_back("clean")?;
/// assert_eq!(work.drain().collect::<Vec<_>>(), ["urgent", "sew", "cut", "clean"]);
/// # Ok::<(), atomseq::nonblocking::NoMemory<&str>>(())
/// ```
///
/// Values must be `Send`:
///
/// ```compile_fail,E0277
/// atomseq::nonblocking::LinkedStack::<std::rc::Rc<u8>>::new();
/// ```
pub struct LinkedStack<T: Send> {
    chain: Chain<Node<T>>,
    tail: StableWord,
}

impl<T: Send> LinkedStack<T> {
    /// Creates an empty stack without a limit.
    ///
    /// # Panics
    ///
    /// If there is no memory, or a value is too large for a page of nodes.
    #[track_caller]
    pub fn new() -> LinkedStack<T> {
        LinkedStack::made(VersionedWords::new(), None).or_panic()
    }

    /// Creates an empty stack of up to `values` values: see
    /// [`Options::limit`](type_stable::Options::limit).
    ///
    /// # Errors
    ///
    /// [`type_stable::Error::Zero`], [`TooLarge`](type_stable::Error::TooLarge),
    /// [`OutOfMemory`](type_stable::Error::OutOfMemory).
    pub fn try_with_limit(values: usize) -> Result<LinkedStack<T>, type_stable::Error> {
        LinkedStack::made(VersionedWords::new(), Some(values))
    }

    /// Creates a stack that uses this mechanism whatever the process has chosen, for tests and
    /// comparisons.
    #[cfg(any(test, feature = "unstable-internals"))]
    pub fn forced(mechanism: Mechanism) -> LinkedStack<T> {
        let made = LinkedStack::made(VersionedWords::with_mechanism(mechanism), None);
        made.or_panic()
    }

    pub(super) fn made(
        versioned: VersionedWords,
        limit: Option<usize>,
    ) -> Result<LinkedStack<T>, type_stable::Error> {
        Ok(LinkedStack {
            chain: Chain::new(versioned, limit)?,
            tail: StableWord::default(),
        })
    }

    /// Pushes a value at the head. One atomic instruction under OS-assisted DCAS.
    ///
    /// # Errors
    ///
    /// [`NoMemory`], which returns the value.
    #[inline]
    pub fn push(&self, value: T) -> Result<(), NoMemory<T>> {
        self.push_at(value, |version| version)
    }

    /// Pushes, with `gap` between the reads and the change. The change succeeds only if the version
    /// that `gap` returns is still current.
    #[cfg(test)]
    pub(super) fn push_between(
        &self,
        value: T,
        mut gap: impl FnMut(Version) -> Version,
    ) -> Result<(), NoMemory<T>> {
        self.push_at(value, |version| nodes::between(version, &mut gap))
    }

    #[inline]
    fn push_at(
        &self,
        value: T,
        mut gap: impl FnMut(Version) -> Version,
    ) -> Result<(), NoMemory<T>> {
        self.insert(value, |node| {
            let version = self.chain.versioned.begin();
            let head = self.chain.load(self.chain.head());
            let second = match head {
                0 => (&self.tail, address(node)),
                _ => (&node.next, head),
            };
            self.chain
                .exchange(gap(version), (self.chain.head(), address(node)), second)
        })
    }

    /// Adds a value at the tail. One atomic instruction under OS-assisted DCAS.
    ///
    /// # Errors
    ///
    /// [`NoMemory`], which returns the value.
    #[inline]
    pub fn push_back(&self, value: T) -> Result<(), NoMemory<T>> {
        self.insert(value, |node| {
            let version = self.chain.versioned.begin();
            let head = self.chain.load(self.chain.head());
            let tail = self.chain.load(&self.tail);
            let first = match self.chain.node(tail).filter(|_| head != 0) {
                Some(last) => &last.next,
                None => self.chain.head(),
            };
            let node = address(node);
            self.chain
                .exchange(version, (first, node), (&self.tail, node))
        })
    }

    /// Fills a node, and calls `link` until it succeeds.
    #[inline]
    fn insert(
        &self,
        value: T,
        mut link: impl FnMut(&Node<T>) -> Result<(), nodes::Changed>,
    ) -> Result<(), NoMemory<T>> {
        let node = match self.chain.allocate() {
            Ok(node) => node,
            Err(reason) => return Err(NoMemory { value, reason }),
        };
        // SAFETY: only this call owns the node. A thread that still has its address reads the link
        // only.
        unsafe { (*node.value.get()).write(value) };
        until_unchanged(|| link(&node));
        node.into_raw();
        Ok(())
    }

    /// Pops the value at the head. Returns `None` if the stack is empty. One atomic instruction
    /// under OS-assisted DCAS.
    #[inline]
    pub fn pop(&self) -> Option<T> {
        // SAFETY: the closure returns the version itself, which is not later.
        unsafe { self.pop_at(|version| version) }
    }

    /// Pops, with `gap` between the reads and the change. The change succeeds only if the version
    /// that `gap` returns is still current.
    #[cfg(any(test, feature = "unstable-internals"))]
    #[inline]
    pub fn pop_between(&self, mut gap: impl FnMut(Version) -> Version) -> Option<T> {
        // SAFETY: `between` returns no later version than it gets.
        unsafe { self.pop_at(|version| nodes::between(version, &mut gap)) }
    }

    /// Pops, with `gap` between the reads and the change.
    ///
    /// # Safety
    ///
    /// `gap` returns no later version than it gets. With a later one, reads of an earlier version
    /// would count.
    #[inline(always)]
    pub(super) unsafe fn pop_at(&self, mut gap: impl FnMut(Version) -> Version) -> Option<T> {
        let chain = &self.chain;
        let node = until_unchanged(|| {
            let version = chain.versioned.begin();
            let head = chain.load(chain.head());
            let Some(node) = chain.node(head) else {
                return chain.check(version).map(|()| None);
            };
            let is_last = chain.load(&self.tail) == head;
            // The node may have left this stack. Then the version has changed, and the change below
            // fails.
            let next = if is_last { 0 } else { chain.load(&node.next) };
            chain
                .compare_exchange(gap(version), (chain.head(), next))
                .map(|()| Some(node))
        })?;
        // SAFETY: the value was written before the node was linked, and this call alone has
        // unlinked it.
        let value = unsafe { (*node.value.get()).assume_init_read() };
        // SAFETY: this call has just unlinked the node, so it owns it, and no link leads to it.
        unsafe { chain.free(node) };
        Some(value)
    }

    /// Returns an iterator that pops values until the stack is empty.
    pub fn drain(&self) -> impl Iterator<Item = T> {
        std::iter::from_fn(|| self.pop())
    }

    /// Returns the number of values, by counting the nodes at one version. Takes time in proportion
    /// to it.
    pub fn len(&self) -> usize {
        let chain = &self.chain;
        until_unchanged(|| {
            let (version, mut count) = (chain.versioned.begin(), 0);
            let tail = chain.load(&self.tail);
            chain.seek(version, chain.head(), |node| {
                count += 1;
                address(node) == tail
            })?;
            chain.check(version).map(|()| count)
        })
    }

    /// Returns whether the stack was empty at some time during the call.
    pub fn is_empty(&self) -> bool {
        let ([head], _) = self.chain.versioned.snapshot([self.chain.head()]);
        head == 0
    }

    /// Returns the maximum number of values.
    pub fn limit(&self) -> usize {
        self.chain.limit()
    }

    /// Returns the number of modifications plus 1 (GC96, section 5.3). A new stack is at version 1.
    /// Interrupted attempts may count too, as for
    /// [`Domain::version`](crate::dcas::Domain::version).
    pub fn version(&self) -> Version {
        self.chain.versioned.version()
    }

    /// Returns the mechanism that this stack uses.
    pub fn mechanism(&self) -> Mechanism {
        self.chain.versioned.mechanism()
    }
}

impl<T: Send> Drop for LinkedStack<T> {
    fn drop(&mut self) {
        /// Rolls back or completes what an exited thread left unfinished, even if a value's
        /// destructor panics.
        struct Finish<'a>(&'a VersionedWords);

        impl Drop for Finish<'_> {
            fn drop(&mut self) {
                self.0.begin();
            }
        }

        let _finish = Finish(&self.chain.versioned);
        drops::each(|| self.pop().is_some());
    }
}

impl<T: Send> Default for LinkedStack<T> {
    fn default() -> Self {
        LinkedStack::new()
    }
}

impl<T: Send> Extend<T> for LinkedStack<T> {
    /// Pushes each value.
    ///
    /// # Panics
    ///
    /// If there is no memory, or the limit is reached.
    #[track_caller]
    fn extend<I: IntoIterator<Item = T>>(&mut self, values: I) {
        for value in values {
            // Panics, as other collections do that cannot grow.
            self.push(value).or_panic();
        }
    }
}

impl<T: Send> FromIterator<T> for LinkedStack<T> {
    /// Pushes the values in order, so that the last one is on top.
    fn from_iter<I: IntoIterator<Item = T>>(values: I) -> Self {
        let mut stack = LinkedStack::new();
        stack.extend(values);
        stack
    }
}

impl<T: Send> fmt::Debug for LinkedStack<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("LinkedStack")
            .field("len", &self.len())
            .finish_non_exhaustive()
    }
}
