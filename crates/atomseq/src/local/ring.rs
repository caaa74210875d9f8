//! A bounded queue of values of any size, stored in place.
//!
//! ```text
//!   +------+------+---------+---------+---------+----
//!   | head | tail |         | element | element |  …   N elements in whole words, N a power of two
//!   +------+------+---------+---------+---------+----
//!                head & mask ^                 ^ tail & mask
//! ```
//!
//! Head and tail count elements and wrap around. An element of one word is pushed or popped by one
//! sequence. A longer one takes several, and a handler may interrupt between them:
//!
//! **Push.** The sequences of [`fill`] copy the words to the place at the tail. Each of them stores
//! only if the tail has not moved since the push read it. A handler that pushes in between takes
//! that same place and moves the tail. From then on the interrupted push stores nothing, and
//! retries behind the handler's element; an unconditional store would overwrite that element. While
//! the tail has not moved, the place is free, because handlers have only popped. The element
//! becomes part of the ring when [`advance`] moves the tail past it, again only if the tail has not
//! moved.
//!
//! **Pop.** The words are copied from the place at the head. Then `advance` moves the head past it
//! if the head has not moved. A handler that popped the same element has moved it, and the copy is
//! discarded. A handler that pushes does not write to that place, because it is in use until the
//! head moves. A discarded copy may be torn, and the retry may find fewer elements, or none.
//! Elements are therefore copied to memory that counts as uninitialized, and reach a caller's slice
//! after the head has moved.
//!
//! Head and tail never move back, and return to an old value only after 2^64 operations (2^32 on
//! 32-bit targets). An unchanged value therefore means that no push, or no pop, came in between.
//!
//! A word of an element may be padding or part of a pointer, which an integer cannot hold. The
//! steps in Rust, which run where there is no assembly, would load it as one. There `fill` copies
//! words that count as uninitialized instead, with signals blocked, and an element of one word is
//! pushed and popped as longer ones are.

use std::cell::UnsafeCell;
use std::mem::{MaybeUninit, needs_drop};

use super::drain::Drain;
use super::points::point;
use super::scope::Interruptible;
use super::word::{SequenceWord, address, check_power_of_two};
use crate::elements::{Padded, in_parts, take_front};
use crate::platform;
use crate::scope::SameThread;

const HEAD: usize = 0;
const TAIL: usize = 8;

crate::sequence! {
    /// Copies one word in from an address. Returns `false` if the ring is full.
    unsafe fn push_word(ring: Word, buffer: Word, mask: Word, from: Word) -> bool {
        let tail = load(ring + TAIL);
        if tail - load(ring + HEAD) > mask { return false }
        prepare(buffer + ((tail & mask) << 3), load(from));
        commit(ring + TAIL, tail + 1);
        true
    }

    /// Copies one word out to an address. Returns `false` if the ring is empty.
    unsafe fn pop_word(ring: Word, buffer: Word, mask: Word, to: Word) -> bool {
        let head = load(ring + HEAD);
        if head == load(ring + TAIL) { return false }
        prepare(to, load(buffer + ((head & mask) << 3)));
        commit(ring + HEAD, head + 1);
        true
    }

    /// Reads head and tail at one time.
    unsafe fn state(ring: Word) -> (Word, Word) {
        let head = load(ring + HEAD);
        let tail = load(ring + TAIL);
        (head, tail)
    }

    /// Copies a word to a place behind the tail. Returns `false`, and stores nothing, if the tail
    /// has moved.
    unsafe fn fill(ring: Word, tail: Word, to: Word, from: Word) -> bool {
        if load(ring + TAIL) != tail { return false }
        store(to, load(from));
        true
    }

    /// Does the same with four words.
    unsafe fn fill_four(ring: Word, tail: Word, to: Word, from: Word) -> bool {
        if load(ring + TAIL) != tail { return false }
        store(to, load(from));
        store(to + 8, load(from + 8));
        store(to + 16, load(from + 16));
        store(to + 24, load(from + 24));
        true
    }

    /// Advances head or tail. Returns `false` if it has moved already.
    unsafe fn advance(position: Word, from: Word, to: Word) -> bool {
        if load(position) != from { return false }
        commit(position, to);
        true
    }
}

