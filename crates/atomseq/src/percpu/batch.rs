//! A fixed-capacity batch of elements, as they move between a CPU's cache and its source.

use std::fmt;
use std::marker::PhantomData;
use std::mem::MaybeUninit;

use crate::AsWord;
use crate::drops;
use crate::word::Invariant;

const CAPACITY: usize = 32;

/// The word of an element, in eight bytes even where `usize` has four.
#[derive(Clone, Copy)]
#[repr(C, align(8))]
pub(super) struct ElementWord(MaybeUninit<usize>);

impl ElementWord {
    /// A place that holds no word.
    pub(super) const EMPTY: ElementWord = ElementWord(MaybeUninit::uninit());

    /// Creates a place that holds a word.
    pub(super) const fn new(word: usize) -> ElementWord {
        ElementWord(MaybeUninit::new(word))
    }

    /// Returns the word in the place.
    ///
    /// # Safety
    ///
    /// The place holds a word.
    pub(super) const unsafe fn word(self) -> usize {
        // SAFETY: the caller guarantees that the place holds a word, so it is initialized.
        unsafe { self.0.assume_init() }
    }
}

/// Up to [`Batch::CAPACITY`] elements that move between a [`Pool`](super::Pool) and its
/// [`Source`](super::Source), without allocation.
///
/// As an iterator, it yields the last element added first. Dropping the batch drops the elements
/// left in it.
///
/// A batch is invariant in its element type:
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
    /// Invariant: a word must be converted back to exactly the type that it came from.
    elements: PhantomData<(T, Invariant<T>)>,
}

impl<T: AsWord> Batch<T> {
    /// The maximum number of elements.
    pub const CAPACITY: usize = CAPACITY;

    /// Creates an empty batch.
    pub const fn new() -> Batch<T> {
        Batch {
            words: [ElementWord::EMPTY; CAPACITY],
            len: 0,
            elements: PhantomData,
        }
    }

    /// Returns the number of elements.
    pub fn len(&self) -> usize {
        self.len
    }

    /// Returns whether the batch holds no element.
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// Returns whether the batch has no room for another element.
    pub fn is_full(&self) -> bool {
        self.len == Self::CAPACITY
    }

    /// Adds an element.
    ///
    /// # Errors
    ///
    /// Returns the element if the batch is full.
    pub fn push(&mut self, element: T) -> Result<(), T> {
        if self.is_full() {
            return Err(element);
        }
        self.words[self.len] = ElementWord::new(element.into_word());
        self.len += 1;
        Ok(())
    }

    /// Removes and returns the element added last.
    pub fn pop(&mut self) -> Option<T> {
        self.len = self.len.checked_sub(1)?;
        // SAFETY: places below the old length hold words that `into_word` of `T` returned. The new
        // length excludes this one, so each is converted once.
        Some(unsafe { T::from_word(self.words[self.len].word()) })
    }

    pub(super) fn words(&self) -> &[ElementWord] {
        &self.words[..self.len]
    }

    /// Removes the first `count` elements without dropping them. Their words have a new owner.
    pub(super) fn forget_first(&mut self, count: usize) {
        self.words.copy_within(count..self.len, 0);
        self.len -= count;
    }

    /// Extends the batch to at most `max` elements. `fill` writes words to the start of the slice
    /// that it gets, and returns how many.
    pub(super) fn extend_words(
        &mut self,
        max: usize,
        fill: impl FnOnce(&mut [ElementWord]) -> usize,
    ) {
        let room = max.min(Self::CAPACITY - self.len);
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
