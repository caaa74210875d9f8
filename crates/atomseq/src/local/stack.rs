//! A bounded stack: an array, and two counts of the bytes ever pushed and popped.
//!
//! ```text
//!   +--------+--------+------+------+------+------+----
//!   | pushed | popped | word | word |      |      |  …     array, 8 N bytes
//!   +--------+--------+------+------+------+------+----
//!      pushed - popped = 16, in bytes ────^
//! ```
//!
//! There are two counts instead of one height so that a push changes one word and a pop the other,
//! as in `percpu`. With a single height, each operation in a run of pushes and pops would have to
//! wait for the store of the one before. Both counts wrap around.

use std::marker::PhantomData;
use std::mem::needs_drop;

use super::drain::Drain;
use super::scope::Interruptible;
use super::word::{SequenceWord, address, check_capacity};
use crate::AsWord;
use crate::scope::SameThread;
use crate::word::Invariant;

const PUSHED: usize = 0;
const POPPED: usize = 8;
const ARRAY: usize = 16;

crate::sequence! {
    /// Pushes a word. Returns `false` if the array of `capacity` bytes is full.
    unsafe fn push(stack: Word, capacity: Word, value: Word) -> bool {
        let pushed = load(stack + PUSHED);
        let height = pushed - load(stack + POPPED);
        if height == capacity { return false }
        prepare(stack + height + ARRAY, value);
        commit(stack + PUSHED, pushed + 8);
        true
    }

    /// Pops the word on top.
    unsafe fn pop(stack: Word) -> Option<Word> {
        let popped = load(stack + POPPED);
        let height = load(stack + PUSHED) - popped;
        if height == 0 { return None }
        let value = load(stack + height + (ARRAY - 8));
        commit(stack + POPPED, popped + 8);
        Some(value)
    }

    /// Returns the number of bytes in use.
    unsafe fn height(stack: Word) -> Word {
        let pushed = load(stack + PUSHED);
        let popped = load(stack + POPPED);
        pushed - popped
    }
}

/// The sequences of this file, for the checkers in `verify/`.
#[cfg(feature = "unstable-internals")]
pub(super) const SEQUENCES: &[&crate::sequence::model::Program] =
    &[&push::MODEL, &pop::MODEL, &height::MODEL];

/// A last-in-first-out stack of up to `N` elements that a thread and its signal handlers share.
///
/// Scope [`SameThread`]. No operation waits. [`push`](Stack::push) and [`pop`](Stack::pop) cost no
/// atomic instruction. A stack takes sixteen bytes and eight per element. See [the module](super)
/// for what all of these structures share.
///
/// ```
/// use atomseq::local::Stack;
///
/// atomseq::local::per_thread! {
///     static FREE: Stack<usize, 64> = Stack::new();
/// }
///
/// FREE.with(|free| {
///     (0..64).for_each(|number| free.push(number).unwrap());
///     assert_eq!(free.push(64), Err(64));
///     assert_eq!(free.pop(), Some(63));
/// });
/// ```
#[repr(C)]
pub struct Stack<T: AsWord, const N: usize> {
    pushed: SequenceWord,
    popped: SequenceWord,
    array: [SequenceWord; N],
    elements: Invariant<T>,
    scope: SameThread,
}

/// The field offsets that the sequences use.
const _: () = {
    assert!(PUSHED == std::mem::offset_of!(Stack<usize, 1>, pushed));
    assert!(POPPED == std::mem::offset_of!(Stack<usize, 1>, popped));
    assert!(ARRAY == std::mem::offset_of!(Stack<usize, 1>, array));
};

// SAFETY: every operation is one sequence, so no handler finds it half done, and elements pass
// through it as words. `T: Send`: a handler may get elements that the thread pushed, and vice
// versa.
unsafe impl<T: AsWord + Send, const N: usize> Interruptible for Stack<T, N> {
    const NEEDS_DROP: bool = needs_drop::<T>();
}

