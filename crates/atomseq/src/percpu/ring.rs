//! A bounded queue per CPU for values of up to 4 KiB, stored in place.
//!
//! ```text
//! slot:   gate | head | tail | mask | capacity | … | buffer
//! ```
//!
//! Head and tail count elements and do not overflow in practice; `& mask` converts them to an
//! index. The buffer has a power of two of places, of which at most `capacity` are in use.
//!
//! The sequence itself copies elements in and out. An aborted attempt changes nothing in the ring,
//! because it has only written outside head and tail. It may, however, have written words to the
//! destination of a pop, and the retry may find fewer elements, or none. A sequence therefore
//! copies out only to memory that counts as uninitialized, and elements reach a caller's slice
//! after the commit.
//!
//! Under a gate all signals are blocked, and a fault ends the process. On the slow path a caller's
//! slice or vector is therefore accessed before the gate is closed or after it has been opened. The
//! elements pass through a buffer on the stack.

use std::fmt;
use std::marker::PhantomData;
use std::mem::{ManuallyDrop, MaybeUninit};

use super::area::{Area, WORDS};
use super::error::Error;
use super::gate::GateGuard;
use super::remote::{self, Drain, Raw, Take};
use crate::distance::{self, distance};
use crate::drops;
use crate::elements::{Padded, in_parts, take_front};
use crate::or_panic::OrPanic;
use crate::word::Invariant;

const HEAD: usize = WORDS;
const TAIL: usize = WORDS + 8;
const MASK: usize = WORDS + 16;
const CAPACITY: usize = WORDS + 24;
const BUFFER: usize = Area::BULK;

crate::sequence! {
    /// Copies one word in from an address. Returns `false` if the ring is full.
    unsafe fn push_word(slot: Slot, from: Word) -> bool {
        let tail = load(slot + TAIL);
        if tail - load(slot + HEAD) == load(slot + CAPACITY) { return false }
        let place = slot + ((tail & load(slot + MASK)) << 3);
        prepare(place + BUFFER, load(from));
        commit(slot + TAIL, tail + 1);
        true
    }

    /// Copies one word out to an address. Returns `false` if the ring is empty.
    unsafe fn pop_word(slot: Slot, to: Word) -> bool {
        let head = load(slot + HEAD);
        if head == load(slot + TAIL) { return false }
        let place = slot + ((head & load(slot + MASK)) << 3);
        prepare(to, load(place + BUFFER));
        commit(slot + HEAD, head + 1);
        true
    }

    /// Copies in elements of `words` words each, as many as there is room for up to the end of the
    /// buffer, at most `count`. Returns their number.
    unsafe fn push_batch(slot: Slot, from: Word, count: Word, words: Word) -> Word {
        let tail = load(slot + TAIL);
        let room = load(slot + CAPACITY) - (tail - load(slot + HEAD));
        let mask = load(slot + MASK);
        let index = tail & mask;
        let taken = min(min(mask + 1 - index, room), count);
        let to = slot + ((index * words) << 3) + BUFFER;
        prepare_copy(to, from, taken * words);
        commit(slot + TAIL, tail + taken);
        taken
    }

    /// Copies out elements of `words` words each, as many as there are up to the end of the buffer,
    /// at most `count`. Returns their number.
    unsafe fn pop_batch(slot: Slot, to: Word, count: Word, words: Word) -> Word {
        let head = load(slot + HEAD);
        let there = load(slot + TAIL) - head;
        let mask = load(slot + MASK);
        let index = head & mask;
        let taken = min(min(mask + 1 - index, there), count);
        let from = slot + ((index * words) << 3) + BUFFER;
        prepare_copy(to, from, taken * words);
        commit(slot + HEAD, head + taken);
        taken
    }
}

/// The sequences of this file, for the checkers in `verify/`.
#[cfg(feature = "unstable-internals")]
pub(super) const SEQUENCES: &[&crate::sequence::model::Program] = &[
    &push_word::MODEL,
    &pop_word::MODEL,
    &push_batch::MODEL,
    &pop_batch::MODEL,
];

/// Where the elements to copy are: in a local variable of the operation, or in the caller's memory,
/// where a fault may have a handler.
const ON_THE_STACK: bool = false;
const OUTSIDE: bool = true;

