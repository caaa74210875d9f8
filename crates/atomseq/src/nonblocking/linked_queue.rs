//! An unbounded queue: a [`LinkedStack`] whose values enter at its tail and leave at its head.

use std::fmt;

use super::{LinkedStack, NoMemory};
use crate::dcas::{Mechanism, Version};
use crate::or_panic::OrPanic;
use crate::type_stable;

/// An unbounded queue of values of any type, for any number of producers and consumers.
///
/// It is a [`LinkedStack`] with its [`push_back`](LinkedStack::push_back) and
/// [`pop`](LinkedStack::pop), and has their properties. The scope is `Machine`; progress is that of
/// the [mechanism](super#progress): no thread that is preempted, stopped or has exited inside an
/// operation blocks the others. An operation costs one change of one or two words: one atomic
/// instruction under OS-assisted DCAS, at most six under k-CAS. Memory: one node per value, reused
/// as soon as the value is popped; it does not wait for readers, and returns to the system when the
/// queue is dropped. Only the thread that pops a value accesses it.
///
/// Every operation may be called in a signal handler, whatever it has interrupted.
///
/// Pushes and pops contend for one version number. Where a bound is known and values fit in a word,
/// a [`Queue`](super::Queue) is faster, because its pushes and pops proceed in parallel.
///
/// ```
/// use atomseq::nonblocking::LinkedQueue;
///
/// let lines = LinkedQueue::new();
/// std::thread::scope(|scope| {
///     scope.spawn(|| (0..100).for_each(|line| lines.push(format!("line {line}")).unwrap()));
///     let popped = std::iter::repeat_with(|| lines.pop()).flatten();
///     assert_eq!(popped.take(100).last().unwrap(), "line 99");
/// });
/// assert_eq!(lines.pop(), None);
/// ```
///
/// Values must be `Send`:
///
/// ```compile_fail,E0277
/// atomseq::nonblocking::LinkedQueue::<std::rc::Rc<u8>>::new();
/// ```
pub struct LinkedQueue<T: Send>(LinkedStack<T>);

impl<T: Send> LinkedQueue<T> {
    /// Creates an empty queue without a limit.
    ///
    /// # Panics
    ///
    /// If there is no memory, or a value is too large for a page of nodes.
    #[track_caller]
    pub fn new() -> LinkedQueue<T> {
        LinkedQueue(LinkedStack::new())
    }

    /// Creates an empty queue of up to `values` values: see
    /// [`Options::limit`](type_stable::Options::limit).
    ///
    /// # Errors
    ///
    /// [`type_stable::Error::Zero`], [`TooLarge`](type_stable::Error::TooLarge),
    /// [`OutOfMemory`](type_stable::Error::OutOfMemory).
    pub fn try_with_limit(values: usize) -> Result<LinkedQueue<T>, type_stable::Error> {
        LinkedStack::try_with_limit(values).map(LinkedQueue)
    }

    /// Creates a queue that uses this mechanism whatever the process has chosen, for tests and
    /// comparisons.
    #[cfg(any(test, feature = "unstable-internals"))]
    pub fn forced(mechanism: Mechanism) -> LinkedQueue<T> {
        LinkedQueue(LinkedStack::forced(mechanism))
    }

    /// Pushes a value at the end. One atomic instruction under OS-assisted DCAS.
    ///
    /// # Errors
    ///
    /// [`NoMemory`], which returns the value.
    #[inline]
    pub fn push(&self, value: T) -> Result<(), NoMemory<T>> {
        self.0.push_back(value)
    }

    /// Pops the oldest value. Returns `None` if the queue is empty. One atomic instruction under
    /// OS-assisted DCAS.
    #[inline]
    pub fn pop(&self) -> Option<T> {
        self.0.pop()
    }

    /// Returns an iterator that pops values, the oldest first, until the queue is empty.
    pub fn drain(&self) -> impl Iterator<Item = T> {
        self.0.drain()
    }

    /// Returns the number of values, by counting the nodes at one version. Takes time in proportion
    /// to it.
    pub fn len(&self) -> usize {
        self.0.len()
    }

    /// Returns whether the queue was empty at some time during the call.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Returns the maximum number of values.
    pub fn limit(&self) -> usize {
        self.0.limit()
    }

    /// Returns the version, as [`LinkedStack::version`] does.
    pub fn version(&self) -> Version {
        self.0.version()
    }

    /// Returns the mechanism that this queue uses.
    pub fn mechanism(&self) -> Mechanism {
        self.0.mechanism()
    }
}

impl<T: Send> Default for LinkedQueue<T> {
    fn default() -> Self {
        LinkedQueue::new()
    }
}

impl<T: Send> Extend<T> for LinkedQueue<T> {
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

impl<T: Send> FromIterator<T> for LinkedQueue<T> {
    /// Pushes the values in order, so that the first one is popped first.
    ///
    /// # Panics
    ///
    /// If there is no memory.
    #[track_caller]
    fn from_iter<I: IntoIterator<Item = T>>(values: I) -> Self {
        let mut queue = LinkedQueue::new();
        queue.extend(values);
        queue
    }
}

impl<T: Send> fmt::Debug for LinkedQueue<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("LinkedQueue")
            .field("len", &self.len())
            .finish_non_exhaustive()
    }
}