/// The sequences of this file, for the checkers in `verify/`.
#[cfg(feature = "unstable-internals")]
pub(super) const SEQUENCES: &[&crate::sequence::model::Program] = &[
    &push_word::MODEL,
    &pop_word::MODEL,
    &state::MODEL,
    &fill::MODEL,
    &fill_four::MODEL,
    &advance::MODEL,
];

/// The maximum number of machine words that a push or pop copies before it moves tail or head. A
/// handler's push or pop in the meantime makes it repeat that copy. 4 KiB, or 2 KiB on 32-bit
/// targets.
const MAX_WORDS: usize = 512;

/// A first-in-first-out queue of up to `N` values of any size that a thread and its signal handlers
/// share. The values are stored in place, and `N` is a power of two.
///
/// Scope [`SameThread`]. No operation waits, and none costs an atomic instruction. An operation on
/// elements larger than a word repeats its copying if a handler did the same operation meanwhile.
/// An element of one word takes one sequence. A push of a longer element or of a batch takes two
/// sequences and one per four words, or one per word where there are fewer than four; a pop takes
/// two. A ring takes sixteen bytes, and its elements in whole words of eight bytes. See [the
/// module](super) for what all of these structures share.
///
/// A handler sees a batch either whole or not at all, unless the batch crosses the end of the
/// buffer or is longer than 4 KiB. If the size of the elements is not a multiple of eight bytes, or
/// their alignment is less than a machine word, it sees the elements one by one.
///
/// On 32-bit targets an element with a size takes at least two machine words, no element is pushed
/// or popped by one sequence, and a batch is seen whole up to 2 KiB. Where [sequences are
/// unavailable](super#cost), a push takes three steps that each block signals, and a pop two.
///
/// ```
/// use atomseq::local::Ring;
///
/// #[derive(Clone, Copy, Debug, PartialEq)]
/// struct Sample { program_counter: usize, stack: [usize; 4] }
///
/// atomseq::local::per_thread! {
///     static SAMPLES: Ring<Sample, 128> = Ring::new();
/// }
///
/// let sample = Sample { program_counter: 0x1000, stack: [1, 2, 3, 4] };
/// SAMPLES.with(|samples| samples.push(sample)).unwrap();
/// assert_eq!(SAMPLES.with(|samples| samples.pop()), Some(sample));
/// ```
#[repr(C)]
pub struct Ring<T, const N: usize> {
    head: SequenceWord,
    tail: SequenceWord,
    buffer: [Cell<T>; N],
    scope: SameThread,
}

/// The field offsets that the sequences use.
const _: () = {
    assert!(HEAD == std::mem::offset_of!(Ring<usize, 1>, head));
    assert!(TAIL == std::mem::offset_of!(Ring<usize, 1>, tail));
};

/// The place of an element.
type Cell<T> = UnsafeCell<Padded<T>>;

// SAFETY: the head of this file shows why an interrupted operation is never observed half done.
// `T: Send`: a handler may get elements that the thread pushed, and vice versa.
unsafe impl<T: Send, const N: usize> Interruptible for Ring<T, N> {
    const NEEDS_DROP: bool = needs_drop::<T>();
}

impl<T, const N: usize> Ring<T, N> {
    const MASK: usize = N.wrapping_sub(1);

    /// The number of machine words that an element takes in the buffer.
    const WORDS: usize = size_of::<Padded<T>>() / size_of::<usize>();

    /// Whether one sequence pushes or pops an element.
    const ONE_WORD: bool = Self::WORDS == 1 && cfg!(atomseq_sections);

    /// Whether an array of elements has the layout of the buffer, aligned to machine words.
    const WHOLE: bool = size_of::<T>() == size_of::<Padded<T>>()
        && (align_of::<T>() >= align_of::<usize>() || size_of::<T>() == 0);

    /// The maximum number of elements copied before head or tail moves.
    const MAX: usize = match Self::WORDS {
        0 => usize::MAX,
        1..=MAX_WORDS => MAX_WORDS / Self::WORDS,
        _ => 1,
    };

