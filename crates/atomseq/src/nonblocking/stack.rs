//! A bounded stack in an array (S92 figure 5.5).
//!
//! ```text
//!   height 3 ─────────────┐
//!   +------+------+------+v-----+------+----
//!   | word | word | word |      |      |  …
//!   +------+------+------+------+------+----
//! ```
//!
//! A push changes the cell and the height, a pop the height alone.

use std::fmt;
use std::marker::PhantomData;

use super::Error;
use crate::Word;
use crate::dcas::{Cells, Mechanism, Object, StableWord, Version};

/// A bounded last-in-first-out store (S92 figure 5.5).
///
/// Scope `Machine`; progress and values as [the module](super) says. [`push`](Stack::push) and
/// [`pop`](Stack::pop) cost one atomic instruction each (by k-CAS, one for each word and two more). Nothing
/// allocates after construction.
///
/// ```
/// use atomseq::nonblocking::Stack;
///
/// let stack = Stack::new(100);
/// std::thread::scope(|scope| {
///     for start in [0, 10] {
///         let stack = &stack;
///         scope.spawn(move || (start..start + 10).for_each(|value| stack.push(value).unwrap()));
///     }
/// });
/// let mut values: Vec<u64> = std::iter::from_fn(|| stack.pop()).collect();
/// values.sort();
/// assert_eq!(values, Vec::from_iter(0..20));
/// ```
pub struct Stack<T: Word> {
    object: Object,
    height: StableWord,
    cells: Cells,
    values: PhantomData<T>,
}

// SAFETY: values move between threads, and are never shared.
unsafe impl<T: Word + Send> Send for Stack<T> {}
// SAFETY: as above; changes are atomic.
unsafe impl<T: Word + Send> Sync for Stack<T> {}

impl<T: Word> Stack<T> {
    /// A stack of up to `capacity` values.
    ///
    /// # Panics
    ///
    /// If [`try_new`](Stack::try_new) fails.
    pub fn new(capacity: usize) -> Stack<T> {
        Stack::try_new(capacity).unwrap_or_else(|error| panic!("{error}"))
    }

    /// A stack of up to `capacity` values, or why there is none.
    ///
    /// # Errors
    ///
    /// [`Error::ZeroCapacity`], [`Error::OutOfMemory`].
    pub fn try_new(capacity: usize) -> Result<Stack<T>, Error> {
        Stack::made(Object::new(), capacity)
    }

    /// One that uses this mechanism whatever was chosen, to test and to compare.
    #[doc(hidden)]
    pub fn forced(capacity: usize, mechanism: Mechanism) -> Stack<T> {
        let made = Stack::made(Object::forced(mechanism), capacity);
        made.unwrap_or_else(|error| panic!("{error}"))
    }

    fn made(object: Object, capacity: usize) -> Result<Stack<T>, Error> {
        if capacity == 0 {
            return Err(Error::ZeroCapacity);
        }
        let cells = Cells::new(&object, capacity).ok_or(Error::OutOfMemory)?;
        Ok(Stack {
            object,
            height: StableWord::default(),
            cells,
            values: PhantomData,
        })
    }

    /// Puts a value on top.
    ///
    /// # Errors
    ///
    /// The value, when the stack is full.
    pub fn push(&self, value: T) -> Result<(), T> {
        let word = value.into_word() as u64;
        loop {
            let version = self.object.begin();
            let height = self.object.load(&self.height);
            if height as usize == self.capacity() {
                if self.object.is_still(version) {
                    // SAFETY: made of the value above, and not stored.
                    return Err(unsafe { T::from_word(word as usize) });
                }
                continue;
            }
            let cell = (&self.cells, height as usize, word);
            // SAFETY: the words are this stack's, and its object alone covers them.
            if unsafe {
                self.object
                    .put_since(version, cell, (&self.height, height + 1))
            } {
                return Ok(());
            }
        }
    }

    /// Takes the value on top.
    pub fn pop(&self) -> Option<T> {
        loop {
            let version = self.object.begin();
            let height = self.object.load(&self.height);
            if height == 0 {
                if self.object.is_still(version) {
                    return None;
                }
                continue;
            }
            let word = self.cells.load(&self.object, height as usize - 1);
            let lower = (&self.height, height - 1);
            // SAFETY: as in `push`.
            if unsafe { self.object.exchange_one_since(version, lower) } {
                // SAFETY: it was on the stack, by `push`, up to this exchange, which no other pop has made.
                return Some(unsafe { T::from_word(word as usize) });
            }
        }
    }

    /// How many values it can hold.
    pub fn capacity(&self) -> usize {
        self.cells.len()
    }

    /// How many values it holds; history already when this returns.
    pub fn len(&self) -> usize {
        let ([height], _) = self.object.snapshot([&self.height]);
        height as usize
    }

    /// Does it hold none?
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// How many modifications it has had (GC96 5.3); ones that were interrupted and undone may count as well.
    pub fn version(&self) -> Version {
        self.object.version()
    }
}

impl<T: Word> Drop for Stack<T> {
    fn drop(&mut self) {
        while self.pop().is_some() {}
    }
}

impl<T: Word> fmt::Debug for Stack<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Stack")
            .field("len", &self.len())
            .field("capacity", &self.capacity())
            .finish_non_exhaustive()
    }
}
