//! A bounded queue in a circular array (S92, section 5.2).
//!
//! ```text
//!   +------+------+------+------+------+----
//!   |      | word | word | word |      |  …
//!   +------+^-----+------+------+^-----+----
//!      head ┘               tail ┘
//! ```
//!
//! If the processor has a double-width compare-and-swap, each cell has a turn beside its word, and
//! a push or a pop changes only this pair: see [`ring`]. Otherwise k-CAS changes a cell and one end
//! at once: see [`kcas`].

use std::fmt;

use super::Error;
use super::bounded::{Bounded, Words, clear, filled};
use crate::or_panic::OrPanic;
use crate::{AsWord, platform};

mod kcas;
mod ring;

/// A bounded queue of one-word values (S92, figure 5.6).
///
/// The scope is `Machine`, and all operations are lock-free. [`push`](Queue::push) and
/// [`pop`](Queue::pop) cost one atomic instruction each, a double-width compare-and-swap:
/// `cmpxchg16b` on x86-64, `caspal` or an exclusive pair on AArch64, on Linux. If the queue is full
/// or empty, they cost none. Before they fail, they may wait for the other end, for [at most 512
/// pauses in which nothing changes there](crate::docs::internals#queues-in-arrays). A thread that
/// polls waits once, and then only reads. Elsewhere they use k-CAS, with 2k + 2 atomic instructions
/// for k words, and do not wait. No operation allocates after construction, except that a thread's
/// first k-CAS maps [a page of descriptors](crate::dcas#mechanisms). Memory: two words per value
/// and six cache lines; under k-CAS, two words for each of `capacity.next_power_of_two()` cells.
///
/// A push fails only if the queue was full at some time during the call, and a pop only if it was
/// empty. A thread that is preempted, stopped or has exited inside an operation does not block the
/// others. In queues where a thread first reserves a cell and fills it later, it does.
///
/// ```
/// use atomseq::nonblocking::Queue;
///
/// let queue = Queue::with_capacity(4);
/// std::thread::scope(|scope| {
///     scope.spawn(|| (0..100u64).for_each(|value| while queue.push(value).is_err() {}));
///     let popped = std::iter::repeat_with(|| queue.pop()).flatten();
///     assert_eq!(popped.take(100).collect::<Vec<_>>(), Vec::from_iter(0..100));
/// });
/// assert_eq!(queue.pop(), None);
/// ```
///
/// If the values are not `Send`, neither is the queue:
///
/// ```compile_fail,E0277
/// let queue = atomseq::nonblocking::Queue::<*mut u8>::with_capacity(4);
/// std::thread::spawn(move || drop(queue));
/// ```
pub struct Queue<T: AsWord>(Bounded<T, Form>);

#[allow(
    clippy::large_enum_variant,
    reason = "what a queue is where it matters lies in the queue itself"
)]
enum Form {
    Ring(ring::Ring),
    Kcas(kcas::Covered),
}

impl Form {
    fn covered(capacity: usize) -> Option<Form> {
        let cells = capacity.checked_next_power_of_two()?;
        kcas::Covered::new(cells, capacity).map(Form::Kcas)
    }
}

impl Words for Form {
    fn capacity(&self) -> usize {
        match self {
            Form::Ring(ring) => ring.capacity(),
            Form::Kcas(covered) => covered.capacity,
        }
    }

    fn len(&self) -> usize {
        match self {
            Form::Ring(ring) => ring.len(),
            Form::Kcas(covered) => covered.len(),
        }
    }
}

impl<T: AsWord> Queue<T> {
    /// Creates a queue of up to `capacity` values.
    ///
    /// # Panics
    ///
    /// If [`try_with_capacity`](Queue::try_with_capacity) fails.
    #[track_caller]
    pub fn with_capacity(capacity: usize) -> Queue<T> {
        Queue::try_with_capacity(capacity).or_panic()
    }

    /// Creates a queue of up to `capacity` values.
    ///
    /// # Errors
    ///
    /// [`Error::ZeroCapacity`], [`Error::OutOfMemory`].
    pub fn try_with_capacity(capacity: usize) -> Result<Queue<T>, Error> {
        let made = Bounded::new(capacity, |capacity| {
            if !platform::has_double_width() {
                return Form::covered(capacity);
            }
            // SAFETY: `has_double_width` has just returned `true`.
            unsafe { ring::Ring::new(capacity) }.map(Form::Ring)
        });
        made.map(Queue)
    }

    /// Creates a queue that uses k-CAS on every processor, for tests and comparisons.
    #[cfg(any(test, feature = "unstable-internals"))]
    pub fn by_kcas(capacity: usize) -> Queue<T> {
        Queue(Bounded::new(capacity, Form::covered).or_panic())
    }

    /// Pushes a value at the end. One atomic instruction, and none if the queue is full. Under
    /// k-CAS it changes up to three words, which costs four to eight.
    ///
    /// # Errors
    ///
    /// The value, if the queue is full.
    #[inline]
    pub fn push(&self, value: T) -> Result<(), T> {
        let word = value.into_word();
        let done = match &self.0.words {
            Form::Ring(ring) => ring.push(word),
            Form::Kcas(covered) => covered.put(word),
        };
        match done {
            true => Ok(()),
            // SAFETY: `word` comes from `into_word` above and was not stored, so it is converted
            // back once.
            false => Err(unsafe { T::from_word(word) }),
        }
    }

    /// Pops the oldest value. Returns `None` if the queue is empty. One atomic instruction, and
    /// none if the queue is empty. Under k-CAS it changes one word, which costs four.
    #[inline]
    pub fn pop(&self) -> Option<T> {
        let word = match &self.0.words {
            Form::Ring(ring) => ring.pop(),
            Form::Kcas(covered) => covered.get(),
        };
        // SAFETY: `push` stored the word, and the change that took it out succeeded for this call
        // alone. So it is converted back once.
        word.map(|word| unsafe { T::from_word(word) })
    }

    /// Returns an iterator that pops values, the oldest first, until the queue is empty.
    pub fn drain(&self) -> impl Iterator<Item = T> {
        std::iter::from_fn(|| self.pop())
    }

    /// Returns the maximum number of values.
    pub fn capacity(&self) -> usize {
        self.0.words.capacity()
    }

    /// Returns the number of values at some time during the call.
    pub fn len(&self) -> usize {
        self.0.words.len()
    }

    /// Returns whether the queue was empty at some time during the call.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Returns whether the queue was full at some time during the call.
    pub fn is_full(&self) -> bool {
        self.len() == self.capacity()
    }
}

impl<T: AsWord> Drop for Queue<T> {
    fn drop(&mut self) {
        clear(self, Queue::pop);
    }
}

/// Collects values into a full queue, the first one first.
impl<T: AsWord> FromIterator<T> for Queue<T> {
    /// # Panics
    ///
    /// As [`with_capacity`](Queue::with_capacity), except that no values make an empty queue of
    /// capacity 1.
    #[track_caller]
    fn from_iter<I: IntoIterator<Item = T>>(values: I) -> Queue<T> {
        filled(values, Queue::try_with_capacity, Queue::push)
    }
}

impl<T: AsWord> fmt::Debug for Queue<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt("Queue", f)
    }
}
