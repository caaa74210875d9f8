//! The end where elements go in.

use super::{End, fill};
use crate::sync::Ordering;

/// The end of a [`Ring`](super::Ring) where elements go in.
pub struct Producer<'ring, T>(pub(super) End<'ring, T>);

// SAFETY: elements move between threads as values, and there is one of each end.
unsafe impl<T: Send> Send for Producer<'_, T> {}
// SAFETY: as above; a shared end tells only how many elements there are.
unsafe impl<T: Send> Sync for Producer<'_, T> {}

impl<T> Producer<'_, T> {
    /// Puts an element at the end.
    ///
    /// # Errors
    ///
    /// The element, if the ring is full.
    #[inline]
    pub fn push(&mut self, element: T) -> Result<(), T> {
        if self.room_for(1) == 0 {
            return Err(element);
        }
        // SAFETY: there is room, and the place at the tail is the producer's.
        unsafe { (*self.0.ring().place(self.0.tail)).write(element) };
        self.advance(1);
        Ok(())
    }

    /// Copies elements to the end, as many as there is room for, from the first on; returns how
    /// many. The consumer sees all of them at once.
    pub fn push_batch(&mut self, elements: &[T]) -> usize
    where
        T: Copy,
    {
        // SAFETY: copies of what is `Copy`.
        unsafe { self.push_from(elements.as_ptr(), elements.len()) }
    }

    /// Moves elements from the front of a vector to the end of the ring, as many as there is room
    /// for; returns how many.
    pub fn append(&mut self, elements: &mut Vec<T>) -> usize {
        // SAFETY: those that were copied are forgotten below.
        let pushed = unsafe { self.push_from(elements.as_ptr(), elements.len()) };
        let rest = elements.len() - pushed;
        // SAFETY: the first elements now belong to the ring; the rest move up, and the length says
        // so.
        unsafe {
            let start = elements.as_mut_ptr();
            std::ptr::copy(start.add(pushed), start, rest);
            elements.set_len(rest);
        }
        pushed
    }

    /// # Safety
    ///
    /// So many elements lie at `from`, and as many of the first as this returns belong to the ring.
    unsafe fn push_from(&mut self, from: *const T, count: usize) -> usize {
        let pushed = self.room_for(count).min(count);
        let [first, rest] = self.0.ring().stretches(self.0.tail, pushed);
        // SAFETY: there is so much room from the tail on, and so many elements lie at `from`.
        unsafe {
            fill(first, from);
            fill(rest, from.add(first.len()));
        }
        self.advance(pushed);
        pushed
    }

    /// For how many elements there is room; looks again only if it seems too little.
    #[inline(always)]
    fn room_for(&mut self, wanted: usize) -> usize {
        let capacity = self.0.ring().capacity;
        let room = |end: &End<'_, T>| capacity - end.tail.wrapping_sub(end.head);
        if room(&self.0) < wanted {
            // Acquire: pairs with the release in `Consumer::advance`: what was there has been read.
            self.0.head = self.0.ring().head.0.load(Ordering::Acquire);
        }
        room(&self.0)
    }

    #[inline(always)]
    fn advance(&mut self, by: usize) {
        let tail = self.0.tail.wrapping_add(by);
        self.0.tail = tail;
        // Release: pairs with the acquire in `Consumer::there`: the elements are there.
        self.0.ring().tail.0.store(tail, Ordering::Release);
    }

    /// How many elements there are; the consumer may have taken some by now.
    pub fn len(&self) -> usize {
        self.0.ring().len()
    }

    /// Is there no element?
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// How many elements there is room for.
    pub fn capacity(&self) -> usize {
        self.0.ring().capacity
    }

    /// Has the consumer been dropped? Only ends that own the ring can tell.
    pub fn is_abandoned(&self) -> bool {
        self.0.is_abandoned()
    }
}
