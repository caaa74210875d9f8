//! A bounded queue of values of any size, kept in place.
//!
//! ```text
//!   +------+------+---------+---------+---------+----
//!   | head | tail |         | element | element |  …     N elements in whole words, N a power of two
//!   +------+------+---------+---------+---------+----
//!                head & mask ^                 ^ tail & mask
//! ```
//!
//! Head and tail count elements and wrap around. An element of one word goes in or out in one
//! sequence. Anything longer takes several, and a handler may come between them:
//!
//! **In.** Words are copied to the place at the tail by sequences ([`fill`]) of which each stores
//! only if the tail is still where the push found it. A handler that pushes in between takes that
//! very place and moves the tail, so from then on the interrupted push stores nothing more, and
//! starts again behind the handler's element. Storing without looking would spoil what the handler
//! has pushed. With the tail unmoved, the place is free: handlers have only popped. The element is
//! there when the tail moves over it ([`advance`]), which again happens only from where it was.
//!
//! **Out.** Words are copied from the place at the head, then the head moves over it if it is still
//! there. A handler that popped the same element has moved it, and what was copied is forgotten. A
//! handler that pushes leaves that place alone, for it is full until the head moves. What is
//! forgotten may be torn, and the retry may find fewer elements, or none: so elements are copied
//! out to memory that counts as uninitialised, and reach a caller's slice after the head has moved.
//!
//! Head and tail never move back, and come back to where they were only after 2^64 operations (2^32
//! on 32-bit targets), so "unmoved" means that no push, or no pop, was in between.

use std::cell::UnsafeCell;
use std::fmt;
use std::mem::{ManuallyDrop, MaybeUninit, needs_drop};

use super::drain::{Drain, Take};
use super::points::point;
use super::scope::Interruptible;
use super::word::{SequenceWord, address, check_power_of_two};
use crate::scope::SameThread;

const HEAD: usize = 0;
const TAIL: usize = 8;

crate::sequence! {
    /// Copies one word in from an address; `false` when the ring is full.
    unsafe fn push_word(ring: Word, buffer: Word, mask: Word, from: Word) -> bool {
        let tail = load(ring + TAIL);
        if tail - load(ring + HEAD) > mask { return false }
        prepare(buffer + ((tail & mask) << 3), load(from));
        commit(ring + TAIL, tail + 1);
        true
    }

    /// Copies one word out to an address; `false` when the ring is empty.
    unsafe fn pop_word(ring: Word, buffer: Word, mask: Word, to: Word) -> bool {
        let head = load(ring + HEAD);
        if head == load(ring + TAIL) { return false }
        prepare(to, load(buffer + ((head & mask) << 3)));
        commit(ring + HEAD, head + 1);
        true
    }

    /// Head and tail at one time.
    unsafe fn state(ring: Word) -> (Word, Word) {
        let head = load(ring + HEAD);
        let tail = load(ring + TAIL);
        (head, tail)
    }

    /// Copies a word to a place behind the tail, if that is still `tail`.
    unsafe fn fill(ring: Word, tail: Word, to: Word, from: Word) -> bool {
        if load(ring + TAIL) != tail { return false }
        store(to, load(from));
        true
    }

    /// The same with four words.
    unsafe fn fill_four(ring: Word, tail: Word, to: Word, from: Word) -> bool {
        if load(ring + TAIL) != tail { return false }
        store(to, load(from));
        store(to + 8, load(from + 8));
        store(to + 16, load(from + 16));
        store(to + 24, load(from + 24));
        true
    }

    /// Moves head or tail on, if it is still there.
    unsafe fn advance(position: Word, from: Word, to: Word) -> bool {
        if load(position) != from { return false }
        commit(position, to);
        true
    }
}

/// For the checkers in `verify/`.
#[cfg(feature = "unstable-internals")]
pub(super) const SEQUENCES: &[&crate::sequence::model::Program] = &[
    &push_word::MODEL,
    &pop_word::MODEL,
    &state::MODEL,
    &fill::MODEL,
    &fill_four::MODEL,
    &advance::MODEL,
];

/// How many machine words a push or a pop copies at most before it moves the tail or head: what a
/// handler's push or pop in the meantime makes it repeat. 4 KiB, or 2 KiB on 32-bit targets.
const MAX_WORDS: usize = 512;

