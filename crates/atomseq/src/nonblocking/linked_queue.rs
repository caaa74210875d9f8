//! An unbounded queue: a list of segments of cells. [`segments`] has the protocol.

use std::fmt;

use super::NoMemory;
use crate::dcas::Adjacent;
#[cfg(any(test, feature = "unstable-internals"))]
use crate::dcas::Mechanism;
use crate::drops;
use crate::or_panic::OrPanic;
use crate::sync::{AtomicUsize, Ordering};
use crate::type_stable;

mod segments;

use segments::Segments;

/// An unbounded queue of values of any type, for any number of producers and consumers.
///
/// The scope is `Machine`, and all operations are lock-free, by any [mechanism](super#progress). A
/// thread that is preempted, stopped or has exited inside an operation does not block the others,
/// as it does in queues where a pop waits for a push that has reserved a place.
///
/// A [`push`](LinkedQueue::push) and a [`pop`](LinkedQueue::pop) cost two atomic instructions each.
/// For each 32 values, a push costs four more and a pop two; nine and seven where an end changes by
/// k-CAS, as in [`Adjacent`]. A pop that finds nothing costs none and stores nothing. Values lie in
/// segments of 32 cells, each of which has a word beside its value. A segment is reused as soon as
/// the next pop after that of its last value leaves it. It does not wait for readers, and returns
/// to the system when the queue is dropped. An empty queue holds one or two. Only the thread that
/// pops a value accesses it. A push that finds no free segment takes one as
/// [`Pool`](type_stable::Pool) does, with its exceptions from lock-freedom.
///
/// Every operation may be called in a signal handler, whatever it has interrupted.
///
/// A thread that stops inside a push or a pop withholds the segment that it uses until it
/// continues. If it exits there, it loses at most its value and this segment. If it stops in a push
/// after it has reserved a place, and a later push is over, each pop that comes to the place waits
/// for it for less than 10 µs. Then its place is revoked, and it takes another one when it
/// continues.
///
/// Where a bound is known and values fit in a word, a [`Queue`](super::Queue) takes less memory,
/// and one atomic instruction an operation.
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
pub struct LinkedQueue<T: Send> {
    segments: Segments<T>,
    limit: Option<Limit>,
}

/// A limit on the number of values, which counts them.
struct Limit {
    values: usize,
    /// How many values are in the queue, or on their way in or out.
    count: AtomicUsize,
}

impl Limit {
    /// Counts one more value. Returns `false` if there are as many as there may be.
    fn take(&self) -> bool {
        // Acquire: pairs with the release in `put_back`. Relaxed: after a failure, nothing follows.
        let counted = (self.count).fetch_update(Ordering::Acquire, Ordering::Relaxed, |count| {
            (count < self.values).then_some(count + 1)
        });
        counted.is_ok()
    }

    fn put_back(&self) {
        // Release: pairs with the acquire in `take`. The value has left before another one may
        // enter.
        self.count.fetch_sub(1, Ordering::Release);
    }
}

impl<T: Send> LinkedQueue<T> {
    /// Creates an empty queue without a limit.
    ///
    /// # Panics
    ///
    /// If there is no memory, 32 values are too large for a page of segments, or a value is aligned
    /// to more than a page of memory.
    #[track_caller]
    pub fn new() -> LinkedQueue<T> {
        LinkedQueue::made(Adjacent::new, None).or_panic()
    }

    /// Creates an empty queue of up to `values` values. A push and a pop cost one more atomic
    /// instruction each, to count them. A value counts until its pop is over; one that was lost
    /// with a thread that exited inside an operation counts from then on.
    ///
    /// # Errors
    ///
    /// [`type_stable::Error::Zero`], [`TooLarge`](type_stable::Error::TooLarge),
    /// [`OutOfMemory`](type_stable::Error::OutOfMemory),
    /// [`StartingUp`](type_stable::Error::StartingUp).
    pub fn try_with_limit(values: usize) -> Result<LinkedQueue<T>, type_stable::Error> {
        LinkedQueue::made(Adjacent::new, Some(values))
    }

    /// Creates a queue that changes its ends by a double-width instruction if the processor has
    /// one, or by k-CAS, for tests and comparisons.
    #[cfg(any(test, feature = "unstable-internals"))]
    pub fn forced(mechanism: Mechanism) -> LinkedQueue<T> {
        let pair = match mechanism {
            Mechanism::Kcas => Adjacent::by_kcas,
            _ => Adjacent::new,
        };
        LinkedQueue::made(pair, None).or_panic()
    }

    fn made(
        pair: fn(u64, u64) -> Adjacent,
        limit: Option<usize>,
    ) -> Result<LinkedQueue<T>, type_stable::Error> {
        if limit == Some(0) {
            return Err(type_stable::Error::Zero);
        }
        let segments = Segments::new(pair)?;
        if limit.is_some_and(|values| values > segments.limit()) {
            return Err(type_stable::Error::TooLarge);
        }
        let limit = limit.map(|values| Limit {
            values,
            count: AtomicUsize::new(0),
        });
        Ok(LinkedQueue { segments, limit })
    }

    /// Pushes a value at the end. Two atomic instructions.
    ///
    /// # Errors
    ///
    /// [`NoMemory`], which returns the value.
    #[inline]
    pub fn push(&self, value: T) -> Result<(), NoMemory<T>> {
        if self.limit.as_ref().is_some_and(|limit| !limit.take()) {
            let reason = type_stable::Error::LimitReached;
            return Err(NoMemory { value, reason });
        }
        self.segments.push(value).map_err(|(value, reason)| {
            self.put_back();
            NoMemory { value, reason }
        })
    }

    /// Pops the oldest value. Returns `None` if the queue is empty. Two atomic instructions, and
    /// none if the queue is empty.
    #[inline]
    pub fn pop(&self) -> Option<T> {
        let value = self.segments.pop()?;
        self.put_back();
        Some(value)
    }

    #[inline(always)]
    fn put_back(&self) {
        if let Some(limit) = &self.limit {
            limit.put_back();
        }
    }

    /// Returns an iterator that pops values, the oldest first, until the queue is empty.
    pub fn drain(&self) -> impl Iterator<Item = T> {
        std::iter::from_fn(|| self.pop())
    }

    /// Returns the number of values at some time during the call, by counting them. Takes time in
    /// proportion to it, and counts again if a value was popped meanwhile. Waits for a stopped push
    /// as a pop does, and revokes its place then, whether or not a later push is over.
    pub fn len(&self) -> usize {
        self.segments.len()
    }

    /// Returns whether the queue was empty at some time during the call.
    pub fn is_empty(&self) -> bool {
        self.segments.is_empty()
    }

    /// Returns the maximum number of values.
    pub fn limit(&self) -> usize {
        match &self.limit {
            Some(limit) => limit.values,
            None => self.segments.limit(),
        }
    }
}

impl<T: Send> Drop for LinkedQueue<T> {
    fn drop(&mut self) {
        drops::each(|| self.pop().is_some());
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
