//! The consumer's end.

use super::{End, empty};
use crate::sync::Ordering;

/// The end of a [`Ring`](super::Ring) that takes elements out.
pub struct Consumer<'ring, T>(pub(super) End<'ring, T>);

// SAFETY: elements move between threads by value and are `Send`, and there is one consumer.
unsafe impl<T: Send> Send for Consumer<'_, T> {}
// SAFETY: a shared end gives access to the number of elements only, which is atomic.
unsafe impl<T: Send> Sync for Consumer<'_, T> {}

impl<T> Consumer<'_, T> {
    /// Pops the oldest element. Returns `None` if the ring is empty.
    #[inline]
    pub fn pop(&mut self) -> Option<T> {
        if self.there(1) == 0 {
            return None;
        }
        // SAFETY: there is an element, and the slot at the head belongs to the consumer.
        let element = unsafe { (*self.0.ring().place(self.0.head)).assume_init_read() };
        self.advance(1);
        Some(element)
    }

    /// Returns a reference to the oldest element, which stays in the ring.
    pub fn peek(&mut self) -> Option<&T> {
        if self.there(1) == 0 {
            return None;
        }
        // SAFETY: there is an element, which stays until the consumer pops it, and the consumer is
        // borrowed as long as the reference.
        Some(unsafe { (*self.0.ring().place(self.0.head)).assume_init_ref() })
    }

    /// Copies the oldest elements out, as many as there are and fit in `into`. Returns how many.
    pub fn pop_batch(&mut self, into: &mut [T]) -> usize
    where
        T: Copy,
    {
        // SAFETY: the slice has room for as many.
        unsafe { self.pop_into_place(into.as_mut_ptr(), into.len()) }
    }

    /// Moves the oldest elements to the end of a vector, as many as there are and fit in its spare
    /// capacity. Returns how many.
    pub fn pop_into(&mut self, elements: &mut Vec<T>) -> usize {
        let spare = elements.spare_capacity_mut();
        // SAFETY: the spare capacity has room for as many.
        let popped = unsafe { self.pop_into_place(spare.as_mut_ptr().cast(), spare.len()) };
        // SAFETY: `popped` elements were just moved behind the last one.
        unsafe { elements.set_len(elements.len() + popped) };
        popped
    }

    /// Moves up to `count` of the oldest elements to `into`, and returns how many.
    ///
    /// # Safety
    ///
    /// There is room for `count` elements at `into`.
    unsafe fn pop_into_place(&mut self, into: *mut T, count: usize) -> usize {
        let popped = self.there(count).min(count);
        let [first, rest] = self.0.ring().stretches(self.0.head, popped);
        // SAFETY: `popped` elements lie in the ring from the head on, their slots belong to the
        // consumer, and there is room for them at `into`.
        unsafe {
            empty(first, into);
            empty(rest, into.add(first.len()));
        }
        self.advance(popped);
        popped
    }

    /// Returns an iterator that pops elements, the oldest first, until the ring is empty.
    pub fn drain(&mut self) -> impl Iterator<Item = T> {
        std::iter::from_fn(|| self.pop())
    }

    /// Returns the number of elements. Loads the tail again only if they seem fewer than `wanted`.
    #[inline(always)]
    fn there(&mut self, wanted: usize) -> usize {
        let there = |end: &End<'_, T>| end.tail.wrapping_sub(end.head);
        if there(&self.0) < wanted {
            // Acquire: pairs with the release in `Producer::advance`, so that the elements are
            // visible.
            self.0.tail = self.0.ring().tail.0.load(Ordering::Acquire);
        }
        there(&self.0)
    }

    #[inline(always)]
    fn advance(&mut self, by: usize) {
        let head = self.0.head.wrapping_add(by);
        self.0.head = head;
        // Release: pairs with the acquire in `Producer::room_for`, so that the elements have been
        // read.
        self.0.ring().head.0.store(head, Ordering::Release);
    }

    /// Returns the number of elements. The producer may have added some since.
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

    /// Returns whether the producer has been dropped. Always `false` for ends that borrow the ring.
    /// Elements that the producer has pushed remain.
    pub fn is_abandoned(&self) -> bool {
        self.0.is_abandoned()
    }
}
