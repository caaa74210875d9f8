//! A bounded queue of words: an array, and how much ever went in and out.
//!
//! ```text
//!   +------+------+------+------+------+------+----
//!   | head | tail |      | word | word |      |  …     array, 8 N bytes, N a power of two
//!   +------+------+------+------+------+------+----
//!              head & mask ^             ^ tail & mask
//! ```
//!
//! Head and tail count bytes and wrap around; `& mask` makes an offset of them.

use std::fmt;
use std::marker::PhantomData;
use std::mem::needs_drop;

use super::drain::{Drain, Take};
use super::scope::Interruptible;
use super::word::{SequenceWord, address, check_power_of_two};
use crate::AsWord;
use crate::scope::SameThread;
use crate::word::Invariant;

const HEAD: usize = 0;
const TAIL: usize = 8;
const ARRAY: usize = 16;

crate::sequence! {
    /// Puts a word behind the last; `false` when the array of `capacity` bytes is full.
    unsafe fn push(queue: Word, capacity: Word, value: Word) -> bool {
        let tail = load(queue + TAIL);
        if tail - load(queue + HEAD) == capacity { return false }
        prepare(queue + (tail & (capacity - 8)) + ARRAY, value);
        commit(queue + TAIL, tail + 8);
        true
    }

    /// Takes the first word.
    unsafe fn pop(queue: Word, capacity: Word) -> Option<Word> {
        let head = load(queue + HEAD);
        if head == load(queue + TAIL) { return None }
        let value = load(queue + (head & (capacity - 8)) + ARRAY);
        commit(queue + HEAD, head + 8);
        Some(value)
    }

    /// How many bytes are full.
    unsafe fn length(queue: Word) -> Word {
        let tail = load(queue + TAIL);
        let head = load(queue + HEAD);
        tail - head
    }
}

/// For the checkers in `verify/`.
#[cfg(feature = "unstable-internals")]
pub(super) const SEQUENCES: &[&crate::sequence::model::Program] =
    &[&push::MODEL, &pop::MODEL, &length::MODEL];

/// A first-in-first-out store of up to `N` one-word elements, `N` a power of two, that a thread and
/// its signal handlers share.
///
/// Scope [`SameThread`]; no operation waits; [`push`](Queue::push) and [`pop`](Queue::pop) cost no
/// atomic instruction. Takes sixteen bytes and eight an element; [the module](super) tells the
/// rest. Unlike [`percpu::Queue`](crate::percpu::Queue) it does not grow.
///
/// ```
/// use atomseq::local::Queue;
///
/// atomseq::local::per_thread! {
///     static SIGNALS: Queue<u32, 16> = Queue::new();
/// }
///
/// // A handler notes what came, and the thread works it off when it has time.
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

/// Where the sequences look for the fields.
const _: () = {
    assert!(HEAD == std::mem::offset_of!(Queue<usize, 1>, head));
    assert!(TAIL == std::mem::offset_of!(Queue<usize, 1>, tail));
    assert!(ARRAY == std::mem::offset_of!(Queue<usize, 1>, array));
};

// SAFETY: every operation is one sequence, and elements pass through it as words. `Send`: a handler
// may end up with what the thread put in, and the other way round.
unsafe impl<T: AsWord + Send, const N: usize> Interruptible for Queue<T, N> {
    const NEEDS_DROP: bool = needs_drop::<T>();
}

impl<T: AsWord, const N: usize> Queue<T, N> {
    /// An empty queue. `N` that is not a power of two does not compile.
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

    /// How many elements there is room for: `N`.
    pub const fn capacity(&self) -> usize {
        N
    }

    /// How many elements there are.
    pub fn len(&self) -> usize {
        // SAFETY: reads this queue.
        unsafe { length::rolling(address(self)) / 8 }
    }

    /// Is there no element?
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Puts an element at the end.
    ///
    /// # Errors
    ///
    /// The element, if the queue is full.
    #[inline]
    pub fn push(&self, element: T) -> Result<(), T> {
        let word = element.into_word();
        // SAFETY: masked offsets lie in the array of this queue, which only this thread and its
        // handlers have; a handler looks at no word that is not between head and tail.
        match unsafe { push::restarting(address(self), 8 * N, word) } {
            true => Ok(()),
            // SAFETY: the word was made above, and the queue did not take it.
            false => Err(unsafe { T::from_word(word) }),
        }
    }

    /// Takes the oldest element.
    #[inline]
    pub fn pop(&self) -> Option<T> {
        // SAFETY: as in `push`.
        let word = unsafe { pop::restarting(address(self), 8 * N) }?;
        // SAFETY: `push` made the word, and it left the queue just now.
        Some(unsafe { T::from_word(word) })
    }

    /// Takes the elements out, one by one, the oldest first.
    pub fn drain(&self) -> Drain<'_, T> {
        Drain::new(self)
    }
}

impl<T: AsWord, const N: usize> Take<T> for Queue<T, N> {
    fn take(&self, _cursor: &mut usize) -> Option<T> {
        self.pop()
    }
}

impl<T: AsWord, const N: usize> Drop for Queue<T, N> {
    fn drop(&mut self) {
        if needs_drop::<T>() {
            let mut values = self.drain();
            crate::drops::each(|| values.next().is_some());
        }
    }
}

impl<T: AsWord, const N: usize> Default for Queue<T, N> {
    fn default() -> Queue<T, N> {
        Queue::new()
    }
}

impl<T: AsWord, const N: usize> fmt::Debug for Queue<T, N> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Queue")
            .field("len", &self.len())
            .field("capacity", &N)
            .field("scope", &self.scope)
            .finish()
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;

    #[test]
    fn first_in_first_out_around_the_end_of_the_array() {
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
    fn holds_its_capacity_and_no_more() {
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
    fn drops_what_it_holds_once() {
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