/// A first-in-first-out store of up to `N` values of any size, in place, `N` a power of two, that a
/// thread and its signal handlers share.
///
/// Scope [`SameThread`]; no operation waits, but one on elements of more than a word repeats its
/// copying if a handler did the same operation meanwhile; no operation costs an atomic instruction.
/// An element of one word is one sequence; a longer one or a batch is a sequence for every four
/// words that go in, and one more. Takes two machine words and the elements, each in whole words of
/// eight bytes; [the module](super) tells the rest.
///
/// A handler sees a batch in whole or not at all, unless it crosses the end of the buffer or is
/// longer than 4 KiB. If elements' size is no multiple of eight bytes, or they are aligned to less
/// than a machine word, it sees one after the other.
///
/// On 32-bit targets an element that has a size takes two machine words at least. So none is one
/// sequence there, every word that goes in is a sequence of its own, and a batch is seen in whole
/// up to 2 KiB.
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

/// Where the sequences look for the fields.
const _: () = {
    assert!(HEAD == std::mem::offset_of!(Ring<usize, 1>, head));
    assert!(TAIL == std::mem::offset_of!(Ring<usize, 1>, tail));
};

/// An element's place.
type Cell<T> = UnsafeCell<Padded<T>>;

/// An element in whole words of eight bytes.
#[repr(C, align(8))]
union Padded<T> {
    element: ManuallyDrop<MaybeUninit<T>>,
    _word: [u64; 0],
}

impl<T> Padded<T> {
    const fn new(element: MaybeUninit<T>) -> Padded<T> {
        Padded {
            element: ManuallyDrop::new(element),
        }
    }

    /// # Safety
    ///
    /// There is an element, and the caller may have it.
    unsafe fn into_element(self) -> T {
        // SAFETY: the caller's promise.
        unsafe { ManuallyDrop::into_inner(self.element).assume_init() }
    }
}

// SAFETY: elements are copied in and out as the file's head says. `Send`: a handler may end up with
// what the thread put in, and the other way round.
unsafe impl<T: Send, const N: usize> Interruptible for Ring<T, N> {
    const NEEDS_DROP: bool = needs_drop::<T>();
}

impl<T, const N: usize> Ring<T, N> {
    const MASK: usize = N.wrapping_sub(1);

    /// How many machine words an element takes in the buffer.
    const WORDS: usize = size_of::<Padded<T>>() / size_of::<usize>();

    /// Does an array of elements have the layout of the buffer, on words?
    const WHOLE: bool = size_of::<T>() == size_of::<Padded<T>>()
        && (align_of::<T>() >= align_of::<usize>() || size_of::<T>() == 0);

    /// How many elements are copied at most before head or tail moves.
    const MAX: usize = match Self::WORDS {
        0 => usize::MAX,
        1..=MAX_WORDS => MAX_WORDS / Self::WORDS,
        _ => 1,
    };

    /// An empty ring. `N` that is not a power of two does not compile.
    pub const fn new() -> Ring<T, N> {
        const { check_power_of_two(N) };
        Ring {
            head: SequenceWord::zero(),
            tail: SequenceWord::zero(),
            buffer: [const { Cell::new(Padded::new(MaybeUninit::uninit())) }; N],
            scope: SameThread::new(),
        }
    }

    /// How many elements there is room for: `N`.
    pub const fn capacity(&self) -> usize {
        N
    }

    /// How many elements there are.
    pub fn len(&self) -> usize {
        let (head, tail) = self.state();
        tail.wrapping_sub(head)
    }

    /// Is there no element?
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Puts an element at the end.
    ///
    /// # Errors
    ///
    /// The element, if the ring is full.
    #[inline]
    pub fn push(&self, element: T) -> Result<(), T> {
        let padded = Padded::new(MaybeUninit::new(element));
        // SAFETY: one element in whole words; the ring owns it if it took it.
        if unsafe { self.push_part((&raw const padded).expose_provenance(), 1) } == 1 {
            return Ok(());
        }
        // SAFETY: the element was put there above, and the ring did not take it.
        Err(unsafe { padded.into_element() })
    }

    /// Takes the oldest element.
    #[inline]
    pub fn pop(&self) -> Option<T> {
        let mut padded = Padded::new(MaybeUninit::uninit());
        // SAFETY: room for one element in whole words.
        if unsafe { self.pop_part((&raw mut padded).cast(), 1) } == 0 {
            return None;
        }
        // SAFETY: just copied out of the ring, which has given it up.
        Some(unsafe { padded.into_element() })
    }

