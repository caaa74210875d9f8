//! A stack of nodes, with insertion at its tail as well (S92 figure 5.4).
//!
//! ```text
//!   head ──> node ──> node ──> node <── tail         empty: head is 0, and the tail means nothing
//!            next     next     next                  the last node's link means nothing: it is the last by being the tail
//!
//!   push         { head = node, node.next = head }   empty: { head = node, tail = node }
//!   push_back    { tail.next = node, tail = node }   empty: the same
//!   pop          { head = head.next }                the last: { head = 0 }
//! ```
//!
//! Since the end is told by the tail, no change is of more than two words. What is deleted is
//! deleted at the head: S92 5.2.1 says that the end is like it, but to delete there takes the node
//! before the last, which a list of single links does not know.

use std::cell::UnsafeCell;
use std::fmt;
use std::mem::MaybeUninit;

use super::NoMemory;
use super::nodes::{self, Chain, address, until_unchanged};
use crate::dcas::{Mechanism, StableWord, Version, VersionedWords};
use crate::drops;
use crate::type_stable::{self, Descriptor};

/// A node.
#[repr(C)]
struct Node<T> {
    next: StableWord,
    /// There while it is on the stack.
    value: UnsafeCell<MaybeUninit<T>>,
}

// SAFETY: the word is atomic; the value belongs to whoever put the node there, or took it off.
unsafe impl<T: Send> Sync for Node<T> {}
// SAFETY: zeros are an instance, and may appear at any time: a word read as an atomic, and room for
// a value that is not there.
unsafe impl<T: Send> Descriptor for Node<T> {}

impl<T: Send> nodes::Node for Node<T> {
    #[inline(always)]
    fn next(&self) -> &StableWord {
        &self.next
    }
}

/// An unbounded last-in-first-out store of values of any type, to whose end values can be added as
/// well (S92 figure 5.4).
///
/// With [`push_back`](LinkedStack::push_back) and [`pop`](LinkedStack::pop) alone it is a
/// first-in-first-out queue. Scope `Machine`; progress as the [mechanism](crate::dcas)'s. An
/// operation costs one exchange of one or two words (1 atomic instruction OS-assisted, up to 6 by
/// k-CAS), and a node taken from this CPU's free ones or given back to them, which costs none.
/// Memory is a node a value, used again as soon as the value is popped: nothing waits for readers.
/// A value is its popper's own, and nobody looks at one that is on the stack.
///
/// Every operation may be called in a signal handler, whatever that has interrupted.
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
/// Values move between threads:
///
/// ```compile_fail,E0277
/// atomseq::nonblocking::LinkedStack::<std::rc::Rc<u8>>::new();
/// ```
pub struct LinkedStack<T: Send> {
    chain: Chain<Node<T>>,
    tail: StableWord,
}

impl<T: Send> LinkedStack<T> {
    /// An empty stack without a limit.
    ///
    /// # Panics
    ///
    /// If there is no memory, or values are so large that no page holds one.
    pub fn new() -> LinkedStack<T> {
        LinkedStack::made(VersionedWords::new(), None).unwrap_or_else(|error| panic!("{error}"))
    }

    /// The same, of up to so many values: see [`Pool::limit`](type_stable::Options::limit).
    ///
    /// # Errors
    ///
    /// [`type_stable::Error::Zero`], [`TooLarge`](type_stable::Error::TooLarge),
    /// [`OutOfMemory`](type_stable::Error::OutOfMemory).
    pub fn try_with_limit(values: usize) -> Result<LinkedStack<T>, type_stable::Error> {
        LinkedStack::made(VersionedWords::new(), Some(values))
    }

    /// By this mechanism whatever was chosen, to test and to compare.
    #[cfg(any(test, feature = "unstable-internals"))]
    pub fn forced(mechanism: Mechanism) -> LinkedStack<T> {
        let made = LinkedStack::made(VersionedWords::with_mechanism(mechanism), None);
        made.unwrap_or_else(|error| panic!("{error}"))
    }

    pub(super) fn made(
        object: VersionedWords,
        limit: Option<usize>,
    ) -> Result<LinkedStack<T>, type_stable::Error> {
        Ok(LinkedStack {
            chain: Chain::new(object, limit)?,
            tail: StableWord::default(),
        })
    }

    /// Puts a value on top.
    ///
    /// # Errors
    ///
    /// [`NoMemory`], with the value.
    #[inline]
    pub fn push(&self, value: T) -> Result<(), NoMemory<T>> {
        self.push_at(value, |version| version)
    }

