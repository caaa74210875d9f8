//! The end where elements come out.

use super::{End, empty};
use crate::sync::Ordering;

/// The end of a [`Ring`](super::Ring) where elements come out.
pub struct Consumer<'ring, T>(pub(super) End<'ring, T>);

// SAFETY: elements move between threads as values, and there is one of each end.
unsafe impl<T: Send> Send for Consumer<'_, T> {}
// SAFETY: as above; a shared end tells only how many elements there are.
unsafe impl<T: Send> Sync for Consumer<'_, T> {}

impl<T> Consumer<'_, T> {
    /// Takes the oldest element.
    #[inline]
    pub fn pop(&mut self) -> Option<T> {
        if self.there(1) == 0 {
            return None;
        }
        // SAFETY: there is an element, and the place at the head is the consumer's.
        let element = unsafe { (*self.0.ring().place(self.0.head)).assume_init_read() };
        self.advance(1);
        Some(element)
    }

    /// The oldest element, which stays where it is.
    pub fn peek(&mut self) -> Option<&T> {
        if self.there(1) == 0 {
            return None;
        }
        // SAFETY: there is an element, which stays until the consumer, borrowed meanwhile, takes
        // it.
        Some(unsafe { (*self.0.ring().place(self.0.head)).assume_init_ref() })
    }

    /// Copies the oldest elements out, as many as there are and fit; returns how many.
    pub fn pop_batch(&mut self, into: &mut [T]) -> usize
    where
        T: Copy,
    {
        // SAFETY: there is room for so many.
        unsafe { self.pop_into_place(into.as_mut_ptr(), into.len()) }
    }

    /// Moves the oldest elements to the end of a vector, as many as there are and fit its spare
    /// capacity; returns how many.
    pub fn pop_into(&mut self, elements: &mut Vec<T>) -> usize {
        let spare = elements.spare_capacity_mut();
        // SAFETY: there is room for so many.
        let popped = unsafe { self.pop_into_place(spare.as_mut_ptr().cast(), spare.len()) };
        // SAFETY: so many were just moved behind the last one.
        unsafe { elements.set_len(elements.len() + popped) };
        popped
    }

    /// # Safety
    ///
    /// There is room for so many elements at `into`.
    unsafe fn pop_into_place(&mut self, into: *mut T, count: usize) -> usize {
        let popped = self.there(count).min(count);
        let [first, rest] = self.0.ring().stretches(self.0.head, popped);
        // SAFETY: so many elements are there from the head on, and there is room for them at
        // `into`.
        unsafe {
            empty(first, into);
            empty(rest, into.add(first.len()));
        }
        self.advance(popped);
        popped
    }

    /// Takes the elements out, one by one, the oldest first, until there are none.
    pub fn drain(&mut self) -> impl Iterator<Item = T> {
        std::iter::from_fn(|| self.pop())
    }

    /// How many elements there are; looks again only if they seem too few.
    #[inline(always)]
    fn there(&mut self, wanted: usize) -> usize {
        let there = |end: &End<'_, T>| end.tail.wrapping_sub(end.head);
        if there(&self.0) < wanted {
            // Acquire: pairs with the release in `Producer::advance`: the elements are there.
            self.0.tail = self.0.ring().tail.0.load(Ordering::Acquire);
        }
        there(&self.0)
    }

    #[inline(always)]
    fn advance(&mut self, by: usize) {
        let head = self.0.head.wrapping_add(by);
        self.0.head = head;
        // Release: pairs with the acquire in `Producer::room_for`: the elements have been read.
        self.0.ring().head.0.store(head, Ordering::Release);
    }

    /// How many elements there are; the producer may have added some by now.
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

    /// Has the producer been dropped? Only ends that own the ring can tell. What it has pushed is
    /// there all the same.
    pub fn is_abandoned(&self) -> bool {
        self.0.is_abandoned()
    }
}