    /// Copies elements to the end, as many as there is room for, from the first on; returns how
    /// many.
    pub fn push_batch(&self, elements: &[T]) -> usize
    where
        T: Copy,
    {
        self.push_all(elements.as_ptr(), elements.len())
    }

    /// Moves the oldest elements into a slice, as many as there are and fit; returns how many. The
    /// rest of the slice stays as it is.
    ///
    /// Copies each element twice, by way of 4 KiB of stack, or of one element if that is larger;
    /// [`pop_into`](Ring::pop_into) copies once.
    pub fn pop_batch(&self, into: &mut [T]) -> usize
    where
        T: Copy,
    {
        let mut popped = 0;
        while popped < into.len() {
            let rest = &mut into[popped..];
            let now = if Self::WHOLE && Self::WORDS <= MAX_WORDS {
                self.pop_some(rest)
            } else if let Some(element) = self.pop() {
                rest[0] = element;
                1
            } else {
                0
            };
            if now == 0 {
                break;
            }
            popped += now;
        }
        popped
    }

    /// Moves out what moves at one time, for elements in whole words, at most [`MAX_WORDS`] each.
    // Out of line: its memory is not to be part of callers' stack frames.
    #[inline(never)]
    fn pop_some(&self, into: &mut [T]) -> usize
    where
        T: Copy,
    {
        let mut words = MaybeUninit::<[u64; MAX_WORDS]>::uninit();
        let copied = words.as_mut_ptr().cast::<MaybeUninit<usize>>();
        // SAFETY: there is room for `MAX` elements, more than which are not copied, and nothing but
        // the elements popped is read.
        let popped = unsafe { self.pop_part(copied, into.len()) };
        let from = words.as_ptr().cast::<MaybeUninit<u8>>();
        let to = into.as_mut_ptr().cast::<MaybeUninit<u8>>();
        // SAFETY: the ring has given up so many elements, now in `words`, and the slice has room
        // for them.
        unsafe { std::ptr::copy_nonoverlapping(from, to, popped * size_of::<T>()) };
        popped
    }

    /// Moves elements from the front of a vector to the end of the ring, as many as there is room
    /// for; returns how many.
    pub fn append(&self, elements: &mut Vec<T>) -> usize {
        let pushed = self.push_all(elements.as_ptr(), elements.len());
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

    /// Moves the oldest elements to the end of a vector, as many as there are and fit its spare
    /// capacity; returns how many.
    pub fn pop_into(&self, elements: &mut Vec<T>) -> usize {
        let popped = self.pop_all(elements.spare_capacity_mut());
        // SAFETY: the ring has given up so many elements, copied behind the vector's last.
        unsafe { elements.set_len(elements.len() + popped) };
        popped
    }

    /// Takes the elements out, one by one, the oldest first.
    pub fn drain(&self) -> Drain<'_, T> {
        Drain::new(self)
    }

    fn push_all(&self, mut from: *const T, count: usize) -> usize {
        let mut pushed = 0;
        while pushed < count {
            let now = if Self::WHOLE {
                // SAFETY: so many elements lie at `from`, laid out as in the buffer.
                unsafe { self.push_part(from.expose_provenance(), count - pushed) }
            } else {
                // SAFETY: `from` is within the caller's elements; the copy is the ring's if it
                // takes it.
                let padded = Padded::new(unsafe { from.cast::<MaybeUninit<T>>().read() });
                // SAFETY: one element in whole words.
                unsafe { self.push_part((&raw const padded).expose_provenance(), 1) }
            };
            if now == 0 {
                break;
            }
            pushed += now;
            from = from.wrapping_add(now);
        }
        pushed
    }

    /// Pops into memory that counts as uninitialised, from its start on; returns how many elements.
    fn pop_all(&self, into: &mut [MaybeUninit<T>]) -> usize {
        let mut popped = 0;
        while popped < into.len() {
            let rest = &mut into[popped..];
            let now = if Self::WHOLE {
                // SAFETY: there is room for so many elements, laid out as in the buffer.
                unsafe { self.pop_part(rest.as_mut_ptr().cast(), rest.len()) }
            } else if let Some(element) = self.pop() {
                rest[0].write(element);
                1
            } else {
                0
            };
            if now == 0 {
                break;
            }
            popped += now;
        }
        popped
    }

    #[inline]
    fn state(&self) -> (usize, usize) {
        // SAFETY: reads this ring.
        unsafe { state::rolling(address(self)) }
    }