    /// The same, with something between the look at the stack and the change, which is made only if
    /// nothing has changed since the version that it returns.
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
            let version = self.chain.object.begin();
            let head = self.chain.load(&self.chain.head);
            let second = match head {
                0 => (&self.tail, address(node)),
                _ => (&node.next, head),
            };
            self.chain
                .exchange(gap(version), (&self.chain.head, address(node)), second)
        })
    }

    /// Puts a value under all others.
    ///
    /// # Errors
    ///
    /// [`NoMemory`], with the value.
    #[inline]
    pub fn push_back(&self, value: T) -> Result<(), NoMemory<T>> {
        self.insert(value, |node| {
            let version = self.chain.object.begin();
            let head = self.chain.load(&self.chain.head);
            let tail = self.chain.load(&self.tail);
            let first = match self.chain.node(tail).filter(|_| head != 0) {
                Some(last) => &last.next,
                None => &self.chain.head,
            };
            let node = address(node);
            self.chain
                .exchange(version, (first, node), (&self.tail, node))
        })
    }

    /// Fills a node, and links it by an attempt that is repeated until it succeeds.
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
        // SAFETY: the node is this call's alone. Whoever still has its address looks at the link
        // only.
        unsafe { (*node.value.get()).write(value) };
        until_unchanged(|| link(&node));
        node.into_raw();
        Ok(())
    }

    /// Takes the value on top.
    #[inline]
    pub fn pop(&self) -> Option<T> {
        // SAFETY: the version is not later.
        unsafe { self.pop_at(|version| version) }
    }

    /// The same, with `gap` between the look at the stack and the change, which is made only if
    /// nothing has changed since the version that it returns.
    #[cfg(any(test, feature = "unstable-internals"))]
    #[inline]
    pub fn pop_between(&self, mut gap: impl FnMut(Version) -> Version) -> Option<T> {
        // SAFETY: what the gap makes of a version is not later.
        unsafe { self.pop_at(|version| nodes::between(version, &mut gap)) }
    }

    /// # Safety
    ///
    /// What `gap` makes of a version is not later: what was looked at before would count for it.
    #[inline(always)]
    pub(super) unsafe fn pop_at(&self, mut gap: impl FnMut(Version) -> Version) -> Option<T> {
        let chain = &self.chain;
        let node = until_unchanged(|| {
            let version = chain.object.begin();
            let head = chain.load(&chain.head);
            let Some(node) = chain.node(head) else {
                return chain.check(version).map(|()| None);
            };
            let is_last = chain.load(&self.tail) == head;
            // Perhaps not of this stack any more; then the version is not either.
            let next = if is_last { 0 } else { chain.load(&node.next) };
            chain
                .compare_exchange(gap(version), (&chain.head, next))
                .map(|()| Some(node))
        })?;
        // SAFETY: written before the node came onto the stack, from where this call has taken it.
        let value = unsafe { (*node.value.get()).assume_init_read() };
        // SAFETY: just unlinked, by this call alone.
        unsafe { chain.free(node) };
        Some(value)
    }

    /// Takes values off, one by one, until there are none.
    pub fn drain(&self) -> impl Iterator<Item = T> {
        std::iter::from_fn(|| self.pop())
    }

    /// How many values there are, counted one by one.
    pub fn len(&self) -> usize {
        let chain = &self.chain;
        until_unchanged(|| {
            let (version, mut count) = (chain.object.begin(), 0);
            let tail = chain.load(&self.tail);
            chain.seek(version, &chain.head, |node| {
                count += 1;
                address(node) == tail
            })?;
            chain.check(version).map(|()| count)
        })
    }

    /// Is there none?
    pub fn is_empty(&self) -> bool {
        let ([head], _) = self.chain.object.snapshot([&self.chain.head]);
        head == 0
    }

    /// How many values there can be.
    pub fn limit(&self) -> usize {
        self.chain.limit()
    }

    /// One more than the modifications that it has had (GC96 5.3): a new stack is at version 1.
    /// Interrupted attempts may count as well, as for
    /// [`Domain::version`](crate::dcas::Domain::version).
    pub fn version(&self) -> Version {
        self.chain.object.version()
    }

    /// Which mechanism it uses.
    pub fn mechanism(&self) -> Mechanism {
        self.chain.object.mechanism()
    }
}

impl<T: Send> Drop for LinkedStack<T> {
    fn drop(&mut self) {
        /// Undoes what a thread has left half done that exited in the middle, also if a value
        /// panics when it is dropped.
        struct Finish<'a>(&'a VersionedWords);

        impl Drop for Finish<'_> {
            fn drop(&mut self) {
                self.0.begin();
            }
        }

        let _finish = Finish(&self.chain.object);
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
    fn extend<I: IntoIterator<Item = T>>(&mut self, values: I) {
        for value in values {
            // As other collections do that cannot grow.
            self.push(value).unwrap_or_else(|error| panic!("{error}"));
        }
    }
}

impl<T: Send> FromIterator<T> for LinkedStack<T> {
    /// The last value is on top.
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
