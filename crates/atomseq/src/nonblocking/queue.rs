//! A bounded queue in a circular array (S92 5.2).
//!
//! ```text
//!   +------+------+------+------+------+----
//!   |      | word | word | word |      |  …
//!   +------+^-----+------+------+^-----+----
//!      head ┘               tail ┘
//! ```
//!
//! Where the processor compares two words at once, each cell has a turn beside its word, and is all
//! that a push or a pop changes: see [`ring`]. Elsewhere a cell and one end change at once, by
//! k-CAS: see [`kcas`].

use std::fmt;

use super::Error;
use super::bounded::{Bounded, Words, clear, filled};
use crate::{AsWord, platform};

mod kcas;
mod ring;

/// A bounded first-in-first-out store (S92 figure 5.6).
///
/// Scope `Machine`; lock-free; values as [the module](super) says. [`push`](Queue::push) and
/// [`pop`](Queue::pop) cost one atomic instruction each, a double-width compare-and-swap:
/// `cmpxchg16b` on x86-64, `caspal` or an exclusive pair on AArch64, on Linux. They cost none when
/// the queue is full or empty, and then store nothing: a thread that polls only reads. Elsewhere
/// they are made of k-CAS, two atomic instructions for each word and two more. Nothing allocates
/// after construction. Memory: two words for each value, and six cache lines; by k-CAS two words
/// for each of `capacity.next_power_of_two()` cells, and a thread's first operation maps [a page of
/// descriptors](crate::dcas).
///
/// A push returns `Err` only if the queue was full at some moment in the call, and a pop `None`
/// only if it was empty. A thread that is preempted, stopped or ended inside an operation keeps no
/// other waiting; in queues where a thread takes a place first and fills it afterwards, it does.
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
/// Values that may not go to another thread keep the queue from going there:
///
/// ```compile_fail,E0277
/// let queue = atomseq::nonblocking::Queue::<*mut u8>::new(4);
/// std::thread::spawn(move || queue.pop());
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
    fn by_kcas(capacity: usize) -> Option<Form> {
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
    /// A queue of up to `capacity` values.
    ///
    /// # Panics
    ///
    /// If [`try_with_capacity`](Queue::try_with_capacity) fails.
    pub fn with_capacity(capacity: usize) -> Queue<T> {
        Queue::try_with_capacity(capacity).unwrap_or_else(|error| panic!("{error}"))
    }

    /// A queue of up to `capacity` values, or why there is none.
    ///
    /// # Errors
    ///
    /// [`Error::ZeroCapacity`], [`Error::OutOfMemory`].
    pub fn try_with_capacity(capacity: usize) -> Result<Queue<T>, Error> {
        let made = Bounded::new(capacity, |capacity| {
            if !platform::has_double_width() {
                return Form::by_kcas(capacity);
            }
            // SAFETY: asked above.
            unsafe { ring::Ring::new(capacity) }.map(Form::Ring)
        });
        made.map(Queue)
    }

    /// One that uses k-CAS whatever the processor has, to test and to compare.
    #[cfg(any(test, feature = "unstable-internals"))]
    pub fn by_kcas(capacity: usize) -> Queue<T> {
        Queue(Bounded::new(capacity, Form::by_kcas).unwrap_or_else(|error| panic!("{error}")))
    }

    /// Puts a value at the end.
    ///
    /// # Errors
    ///
    /// The value, when the queue is full.
    #[inline]
    pub fn push(&self, value: T) -> Result<(), T> {
        let word = value.into_word();
        let done = match &self.0.words {
            Form::Ring(ring) => ring.push(word),
            Form::Kcas(covered) => covered.put(word),
        };
        match done {
            true => Ok(()),
            // SAFETY: made of the value above, and not stored.
            false => Err(unsafe { T::from_word(word) }),
        }
    }

    /// Takes the first value.
    #[inline]
    pub fn pop(&self) -> Option<T> {
        let word = match &self.0.words {
            Form::Ring(ring) => ring.pop(),
            Form::Kcas(covered) => covered.get(),
        };
        // SAFETY: it was in here, by `push`, up to the change that took it out, which no other pop
        // has made.
        word.map(|word| unsafe { T::from_word(word) })
    }

    /// Takes values out, one by one, the oldest first, until there are none.
    pub fn drain(&self) -> impl Iterator<Item = T> {
        std::iter::from_fn(|| self.pop())
    }

    /// How many values it can hold.
    pub fn capacity(&self) -> usize {
        self.0.words.capacity()
    }

    /// How many values it holds; history already when this returns.
    pub fn len(&self) -> usize {
        self.0.words.len()
    }

    /// Does it hold none?
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }
}

impl<T: AsWord> Drop for Queue<T> {
    fn drop(&mut self) {
        clear(self, Queue::pop);
    }
}

/// A queue that is full of these values, the first one first.
impl<T: AsWord> FromIterator<T> for Queue<T> {
    /// # Panics
    ///
    /// As [`with_capacity`](Queue::with_capacity); not for no values: then there is room for one.
    fn from_iter<I: IntoIterator<Item = T>>(values: I) -> Queue<T> {
        filled(values, Queue::with_capacity, Queue::push)
    }
}

impl<T: AsWord> fmt::Debug for Queue<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt("Queue", f)
    }
}