    fn cell(&self, position: usize) -> *const Cell<T> {
        (&raw const self.buffer)
            .cast::<Cell<T>>()
            .wrapping_add(position & Self::MASK)
    }

    /// Puts in as many elements as there is room for up to the end of the buffer, at most `count`
    /// and at most [`MAX`](Self::MAX), all at one time; returns how many.
    ///
    /// # Safety
    ///
    /// `count` elements in whole words lie at `from`, the address of an exposed pointer; those
    /// taken, from the first on, are the ring's.
    #[inline]
    unsafe fn push_part(&self, from: usize, count: usize) -> usize {
        let ring = address(self);
        if Self::WORDS == 1 && count == 1 {
            let buffer = self.cell(0) as usize;
            // SAFETY: the place at the tail lies in the buffer, and handlers look at no place that
            // is not between head and tail. `from`: the caller's promise.
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
            // SAFETY: so many places from the tail on are free until it moves. `from`: the caller's
            // promise.
            let filled = unsafe { self.fill(tail, from, taken * Self::WORDS) };
            let to = tail.wrapping_add(taken);
            // SAFETY: this ring's tail.
            if filled && unsafe { advance::restarting(ring + TAIL, tail, to) } {
                return taken;
            }
        }
    }

    /// Copies words to the place at the tail, as long as that is `tail`; returns whether it is.
    ///
    /// # Safety
    ///
    /// So many words lie at `from`, the address of an exposed pointer, and there is room for them.
    #[inline]
    unsafe fn fill(&self, tail: usize, from: usize, words: usize) -> bool {
        const WORD: usize = size_of::<usize>();
        let (ring, to) = (address(self), self.cell(tail) as usize);
        let by_fours = WORD == 8 && words >= 4;
        let mut next = 0;
        while next < words {
            let is_unmoved = if by_fours {
                // The last four may lie over the ones before: they are the same words.
                let offset = WORD * next.min(words - 4);
                next += 4;
                // SAFETY: the caller's promise; nothing is stored unless the tail is unmoved, and
                // then handlers look at no place behind it.
                unsafe { fill_four::rolling(ring, tail, to + offset, from + offset) }
            } else {
                let offset = WORD * next;
                next += 1;
                // SAFETY: as above.
                unsafe { fill::rolling(ring, tail, to + offset, from + offset) }
            };
            if !is_unmoved {
                return false;
            }
            point();
        }
        true
    }

    /// Takes out as many elements as there are up to the end of the buffer, at most `count` and at
    /// most [`MAX`](Self::MAX), all at one time; returns how many.
    ///
    /// # Safety
    ///
    /// There is room for `count` elements in whole words at `into`. All of it counts as
    /// uninitialised afterwards, but for the elements popped: an attempt that came to nothing may
    /// have written there.
    #[inline]
    unsafe fn pop_part(&self, into: *mut MaybeUninit<usize>, count: usize) -> usize {
        let ring = address(self);
        if Self::WORDS == 1 && count == 1 {
            let (buffer, to) = (self.cell(0) as usize, into.expose_provenance());
            // SAFETY: the place at the head lies in the buffer. `into`: the caller's promise.
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
                // SAFETY: within the buffer and within the caller's room. Volatile: a handler may
                // pop the element, and push another one there, before or after this word is read;
                // then `advance` says so, and what was copied is never looked at.
                unsafe { into.add(word).write(from.add(word).read_volatile()) };
                point();
            }
            let to = head.wrapping_add(taken);
            // SAFETY: this ring's head.
            if unsafe { advance::restarting(ring + HEAD, head, to) } {
                return taken;
            }
        }
    }
}

impl<T, const N: usize> Take<T> for Ring<T, N> {
    fn take(&self, _cursor: &mut usize) -> Option<T> {
        self.pop()
    }
}

impl<T, const N: usize> Drop for Ring<T, N> {
    fn drop(&mut self) {
        if needs_drop::<T>() {
            let mut values = self.drain();
            crate::drops::each(|| values.next().is_some());
        }
    }
}

impl<T, const N: usize> Default for Ring<T, N> {
    fn default() -> Ring<T, N> {
        Ring::new()
    }
}

impl<T, const N: usize> fmt::Debug for Ring<T, N> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Ring")
            .field("len", &self.len())
            .field("capacity", &N)
            .field("scope", &self.scope)
            .finish()
    }
}

#[cfg(test)]
#[path = "ring/tests.rs"]
mod tests;
