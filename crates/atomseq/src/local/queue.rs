//! A bounded queue of words: an array, and two counts of the bytes ever pushed and popped.
//!
//! ```text
//!   +------+------+------+------+------+------+----
//!   | head | tail |      | word | word |      |  …     array, 8 N bytes, N a power of two
//!   +------+------+------+------+------+------+----
//!              head & mask ^             ^ tail & mask
//! ```
//!
//! Head and tail count bytes and wrap around; `& mask` converts them to an offset.

use std::marker::PhantomData;
use std::mem::needs_drop;

use super::drain::Drain;
use super::scope::Interruptible;
use super::word::{SequenceWord, address, check_power_of_two};
use crate::AsWord;
use crate::scope::SameThread;
use crate::word::Invariant;

const HEAD: usize = 0;
const TAIL: usize = 8;
const ARRAY: usize = 16;

crate::sequence! {
    /// Pushes a word. Returns `false` if the array of `capacity` bytes is full.
    unsafe fn push(queue: Word, capacity: Word, value: Word) -> bool {
        let tail = load(queue + TAIL);
        if tail - load(queue + HEAD) == capacity { return false }
        prepare(queue + (tail & (capacity - 8)) + ARRAY, value);
        commit(queue + TAIL, tail + 8);
        true
    }

    /// Pops the oldest word.
    unsafe fn pop(queue: Word, capacity: Word) -> Option<Word> {
        let head = load(queue + HEAD);
        if head == load(queue + TAIL) { return None }
        let value = load(queue + (head & (capacity - 8)) + ARRAY);
        commit(queue + HEAD, head + 8);
        Some(value)
    }

    /// Returns the number of bytes in use.
    unsafe fn length(queue: Word) -> Word {
        let tail = load(queue + TAIL);
        let head = load(queue + HEAD);
        tail - head
    }
}

/// The sequences of this file, for the checkers in `verify/`.
#[cfg(feature = "unstable-internals")]
pub(super) const SEQUENCES: &[&crate::sequence::model::Program] =
    &[&push::MODEL, &pop::MODEL, &length::MODEL];

/// A first-in-first-out queue of up to `N` one-word elements that a thread and its signal handlers
/// share. `N` is a power of two.
///
/// Scope [`SameThread`]. No operation waits. [`push`](Queue::push) and [`pop`](Queue::pop) cost no
/// atomic instruction. A queue takes sixteen bytes and eight per element. Unlike
/// [`percpu::Queue`](crate::percpu::Queue) it does not grow. See [the module](super) for what all
/// of these structures share.
///
/// ```
/// use atomseq::local::Queue;
///
/// atomseq::local::per_thread! {
///     static SIGNALS: Queue<u32, 16> = Queue::new();
/// }
///
/// // A handler records signals, and the thread processes them later.
/// SIGNALS.with(|signals| {
///     [14, 17, 14].map(|signal| signals.push(signal).unwrap());
///     assert_eq!(signals.drain().collect::<Vec<_>>(), [14, 17, 14]);
/// });
/// ```
#[repr(C)]
pub struct Queue<T: AsWord, const N: usize> {
    head: SequenceWord,
    tail: SequenceWord,
    array: [SequenceWord; N],
    elements: Invariant<T>,
    scope: SameThread,
}

/// The field offsets that the sequences use.
const _: () = {
    assert!(HEAD == std::mem::offset_of!(Queue<usize, 1>, head));
    assert!(TAIL == std::mem::offset_of!(Queue<usize, 1>, tail));
    assert!(ARRAY == std::mem::offset_of!(Queue<usize, 1>, array));
};

// SAFETY: every operation is one sequence, so no handler finds it half done, and elements pass
// through it as words. `T: Send`: a handler may get elements that the thread pushed, and vice
// versa.
unsafe impl<T: AsWord + Send, const N: usize> Interruptible for Queue<T, N> {
    const NEEDS_DROP: bool = needs_drop::<T>();
}

impl<T: AsWord, const N: usize> Queue<T, N> {
    /// Creates an empty queue. Does not compile if `N` is not a power of two.
    pub const fn new() -> Queue<T, N> {
        const { check_power_of_two(N) };
        Queue {
            head: SequenceWord::zero(),
            tail: SequenceWord::zero(),
            array: [const { SequenceWord::zero() }; N],
            elements: PhantomData,
            scope: SameThread::new(),
        }
    }

    /// Returns the maximum number of elements, `N`.
    pub const fn capacity(&self) -> usize {
        N
    }

    /// Returns the number of elements.
    pub fn len(&self) -> usize {
        // SAFETY: the sequence only reads this queue's fields.
        unsafe { length::rolling(address(self)) / 8 }
    }

    /// Returns whether the queue is empty.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Pushes an element to the end.
    ///
    /// # Errors
    ///
    /// Returns the element if the queue is full.
    #[inline]
    pub fn push(&self, element: T) -> Result<(), T> {
        let word = element.into_word();
        // SAFETY: masked offsets lie in this queue's array. Only this thread and its handlers
        // access the queue, and a handler accesses no place outside head and tail.
        match unsafe { push::restarting(address(self), 8 * N, word) } {
            true => Ok(()),
            // SAFETY: `into_word` returned the word above, and the queue did not take it.
            false => Err(unsafe { T::from_word(word) }),
        }
    }

    /// Pops the oldest element.
    #[inline]
    pub fn pop(&self) -> Option<T> {
        // SAFETY: masked offsets lie in this queue's array, which only this thread and its handlers
        // access.
        let word = unsafe { pop::restarting(address(self), 8 * N) }?;
        // SAFETY: `push` got the word from `into_word`, and the sequence has just removed it from
        // the queue.
        Some(unsafe { T::from_word(word) })
    }

    /// Returns an iterator that removes the elements one by one, the oldest first.
    pub fn drain(&self) -> Drain<'_, T> {
        Drain::new(self)
    }
}

super::drain::bounded!(Queue<T: AsWord>);

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;

    #[test]
    fn elements_stay_in_order_across_the_end_of_the_array() {
        let queue: Queue<usize, 4> = Queue::new();
        let mut next = 0;
        for round in 0..20 {
            (0..3).for_each(|value| queue.push(3 * round + value).unwrap());
            for value in queue.drain() {
                assert_eq!(value, next);
                next += 1;
            }
        }
        assert_eq!(next, 60);
    }

    #[test]
    fn a_push_to_a_full_queue_returns_the_element() {
        let queue: Queue<i8, 2> = Queue::new();
        assert_eq!(
            [-1, -2, -3].map(|value| queue.push(value)),
            [Ok(()), Ok(()), Err(-3)]
        );
        assert_eq!((queue.len(), queue.capacity()), (2, 2));
        assert_eq!(queue.pop(), Some(-1));
        queue.push(-4).unwrap();
        assert_eq!(queue.drain().collect::<Vec<_>>(), [-2, -4]);
        assert!(queue.is_empty());
    }

    #[test]
    fn a_dropped_queue_drops_its_elements_once() {
        let shared = Arc::new(());
        let queue: Queue<Arc<()>, 4> = Queue::new();
        for _ in 0..6 {
            if let Err(refused) = queue.push(shared.clone()) {
                drop((refused, queue.pop()));
            }
        }
        assert_eq!(Arc::strong_count(&shared), queue.len() + 1);
        assert!(queue.len() > 1);
        drop(queue);
        assert_eq!(Arc::strong_count(&shared), 1);
    }
}
