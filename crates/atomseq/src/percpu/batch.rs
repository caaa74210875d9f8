//! A handful of words on their way between a CPU's cache and what lies behind it.

use std::fmt;
use std::marker::PhantomData;
use std::mem::MaybeUninit;

use crate::AsWord;
use crate::drops;
use crate::word::Invariant;

const CAPACITY: usize = 32;

/// An element's word as arrays hold it: in eight bytes, also where a word has four.
#[derive(Clone, Copy)]
#[repr(C, align(8))]
pub(super) struct ElementWord(MaybeUninit<usize>);

impl ElementWord {
    /// A place with nothing in it.
    pub(super) const EMPTY: ElementWord = ElementWord(MaybeUninit::uninit());

    /// A place with a word in it.
    pub(super) const fn new(word: usize) -> ElementWord {
        ElementWord(MaybeUninit::new(word))
    }

    /// The word in the place.
    ///
    /// # Safety
    ///
    /// There is one.
    pub(super) const unsafe fn word(self) -> usize {
        // SAFETY: the caller's promise.
        unsafe { self.0.assume_init() }
    }
}

/// Up to [`Batch::CAPACITY`] elements on their way between a [`Pool`](super::Pool) and its
/// [`Source`](super::Source), without allocation. As an iterator, it gives the last added first;
/// elements left in it are dropped with it.
///
/// It is one of elements of this very type:
///
/// ```compile_fail
/// use atomseq::percpu::Batch;
///
/// fn of_shorter_lives<'a>(batch: Batch<&'static u64>) -> Batch<&'a u64> {
///     batch
/// }
/// ```
pub struct Batch<T: AsWord> {
    words: [ElementWord; CAPACITY],
    len: usize,
    /// Invariant: words go back to the type that they came from.
    elements: PhantomData<(T, Invariant<T>)>,
}

impl<T: AsWord> Batch<T> {
    /// How many elements fit.
    pub const CAPACITY: usize = CAPACITY;

    /// An empty batch.
    pub const fn new() -> Batch<T> {
        Batch {
            words: [ElementWord::EMPTY; CAPACITY],
            len: 0,
            elements: PhantomData,
        }
    }

    /// How many elements there are.
    pub fn len(&self) -> usize {
        self.len
    }

    /// Are there none?
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// Is there no room?
    pub fn is_full(&self) -> bool {
        self.len == Self::CAPACITY
    }

    /// Adds an element.
    ///
    /// # Errors
    ///
    /// The element, if the batch is full.
    pub fn push(&mut self, element: T) -> Result<(), T> {
        if self.is_full() {
            return Err(element);
        }
        self.words[self.len] = ElementWord::new(element.into_word());
        self.len += 1;
        Ok(())
    }

    /// Takes the element added last.
    pub fn pop(&mut self) -> Option<T> {
        self.len = self.len.checked_sub(1)?;
        // SAFETY: below the old length, words that `push` or a stack made; now out of reach.
        Some(unsafe { T::from_word(self.words[self.len].word()) })
    }

    pub(super) fn words(&self) -> &[ElementWord] {
        &self.words[..self.len]
    }

    /// Forgets the first elements, which have gone elsewhere as words.
    pub(super) fn forget_first(&mut self, count: usize) {
        self.words.copy_within(count..self.len, 0);
        self.len -= count;
    }

    /// Fills the batch up to `most` elements by something that writes words and says how many.
    pub(super) fn extend_words(
        &mut self,
        most: usize,
        fill: impl FnOnce(&mut [ElementWord]) -> usize,
    ) {
        let room = most.min(Self::CAPACITY - self.len);
        self.len += fill(&mut self.words[self.len..self.len + room]);
    }
}

impl<T: AsWord> Iterator for Batch<T> {
    type Item = T;

    fn next(&mut self) -> Option<T> {
        self.pop()
    }

    fn size_hint(&self) -> (usize, Option<usize>) {
        (self.len, Some(self.len))
    }
}

impl<T: AsWord> ExactSizeIterator for Batch<T> {}

impl<T: AsWord> Default for Batch<T> {
    fn default() -> Batch<T> {
        Batch::new()
    }
}

impl<T: AsWord> Drop for Batch<T> {
    fn drop(&mut self) {
        drops::each(|| self.pop().is_some());
    }
}

impl<T: AsWord> fmt::Debug for Batch<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Batch").field("len", &self.len).finish()
    }
}
