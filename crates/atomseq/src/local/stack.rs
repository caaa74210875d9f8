//! A bounded stack: an array, and how much was ever pushed and popped.
//!
//! ```text
//!   +--------+--------+------+------+------+------+----
//!   | pushed | popped | word | word |      |      |  …     array, 8 N bytes
//!   +--------+--------+------+------+------+------+----
//!      pushed - popped = 16, in bytes ────^
//! ```
//!
//! Two counts instead of one height, as in `percpu`: in a run of pushes and pops, no operation has
//! to wait until the one before has stored what it loads, adds to and stores again. Both wrap
//! around.

use std::fmt;
use std::marker::PhantomData;
use std::mem::needs_drop;

use super::drain::{Drain, Take};
use super::scope::Interruptible;
use super::word::{SequenceWord, address, check_capacity};
use crate::AsWord;
use crate::scope::SameThread;
use crate::word::Invariant;

const PUSHED: usize = 0;
const POPPED: usize = 8;
const ARRAY: usize = 16;

crate::sequence! {
    /// Puts a word on top; `false` when the array of `capacity` bytes is full.
    unsafe fn push(stack: Word, capacity: Word, value: Word) -> bool {
        let pushed = load(stack + PUSHED);
        let height = pushed - load(stack + POPPED);
        if height == capacity { return false }
        prepare(stack + height + ARRAY, value);
        commit(stack + PUSHED, pushed + 8);
        true
    }

    /// Takes the word on top.
    unsafe fn pop(stack: Word) -> Option<Word> {
        let popped = load(stack + POPPED);
        let height = load(stack + PUSHED) - popped;
        if height == 0 { return None }
        let value = load(stack + height + (ARRAY - 8));
        commit(stack + POPPED, popped + 8);
        Some(value)
    }

    /// How many bytes are full.
    unsafe fn height(stack: Word) -> Word {
        let pushed = load(stack + PUSHED);
        let popped = load(stack + POPPED);
        pushed - popped
    }
}

/// For the checkers in `verify/`.
#[cfg(feature = "unstable-internals")]
pub(super) const SEQUENCES: &[&crate::sequence::model::Program] =
    &[&push::MODEL, &pop::MODEL, &height::MODEL];

/// A last-in-first-out store of up to `N` elements that a thread and its signal handlers share.
///
/// Scope [`SameThread`]; no operation waits; [`push`](Stack::push) and [`pop`](Stack::pop) cost no
/// atomic instruction. Takes sixteen bytes and eight an element; [the module](super) tells the
/// rest.
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

/// Where the sequences look for the fields.
const _: () = {
    assert!(PUSHED == std::mem::offset_of!(Stack<usize, 1>, pushed));
    assert!(POPPED == std::mem::offset_of!(Stack<usize, 1>, popped));
    assert!(ARRAY == std::mem::offset_of!(Stack<usize, 1>, array));
};

// SAFETY: every operation is one sequence, and elements pass through it as words. `Send`: a handler
// may end up with what the thread put in, and the other way round.
unsafe impl<T: AsWord + Send, const N: usize> Interruptible for Stack<T, N> {
    const NEEDS_DROP: bool = needs_drop::<T>();
}

impl<T: AsWord, const N: usize> Stack<T, N> {
    /// An empty stack. `N` of zero does not compile.
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

    /// How many elements there is room for: `N`.
    pub const fn capacity(&self) -> usize {
        N
    }

    /// How many elements there are.
    pub fn len(&self) -> usize {
        // SAFETY: reads this stack.
        unsafe { height::rolling(address(self)) / 8 }
    }

    /// Is there no element?
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Puts an element on top.
    ///
    /// # Errors
    ///
    /// The element, if the stack is full.
    #[inline]
    pub fn push(&self, element: T) -> Result<(), T> {
        let word = element.into_word();
        // SAFETY: the height stays within the capacity, so every address lies in this stack, which
        // only this thread and its handlers have; a handler looks at no word above the height.
        match unsafe { push::restarting(address(self), 8 * N, word) } {
            true => Ok(()),
            // SAFETY: the word was made above, and the stack did not take it.
            false => Err(unsafe { T::from_word(word) }),
        }
    }

    /// Takes the element on top.
    #[inline]
    pub fn pop(&self) -> Option<T> {
        // SAFETY: as in `push`.
        let word = unsafe { pop::restarting(address(self)) }?;
        // SAFETY: `push` made the word, and it left the stack just now.
        Some(unsafe { T::from_word(word) })
    }

    /// Takes the elements out, one by one, the last pushed first.
    pub fn drain(&self) -> Drain<'_, T> {
        Drain::new(self)
    }
}

impl<T: AsWord, const N: usize> Take<T> for Stack<T, N> {
    fn take(&self, _cursor: &mut usize) -> Option<T> {
        self.pop()
    }
}

impl<T: AsWord, const N: usize> Drop for Stack<T, N> {
    fn drop(&mut self) {
        if needs_drop::<T>() {
            let mut values = self.drain();
            crate::drops::each(|| values.next().is_some());
        }
    }
}

impl<T: AsWord, const N: usize> Default for Stack<T, N> {
    fn default() -> Stack<T, N> {
        Stack::new()
    }
}

impl<T: AsWord, const N: usize> fmt::Debug for Stack<T, N> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Stack")
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
    fn last_in_first_out_up_to_its_capacity() {
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
    fn what_was_not_drained_stays() {
        let stack: Stack<usize, 4> = Stack::new();
        (0..4).for_each(|value| stack.push(value).unwrap());
        assert_eq!(stack.drain().take(2).collect::<Vec<_>>(), [3, 2]);
        assert_eq!(stack.len(), 2);
    }

    #[test]
    fn may_be_moved() {
        let stack: Stack<usize, 4> = Stack::new();
        stack.push(1).unwrap();
        let stack = Box::new(stack);
        stack.push(2).unwrap();
        assert_eq!(stack.drain().collect::<Vec<_>>(), [2, 1]);
    }

    #[test]
    fn drops_what_it_holds_once() {
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
    fn says_whether_it_needs_to_be_dropped() {
        const { assert!(!<Stack<usize, 1>>::NEEDS_DROP && <Stack<Box<u8>, 1>>::NEEDS_DROP) };
    }
}