    /// Creates an empty ring. Does not compile if `N` is not a power of two.
    pub const fn new() -> Ring<T, N> {
        const { check_power_of_two(N) };
        Ring {
            head: SequenceWord::zero(),
            tail: SequenceWord::zero(),
            buffer: [const { Cell::new(Padded::new(MaybeUninit::uninit())) }; N],
            scope: SameThread::new(),
        }
    }

    /// Returns the maximum number of elements, `N`.
    pub const fn capacity(&self) -> usize {
        N
    }

    /// Returns the number of elements.
    pub fn len(&self) -> usize {
        let (head, tail) = self.state();
        tail.wrapping_sub(head)
    }

    /// Returns whether the ring is empty.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Pushes an element to the end.
    ///
    /// # Errors
    ///
    /// Returns the element if the ring is full.
    #[inline]
    pub fn push(&self, element: T) -> Result<(), T> {
        let padded = Padded::new(MaybeUninit::new(element));
        // SAFETY: `padded` holds one element in whole words. If the ring takes it, this copy is
        // neither used nor dropped.
        if unsafe { self.push_part((&raw const padded).expose_provenance(), 1) } == 1 {
            return Ok(());
        }
        // SAFETY: `padded` was initialized with the element, and the ring did not take it.
        Err(unsafe { padded.into_element() })
    }

    /// Pops the oldest element.
    #[inline]
    pub fn pop(&self) -> Option<T> {
        let mut padded = Padded::new(MaybeUninit::uninit());
        // SAFETY: `padded` has room for one element in whole words, and counts as uninitialized.
        if unsafe { self.pop_part((&raw mut padded).cast(), 1) } == 0 {
            return None;
        }
        // SAFETY: `pop_part` has copied an element here and removed it from the ring.
        Some(unsafe { padded.into_element() })
    }

    /// Copies elements to the end, from the first on, as many as there is room for. Returns their
    /// number.
    pub fn push_batch(&self, elements: &[T]) -> usize
    where
        T: Copy,
    {
        self.push_all(elements.as_ptr(), elements.len())
    }

    /// Pops the oldest elements into a slice, as many as there are and fit. Returns their number,
    /// and leaves the rest of the slice unchanged.
    ///
    /// Each element is copied twice, through 4 KiB of stack, or through the size of one element if
    /// that is larger. [`pop_into`](Ring::pop_into) copies once.
    pub fn pop_batch(&self, into: &mut [T]) -> usize
    where
        T: Copy,
    {
        in_parts(into.len(), |popped| {
            let rest = &mut into[popped..];
            if Self::WHOLE && Self::WORDS <= MAX_WORDS {
                self.pop_some(rest)
            } else if let Some(element) = self.pop() {
                rest[0] = element;
                1
            } else {
                0
            }
        })
    }

    /// Pops one part of a batch, for elements of whole words, at most [`MAX_WORDS`] each.
    // Out of line: the buffer must not become part of callers' stack frames.
    #[inline(never)]
    fn pop_some(&self, into: &mut [T]) -> usize
    where
        T: Copy,
    {
        let mut words = MaybeUninit::<[u64; MAX_WORDS]>::uninit();
        let copied = words.as_mut_ptr().cast::<MaybeUninit<usize>>();
        // SAFETY: `copied` has room for `MAX` elements, and `pop_part` copies no more. Only the
        // elements popped are read.
        let popped = unsafe { self.pop_part(copied, into.len()) };
        let from = words.as_ptr().cast::<MaybeUninit<u8>>();
        let to = into.as_mut_ptr().cast::<MaybeUninit<u8>>();
        // SAFETY: the ring has given up `popped` elements, which are now in `words`, and the slice
        // has room for them.
        unsafe { std::ptr::copy_nonoverlapping(from, to, popped * size_of::<T>()) };
        popped
    }

    /// Moves elements from the front of a vector to the end of the ring, as many as there is room
    /// for. Returns their number.
    pub fn append(&self, elements: &mut Vec<T>) -> usize {
        // SAFETY: the ring owns the elements that it pushes.
        unsafe { take_front(elements, |from, count| self.push_all(from, count)) }
    }