/// The maximum number of words that one sequence copies. This takes a few hundred nanoseconds, far
/// less than a time slice.
const MAX_WORDS: usize = 512;

/// A bounded first-in-first-out queue with one part per CPU, for values of up to 4 KiB, stored in
/// place. One sequence can push or pop a batch.
///
/// Scope `SameCpu`. Pushing and popping cost no atomic instruction on the fast path, and block only
/// while another thread holds this CPU's gate or [forks](super#progress). Every operation may be
/// called in a signal handler. Nothing allocates after construction. Elements are ordered per CPU
/// only. For each CPU a ring takes one slot (128 bytes) and room for `capacity` elements, rounded
/// up to a power of two. See [the module](super) for what all per-CPU structures share.
///
/// A batch takes several sequences if it crosses the end of the buffer or is longer than 4 KiB.
/// Elements whose size or alignment is not a multiple of eight bytes take one sequence each.
/// Between two sequences of a batch, other threads and handlers may push and pop, and the thread
/// may migrate: the rest of the batch then goes to, or comes from, the part of the new CPU.
///
/// ```
/// use atomseq::percpu::Ring;
///
/// let events: Ring<(u64, u64)> = Ring::with_capacity_per_cpu(1024);
/// events.push((1, 2)).unwrap();
/// assert_eq!(events.push_batch(&[(3, 4), (5, 6)]), 2);
/// let mut out = [(0, 0); 8];
/// let mut taken = events.pop_batch(&mut out);
/// taken += events.drain().count(); // on another CPU, if this thread moved
/// assert_eq!(taken, 3);
/// ```
pub struct Ring<T> {
    area: Area,
    capacity: usize,
    elements: Invariant<T>,
}

// SAFETY: a ring owns its elements and returns each to one caller, by value. `T: Send` lets them
// change threads.
unsafe impl<T: Send> Send for Ring<T> {}
// SAFETY: shared access moves elements by value only, which `T: Send` permits. Sequences and gates
// make concurrent operations on a slot atomic.
unsafe impl<T: Send> Sync for Ring<T> {}

impl<T> Ring<T> {
    /// The number of eight-byte words that an element takes in the buffer.
    const WORDS: usize = size_of::<T>().div_ceil(8);

    /// Whether an element takes exactly one machine word.
    const ONE_WORD: bool = Self::WORDS == 1 && size_of::<usize>() == 8;

    /// Whether an array of elements has the layout of the buffer.
    const WHOLE: bool =
        size_of::<T>() == Self::WORDS * 8 && align_of::<T>() >= 8 || size_of::<T>() == 0;

    /// The maximum number of elements that one sequence copies.
    const MAX: usize = if Self::WORDS == 0 {
        MAX_WORDS
    } else if Self::WORDS > MAX_WORDS {
        1
    } else {
        MAX_WORDS / Self::WORDS
    };

    /// Creates a ring of up to `capacity` elements per CPU.
    ///
    /// # Panics
    ///
    /// If [`try_with_capacity_per_cpu`](Ring::try_with_capacity_per_cpu) fails.
    #[track_caller]
    pub fn with_capacity_per_cpu(capacity: usize) -> Ring<T> {
        Ring::try_with_capacity_per_cpu(capacity).or_panic()
    }

    /// Creates a ring of up to `capacity` elements per CPU.
    ///
    /// # Errors
    ///
    /// [`Error::ZeroCapacity`]; [`Error::TooLarge`], also for elements larger than 4 KiB or aligned
    /// to more than 128 bytes, which you can box; [`Error::OutOfMemory`] if the operating system
    /// refuses the memory; [`Error::StartingUp`] during start-up.
    pub fn try_with_capacity_per_cpu(capacity: usize) -> Result<Ring<T>, Error> {
        if capacity == 0 {
            return Err(Error::ZeroCapacity);
        }
        if capacity > distance::MAX
            || Self::WORDS > MAX_WORDS
            || align_of::<T>() > super::area::SLOT_BYTES
        {
            return Err(Error::TooLarge);
        }
        let places = capacity
            .checked_next_power_of_two()
            .ok_or(Error::TooLarge)?;
        let bytes = places.checked_mul(Self::WORDS * 8).ok_or(Error::TooLarge)?;
        let area = Area::try_new(bytes)?;
        for cpu in 0..area.cpus() {
            area.set(cpu, MASK, places - 1);
            area.set(cpu, CAPACITY, capacity);
        }
        Ok(Ring {
            area,
            capacity,
            elements: PhantomData,
        })
    }