impl<T: AsWord, const N: usize> Stack<T, N> {
    /// Creates an empty stack. Does not compile if `N` is zero.
    pub const fn new() -> Stack<T, N> {
        const { check_capacity(N) };
        Stack {
            pushed: SequenceWord::zero(),
            popped: SequenceWord::zero(),
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
        // SAFETY: the sequence only reads this stack's fields.
        unsafe { height::rolling(address(self)) / 8 }
    }

    /// Returns whether the stack is empty.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Pushes an element.
    ///
    /// # Errors
    ///
    /// Returns the element if the stack is full.
    #[inline]
    pub fn push(&self, element: T) -> Result<(), T> {
        let word = element.into_word();
        // SAFETY: the height stays within the capacity, so every address lies in this stack. Only
        // this thread and its handlers access it, and a handler accesses no place above the height.
        match unsafe { push::restarting(address(self), 8 * N, word) } {
            true => Ok(()),
            // SAFETY: `into_word` returned the word above, and the stack did not take it.
            false => Err(unsafe { T::from_word(word) }),
        }
    }

    /// Pops the element pushed last.
    #[inline]
    pub fn pop(&self) -> Option<T> {
        // SAFETY: the height stays within the capacity, so every address lies in this stack, which
        // only this thread and its handlers access.
        let word = unsafe { pop::restarting(address(self)) }?;
        // SAFETY: `push` got the word from `into_word`, and the sequence has just removed it from
        // the stack.
        Some(unsafe { T::from_word(word) })
    }

    /// Returns an iterator that removes the elements one by one, the one pushed last first.
    pub fn drain(&self) -> Drain<'_, T> {
        Drain::new(self)
    }
}

super::drain::bounded!(Stack<T: AsWord>);

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;

    #[test]
    fn a_push_to_a_full_stack_returns_the_element() {
        let stack: Stack<usize, 3> = Stack::new();
        assert_eq!(
            [1, 2, 3, 4].map(|value| stack.push(value)),
            [Ok(()), Ok(()), Ok(()), Err(4)]
        );
        assert_eq!((stack.len(), stack.capacity()), (3, 3));
        assert_eq!(stack.pop(), Some(3));
        stack.push(5).unwrap();
        assert_eq!(stack.drain().collect::<Vec<_>>(), [5, 2, 1]);
        assert!(stack.is_empty() && stack.pop().is_none());
    }

    #[test]
    fn a_dropped_drain_leaves_the_remaining_elements() {
        let stack: Stack<usize, 4> = Stack::new();
        (0..4).for_each(|value| stack.push(value).unwrap());
        assert_eq!(stack.drain().take(2).collect::<Vec<_>>(), [3, 2]);
        assert_eq!(stack.len(), 2);
    }

    #[test]
    fn a_moved_stack_keeps_its_elements() {
        let stack: Stack<usize, 4> = Stack::new();
        stack.push(1).unwrap();
        let stack = Box::new(stack);
        stack.push(2).unwrap();
        assert_eq!(stack.drain().collect::<Vec<_>>(), [2, 1]);
    }

    #[test]
    fn a_dropped_stack_drops_its_elements_once() {
        let shared = Arc::new(());
        let stack: Stack<Arc<()>, 5> = Stack::new();
        for _ in 0..5 {
            stack.push(shared.clone()).unwrap();
        }
        drop(stack.push(shared.clone()));
        drop(stack.pop());
        drop(stack.drain().next());
        assert_eq!(Arc::strong_count(&shared), 4);
        drop(stack);
        assert_eq!(Arc::strong_count(&shared), 1);
    }

    #[test]
    fn a_stack_needs_dropping_if_its_elements_do() {
        const { assert!(!<Stack<usize, 1>>::NEEDS_DROP && <Stack<Box<u8>, 1>>::NEEDS_DROP) };
    }
}