    /// Moves the oldest elements to the end of a vector, as many as there are and fit its spare
    /// capacity. Returns their number.
    pub fn pop_into(&self, elements: &mut Vec<T>) -> usize {
        let popped = self.pop_all(elements.spare_capacity_mut());
        // SAFETY: `pop_all` initialized `popped` elements behind the vector's last one.
        unsafe { elements.set_len(elements.len() + popped) };
        popped
    }

    /// Returns an iterator that removes the elements one by one, the oldest first.
    pub fn drain(&self) -> Drain<'_, T> {
        Drain::new(self)
    }

    fn push_all(&self, from: *const T, count: usize) -> usize {
        in_parts(count, |pushed| {
            let from = from.wrapping_add(pushed);
            if Self::WHOLE {
                // SAFETY: `count - pushed` elements lie at `from`, and `WHOLE`: in the layout of
                // the buffer.
                unsafe { self.push_part(from.expose_provenance(), count - pushed) }
            } else {
                // SAFETY: `from` points to one of the caller's elements. The copy is used only if
                // the ring takes it, which then owns the element.
                let padded = Padded::new(unsafe { from.cast::<MaybeUninit<T>>().read() });
                // SAFETY: `padded` holds one element in whole words.
                unsafe { self.push_part((&raw const padded).expose_provenance(), 1) }
            }
        })
    }

    /// Pops into memory that counts as uninitialized, from its start on. Returns the number of
    /// elements.
    fn pop_all(&self, into: &mut [MaybeUninit<T>]) -> usize {
        in_parts(into.len(), |popped| {
            let rest = &mut into[popped..];
            if Self::WHOLE {
                // SAFETY: `rest` has room for `rest.len()` elements, and `WHOLE`: in the layout of
                // the buffer.
                unsafe { self.pop_part(rest.as_mut_ptr().cast(), rest.len()) }
            } else if let Some(element) = self.pop() {
                rest[0].write(element);
                1
            } else {
                0
            }
        })
    }

    #[inline]
    fn state(&self) -> (usize, usize) {
        // SAFETY: the sequence only reads this ring's fields.
        unsafe { state::rolling(address(self)) }
    }

    fn cell(&self, position: usize) -> *const Cell<T> {
        (&raw const self.buffer)
            .cast::<Cell<T>>()
            .wrapping_add(position & Self::MASK)
    }

    /// Pushes elements, as many as there is room for up to the end of the buffer, at most `count`
    /// and at most [`MAX`](Self::MAX). All of them become visible at once. Returns their number.
    ///
    /// # Safety
    ///
    /// `count` elements in whole words lie at `from`, the address of an exposed pointer. The ring
    /// owns those that it takes, from the first on.
    #[inline]
    unsafe fn push_part(&self, from: usize, count: usize) -> usize {
        let ring = address(self);
        if Self::ONE_WORD && count == 1 {
            let buffer = self.cell(0) as usize;
            // SAFETY: the place at the tail lies in the buffer, and handlers access no place
            // outside head and tail. The caller guarantees an element at `from`.
            return unsafe { push_word::restarting(ring, buffer, Self::MASK, from) }.into();
        }
        loop {
            let (head, tail) = self.state();
            let room = N - tail.wrapping_sub(head);
            let to_the_end = N - (tail & Self::MASK);
            let taken = room.min(to_the_end).min(count).min(Self::MAX);
            if taken == 0 {
                return 0;
            }
            point();
            // SAFETY: `taken` places from the tail on are free while the tail does not move. The
            // caller guarantees `count` elements at `from`.
            let filled = unsafe { self.fill(tail, from, taken * Self::WORDS) };
            let to = tail.wrapping_add(taken);
            // SAFETY: the address of this ring's tail. The `taken` places before `to` are filled.
            if filled && unsafe { advance::restarting(ring + TAIL, tail, to) } {
                return taken;
            }
        }
    }

    /// Copies words to the place at the tail, while the tail is at `tail`. Returns whether it still
    /// was for the last word.
    ///
    /// # Safety
    ///
    /// `words` words lie at `from`, the address of an exposed pointer, and the buffer has room for
    /// them at the tail.
    #[inline]
    unsafe fn fill(&self, tail: usize, from: usize, words: usize) -> bool {
        const WORD: usize = size_of::<usize>();
        if !cfg!(atomseq_sections) {
            // SAFETY: the caller's contract is the same.
            return unsafe { self.fill_quietly(tail, from, words) };
        }
        let (ring, to) = (address(self), self.cell(tail) as usize);
        let by_fours = WORD == 8 && words >= 4;
        let mut next = 0;
        while next < words {
            let is_unmoved = if by_fours {
                // The last four may overlap the ones before: the words are the same.
                let offset = WORD * next.min(words - 4);
                next += 4;
                // SAFETY: the caller guarantees the words at `from` and the room at the tail. The
                // sequence stores only if the tail has not moved, and then handlers access no place
                // behind it.
                unsafe { fill_four::rolling(ring, tail, to + offset, from + offset) }
            } else {
                let offset = WORD * next;
                next += 1;
                // SAFETY: the caller guarantees the words at `from` and the room at the tail. The
                // sequence stores only if the tail has not moved, and then handlers access no place
                // behind it.
                unsafe { fill::rolling(ring, tail, to + offset, from + offset) }
            };
            if !is_unmoved {
                return false;
            }
            point();
        }
        true
    }

    /// Does what `fill` does without assembly.
    ///
    /// # Safety
    ///
    /// The requirements of `fill`.
    unsafe fn fill_quietly(&self, tail: usize, from: usize, words: usize) -> bool {
        let signals = platform::SignalsBlocked::enter();
        let is_unmoved = self.tail.word() == tail;
        // Elements without a size may lie at any address.
        if is_unmoved && words > 0 {
            let from = std::ptr::with_exposed_provenance::<MaybeUninit<usize>>(from);
            let to = self.cell(tail).cast_mut().cast::<MaybeUninit<usize>>();
            // SAFETY: the caller guarantees the words at `from` and the room at the tail, and
            // handlers access no place behind it. No handler runs, so the tail does not move.
            unsafe { std::ptr::copy_nonoverlapping(from, to, words) };
        }
        drop(signals);
        point();
        is_unmoved
    }

    /// Pops elements, as many as there are up to the end of the buffer, at most `count` and at most
    /// [`MAX`](Self::MAX). All of them are removed at once. Returns their number.
    ///
    /// # Safety
    ///
    /// `into` has room for `count` elements in whole words. After the call all of it counts as
    /// uninitialized except for the elements popped, because an attempt that failed may have
    /// written there.
    #[inline]
    unsafe fn pop_part(&self, into: *mut MaybeUninit<usize>, count: usize) -> usize {
        let ring = address(self);
        if Self::ONE_WORD && count == 1 {
            let (buffer, to) = (self.cell(0) as usize, into.expose_provenance());
            // SAFETY: the place at the head lies in the buffer. The caller guarantees room for an
            // element at `into`.
            return unsafe { pop_word::restarting(ring, buffer, Self::MASK, to) }.into();
        }
        loop {
            let (head, tail) = self.state();
            let there = tail.wrapping_sub(head);
            let to_the_end = N - (head & Self::MASK);
            let taken = there.min(to_the_end).min(count).min(Self::MAX);
            if taken == 0 {
                return 0;
            }
            point();
            let from = self.cell(head).cast::<MaybeUninit<usize>>();
            for word in 0..taken * Self::WORDS {
                // SAFETY: the source lies in the buffer, and the caller guarantees room at `into`.
                // The read is volatile because a handler may pop the element, and push another one
                // there, before or after it. Then `advance` fails, and the copy is not used.
                unsafe { into.add(word).write(from.add(word).read_volatile()) };
                point();
            }
            let to = head.wrapping_add(taken);
            // SAFETY: the address of this ring's head. The `taken` elements before `to` have been
            // copied out.
            if unsafe { advance::restarting(ring + HEAD, head, to) } {
                return taken;
            }
        }
    }
}

super::drain::bounded!(Ring<T>);

#[cfg(test)]
#[path = "ring/tests.rs"]
mod tests;