    /// Returns the maximum number of elements per CPU; [`len`](Ring::len) is the total of all CPUs.
    pub fn capacity(&self) -> usize {
        self.capacity
    }

    /// Returns the number of CPUs that have a part.
    pub fn cpus(&self) -> usize {
        self.area.cpus()
    }

    /// Returns the number of elements that a CPU's part held at one moment of the call. It may be
    /// out of date when the call returns.
    ///
    /// Wait-free: at most eight readings. If other threads remove elements during every reading,
    /// the result is at least one, and at most the number of elements at one moment of the call. On
    /// AArch64 it may also be any number from zero to the capacity, because the two counts may be
    /// seen in another order than they changed.
    ///
    /// # Panics
    ///
    /// If there is no such CPU.
    #[track_caller]
    pub fn len_on(&self, cpu: usize) -> usize {
        self.area.check(cpu);
        let [head, tail] = [HEAD, TAIL].map(|word| move || self.area.peek(cpu, word));
        distance(head, tail, 1, self.capacity)
    }

    /// Returns the sum of [`len_on`](Ring::len_on) over all CPUs. The CPUs are read one after the
    /// other, so an element that changes CPU during the call counts once, twice or not at all.
    pub fn len(&self) -> usize {
        (0..self.cpus()).map(|cpu| self.len_on(cpu)).sum()
    }

    /// Returns whether every CPU's part is empty. Reads one part after the other, so it may miss an
    /// element that changes CPU during the call. The result may be out of date when the call
    /// returns.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Pushes an element to the end of this CPU's part.
    ///
    /// # Errors
    ///
    /// Returns the element if the part is full.
    #[inline]
    pub fn push(&self, element: T) -> Result<(), T> {
        let padded = Padded::new(MaybeUninit::new(element));
        // SAFETY: `padded` holds one element in whole words. If the ring takes it, this copy is
        // neither used nor dropped.
        if unsafe { self.push_from::<ON_THE_STACK>((&raw const padded).expose_provenance(), 1) }
            == 1
        {
            return Ok(());
        }
        // SAFETY: `padded` was initialized with the element, and the ring did not take it.
        Err(unsafe { padded.into_element() })
    }

    /// Pops the oldest element pushed on this CPU.
    #[inline]
    pub fn pop(&self) -> Option<T> {
        let mut padded = Padded::new(MaybeUninit::uninit());
        // SAFETY: `padded` has room for one element in whole words, and counts as uninitialized.
        if unsafe { self.pop_to::<ON_THE_STACK>((&raw mut padded).expose_provenance(), 1) } == 0 {
            return None;
        }
        // SAFETY: the sequence has just copied an element here and removed it from the ring.
        Some(unsafe { padded.into_element() })
    }

    /// Copies elements to the end of this CPU's part, from the first on, as many as there is room
    /// for. Returns their number.
    ///
    /// On the slow path each element is copied twice, through up to 4 KiB of stack.
    pub fn push_batch(&self, elements: &[T]) -> usize
    where
        T: Copy,
    {
        self.push_all(elements.as_ptr(), elements.len())
    }

    /// Pops the oldest elements pushed on this CPU into a slice, as many as there are and fit.
    /// Returns their number, and leaves the rest of the slice unchanged.
    ///
    /// Each element is copied twice, through up to 4 KiB of stack. [`pop_into`](Ring::pop_into)
    /// copies once on the fast path.
    pub fn pop_batch(&self, into: &mut [T]) -> usize
    where
        T: Copy,
    {
        in_parts(into.len(), |popped| {
            let rest = &mut into[popped..];
            if Self::WHOLE {
                // SAFETY: `through_the_stack` passes an address with room for `count` elements.
                let pop = |to, count| unsafe { self.pop_to::<ON_THE_STACK>(to, count) };
                // SAFETY: `WHOLE`: an element is whole words, and the slice may be overwritten: its
                // elements are `Copy`.
                unsafe { Self::through_the_stack(rest.as_mut_ptr(), rest.len(), pop) }
            } else if let Some(element) = self.pop() {
                rest[0] = element;
                1
            } else {
                0
            }
        })
    }

