//! The producer's end.

use super::{End, fill};
use crate::sync::Ordering;

/// The end of a [`Ring`](super::Ring) that puts elements in.
pub struct Producer<'ring, T>(pub(super) End<'ring, T>);

// SAFETY: elements move between threads by value and are `Send`, and there is one producer.
unsafe impl<T: Send> Send for Producer<'_, T> {}
// SAFETY: a shared end gives access to the number of elements only, which is atomic.
unsafe impl<T: Send> Sync for Producer<'_, T> {}

impl<T> Producer<'_, T> {
    /// Pushes an element at the end.
    ///
    /// # Errors
    ///
    /// The element, if the ring is full.
    #[inline]
    pub fn push(&mut self, element: T) -> Result<(), T> {
        if self.room_for(1) == 0 {
            return Err(element);
        }
        // SAFETY: there is room, and the slot at the tail belongs to the producer.
        unsafe { (*self.0.ring().place(self.0.tail)).write(element) };
        self.advance(1);
        Ok(())
    }

    /// Copies elements to the end, from the first on, as many as there is room for. Returns how
    /// many. The consumer sees all of them at once.
    pub fn push_batch(&mut self, elements: &[T]) -> usize
    where
        T: Copy,
    {
        // SAFETY: the elements are `Copy`, so both copies are valid.
        unsafe { self.push_from(elements.as_ptr(), elements.len()) }
    }

    /// Moves elements from the front of a vector to the end of the ring, as many as there is room
    /// for. Returns how many.
    pub fn append(&mut self, elements: &mut Vec<T>) -> usize {
        // SAFETY: the elements that were copied are removed from the vector below, without being
        // dropped.
        let pushed = unsafe { self.push_from(elements.as_ptr(), elements.len()) };
        let rest = elements.len() - pushed;
        // SAFETY: the first `pushed` elements belong to the ring now. The rest move to the front,
        // and the length is theirs.
        unsafe {
            let start = elements.as_mut_ptr();
            std::ptr::copy(start.add(pushed), start, rest);
            elements.set_len(rest);
        }
        pushed
    }

    /// Copies up to `count` elements into the ring, and returns how many.
    ///
    /// # Safety
    ///
    /// `count` elements lie at `from`. The first ones, as many as this returns, belong to the ring
    /// afterwards.
    unsafe fn push_from(&mut self, from: *const T, count: usize) -> usize {
        let pushed = self.room_for(count).min(count);
        let [first, rest] = self.0.ring().stretches(self.0.tail, pushed);
        // SAFETY: there is room for `pushed` elements from the tail on, those slots belong to the
        // producer, and as many elements lie at `from`.
        unsafe {
            fill(first, from);
            fill(rest, from.add(first.len()));
        }
        self.advance(pushed);
        pushed
    }

    /// Returns how many elements there is room for. Loads the head again only if that seems less
    /// than `wanted`.
    #[inline(always)]
    fn room_for(&mut self, wanted: usize) -> usize {
        let capacity = self.0.ring().capacity;
        let room = |end: &End<'_, T>| capacity - end.tail.wrapping_sub(end.head);
        if room(&self.0) < wanted {
            // Acquire: pairs with the release in `Consumer::advance`, so that the old elements have
            // been read.
            self.0.head = self.0.ring().head.0.load(Ordering::Acquire);
        }
        room(&self.0)
    }

    #[inline(always)]
    fn advance(&mut self, by: usize) {
        let tail = self.0.tail.wrapping_add(by);
        self.0.tail = tail;
        // Release: pairs with the acquire in `Consumer::there`, so that the elements are visible.
        self.0.ring().tail.0.store(tail, Ordering::Release);
    }

    /// Returns the number of elements. The consumer may have taken some since.
    pub fn len(&self) -> usize {
        self.0.ring().len()
    }

    /// Returns whether the ring was empty at some time during the call.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Returns the maximum number of elements.
    pub fn capacity(&self) -> usize {
        self.0.ring().capacity
    }

    /// Returns whether the consumer has been dropped. Always `false` for ends that borrow the ring.
    pub fn is_abandoned(&self) -> bool {
        self.0.is_abandoned()
    }
}