    /// Pops one sequence's share of a batch to a buffer on the stack, and copies it to `into`.
    /// Returns the number of elements.
    ///
    /// # Safety
    ///
    /// An element is whole words, and `into` has room for `count` of them. `pop` gets an address
    /// and the number of elements that fit there, and returns how many it has written.
    // Out of line: the buffer must not become part of callers' stack frames.
    #[inline(never)]
    unsafe fn through_the_stack(
        into: *mut T,
        count: usize,
        pop: impl FnOnce(usize, usize) -> usize,
    ) -> usize {
        let mut words = MaybeUninit::<[u64; MAX_WORDS]>::uninit();
        let to = words.as_mut_ptr().expose_provenance();
        let popped = pop(to, count.min(Self::MAX));
        let (from, into) = (words.as_ptr().cast::<MaybeUninit<u8>>(), into.cast());
        // SAFETY: `pop` wrote `popped` elements to `words`, at most `count`, and the caller
        // guarantees that they fit at `into`.
        unsafe { std::ptr::copy_nonoverlapping(from, into, popped * size_of::<T>()) };
        popped
    }

    /// Moves elements from the front of a vector to the end of this CPU's part, as many as there is
    /// room for. Returns their number.
    ///
    /// On the slow path it copies as [`push_batch`](Ring::push_batch) does.
    pub fn append(&self, elements: &mut Vec<T>) -> usize {
        // SAFETY: the ring owns the elements that it pushes.
        unsafe { take_front(elements, |from, count| self.push_all(from, count)) }
    }

    /// Moves the oldest elements pushed on this CPU to the end of a vector, as many as there are
    /// and fit its spare capacity. Returns their number.
    ///
    /// On the slow path it copies as [`pop_batch`](Ring::pop_batch) does.
    pub fn pop_into(&self, elements: &mut Vec<T>) -> usize {
        let popped = self.pop_all(elements.spare_capacity_mut());
        // SAFETY: `pop_all` initialized `popped` elements behind the vector's last one.
        unsafe { elements.set_len(elements.len() + popped) };
        popped
    }

    fn push_all(&self, from: *const T, count: usize) -> usize {
        in_parts(count, |pushed| {
            let from = from.wrapping_add(pushed);
            if Self::WHOLE {
                // SAFETY: at least `count - pushed` elements lie at `from`, and `WHOLE`: in the
                // layout of the buffer.
                unsafe {
                    self.push_from::<OUTSIDE>(
                        from.expose_provenance(),
                        (count - pushed).min(Self::MAX),
                    )
                }
            } else {
                // SAFETY: `from` points to one of the caller's elements. The copy is used only if
                // the ring takes it, which then owns the element.
                let padded = Padded::new(unsafe { from.cast::<MaybeUninit<T>>().read() });
                // SAFETY: `padded` holds one element in whole words.
                unsafe {
                    self.push_from::<ON_THE_STACK>((&raw const padded).expose_provenance(), 1)
                }
            }
        })
    }

    /// Pops into memory that counts as uninitialized, from its start on. Returns the number of
    /// elements.
    fn pop_all(&self, into: &mut [MaybeUninit<T>]) -> usize {
        in_parts(into.len(), |popped| {
            let rest = &mut into[popped..];
            if Self::WHOLE {
                let count = rest.len().min(Self::MAX);
                // SAFETY: `rest` has room for `count` elements, and `WHOLE`: in the layout of the
                // buffer.
                unsafe { self.pop_to::<OUTSIDE>(rest.as_mut_ptr().expose_provenance(), count) }
            } else if let Some(element) = self.pop() {
                rest[0].write(element);
                1
            } else {
                0
            }
        })
    }

    /// Pushes up to `count` elements with one sequence. Returns how many the ring took, from the
    /// first on.
    ///
    /// # Safety
    ///
    /// `count` elements in whole words, at most `MAX`, are at `from`. The ring owns those that it
    /// takes.
    #[inline]
    unsafe fn push_from<const WHERE: bool>(&self, from: usize, count: usize) -> usize {
        // SAFETY: the caller guarantees `count` elements at `from` that the ring may take.
        match unsafe { self.push_here(from, count) } {
            Ok(pushed) => pushed,
            // SAFETY: the aborted attempt took no element, so the `count` elements at `from` are
            // still the caller's to give.
            Err(_) => unsafe { self.push_slowly::<WHERE>(from, count) },
        }
    }

    /// Pushes without the slow path. `Closed` means that nothing changed.
    ///
    /// # Safety
    ///
    /// The requirements of `push_from`.
    #[inline]
    unsafe fn push_here(
        &self,
        from: usize,
        count: usize,
    ) -> Result<usize, crate::sequence::Closed> {
        let slots = self.area.slots();
        // SAFETY: the caller guarantees `count` elements at `from`. The buffer lives as long as the
        // area.
        unsafe {
            if Self::ONE_WORD && count == 1 {
                push_word::on_cpu(slots, from).map(usize::from)
            } else {
                push_batch::on_cpu(slots, from, count, Self::WORDS)
            }
        }
    }

    /// Pushes under the gate.
    ///
    /// # Safety
    ///
    /// The requirements of `push_from`.
    #[cold]
    unsafe fn push_slowly<const WHERE: bool>(&self, from: usize, count: usize) -> usize {
        if WHERE == OUTSIDE {
            // SAFETY: the caller guarantees `count` elements at `from` that the ring may take.
            return unsafe { self.push_copies_slowly(from, count) };
        }
        // SAFETY: the caller guarantees `count` elements at `from`, and `held` closes this slot.
        self.area
            .on_slow_path(move |held| unsafe { push_batch::gated(held, from, count, Self::WORDS) })
    }

    /// Copies elements of the caller's memory to the stack, and pushes them from there under the
    /// gate.
    ///
    /// # Safety
    ///
    /// The requirements of `push_from`.
    // Out of line: the buffer must not become part of callers' stack frames.
    #[inline(never)]
    unsafe fn push_copies_slowly(&self, from: usize, count: usize) -> usize {
        let mut words = MaybeUninit::<[u64; MAX_WORDS]>::uninit();
        let (from, to) = (
            std::ptr::with_exposed_provenance::<MaybeUninit<u8>>(from),
            words.as_mut_ptr().cast(),
        );
        // SAFETY: the caller guarantees `count` elements at `from`, at most `MAX`, for which
        // `words` has room.
        unsafe { std::ptr::copy_nonoverlapping(from, to, count * size_of::<T>()) };
        let copies = words.as_ptr().expose_provenance();
        // SAFETY: `words` holds `count` elements. Copies that the ring does not take are not used
        // or dropped.
        unsafe { self.push_slowly::<ON_THE_STACK>(copies, count) }
    }

    /// Pops up to `count` elements with one sequence. Returns their number.
    ///
    /// # Safety
    ///
    /// `to` has room for `count` elements in whole words. After the call all of it counts as
    /// uninitialized except for the elements popped, because an aborted attempt may have written
    /// there.
    #[inline]
    unsafe fn pop_to<const WHERE: bool>(&self, to: usize, count: usize) -> usize {
        let slots = self.area.slots();
        // SAFETY: the caller guarantees room for `count` elements at `to`. The buffer lives as long
        // as the area.
        let popped = unsafe {
            if Self::ONE_WORD && count == 1 {
                pop_word::on_cpu(slots, to).map(usize::from)
            } else {
                pop_batch::on_cpu(slots, to, count, Self::WORDS)
            }
        };
        match popped {
            Ok(popped) => popped,
            // SAFETY: the caller guarantees room for `count` elements at `to`, and the aborted
            // attempt removed none.
            Err(_) => unsafe { self.pop_slowly::<WHERE>(to, count) },
        }
    }

    /// Pops under the gate.
    ///
    /// # Safety
    ///
    /// The requirements of `pop_to`.
    #[cold]
    unsafe fn pop_slowly<const WHERE: bool>(&self, to: usize, count: usize) -> usize {
        if WHERE == OUTSIDE {
            // SAFETY: `through_the_stack` passes an address with room for `count` elements.
            let pop = |to, count| unsafe { self.pop_slowly::<ON_THE_STACK>(to, count) };
            let into = std::ptr::with_exposed_provenance_mut(to);
            // SAFETY: the caller guarantees room for `count` elements in whole words at `to`.
            return unsafe { Self::through_the_stack(into, count, pop) };
        }
        // SAFETY: the caller guarantees room for `count` elements at `to`, and `held` closes this
        // slot.
        self.area
            .on_slow_path(move |held| unsafe { pop_batch::gated(held, to, count, Self::WORDS) })
    }

    /// Pops the oldest element pushed on a CPU, under its gate.
    ///
    /// Costs three loads if the part seems empty, or up to 17 if other threads remove elements
    /// meanwhile, and otherwise as much as [`Area::close_gate`]. Blocks while another thread holds
    /// that gate.
    ///
    /// # Panics
    ///
    /// If there is no such CPU.
    #[track_caller]
    pub fn steal_from(&self, cpu: usize) -> Option<T>
    where
        T: Send,
    {
        remote::steal_from(self, cpu)
    }

    /// Pops an element from any CPU with [`steal_from`](Ring::steal_from). Tries the following CPU
    /// numbers first and the current CPU last. Like [`is_empty`](Ring::is_empty), it may miss an
    /// element that changes CPU during the call.
    pub fn steal(&self) -> Option<T>
    where
        T: Send,
    {
        remote::steal(self)
    }

    /// Returns an iterator that removes every element, CPU by CPU, the oldest first. It closes a
    /// gate for up to sixteen elements at a time, at the cost of [`Area::close_gate`].
    pub fn drain(&self) -> Drain<'_, T>
    where
        T: Send,
    {
        Drain::new(self)
    }
}

impl<T: Send> Take<T> for Ring<T> {
    fn area(&self) -> &Area {
        &self.area
    }

    fn take(&self, held: &GateGuard<'_>) -> Option<Raw<T>> {
        let mut padded = Padded::new(MaybeUninit::uninit());
        let to = (&raw mut padded).expose_provenance();
        // SAFETY: `padded` has room for one element in whole words, and `held` closes this slot.
        if unsafe { pop_batch::gated(held, to, 1, Self::WORDS) } == 0 {
            return None;
        }
        // SAFETY: the sequence has just copied an element here and removed it from the ring.
        let element = unsafe { padded.into_element() };
        Some(Raw {
            element: ManuallyDrop::new(element),
        })
    }

    unsafe fn element(&self, raw: Raw<T>) -> T {
        // SAFETY: the caller guarantees that `take` returned `raw`, which initialized this field.
        ManuallyDrop::into_inner(unsafe { raw.element })
    }

    fn seems_occupied(&self, cpu: usize) -> bool {
        self.len_on(cpu) > 0
    }

    fn count(&self, held: &GateGuard<'_>) -> usize {
        self.len_on(held.cpu())
    }
}

impl<T> Drop for Ring<T> {
    fn drop(&mut self) {
        if !std::mem::needs_drop::<T>() {
            return;
        }
        let mut places = (0..self.area.cpus()).flat_map(|cpu| {
            let (head, mask) = (self.area.peek(cpu, HEAD), self.area.peek(cpu, MASK));
            let buffer = self.area.bulk(cpu).as_ptr();
            (0..self.len_on(cpu)).map(move |position| {
                let place = head.wrapping_add(position) & mask;
                buffer.wrapping_add(place * Self::WORDS * 8).cast::<T>()
            })
        });
        drops::each(|| {
            // SAFETY: the places from head to tail hold elements, each is read once, and
            // `&mut self` excludes other threads.
            let element = places.next().map(|place| unsafe { place.read() });
            element.is_some()
        });
    }
}

impl<T> fmt::Debug for Ring<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Ring")
            .field("len", &self.len())
            .field("capacity", &self.capacity)
            .finish()
    }
}

#[cfg(test)]
mod tests;
