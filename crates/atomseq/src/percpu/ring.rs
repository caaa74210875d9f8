//! A bounded queue a CPU, of values of any size kept in place.
//!
//! ```text
//! slot:   gate | head | tail | mask | capacity | … | buffer
//! ```
//!
//! Head and tail count elements and never wrap in practice; `& mask` makes an index of them. The
//! buffer has a power of two of places, of which `capacity` are used at a time. Elements are copied
//! in and out by the sequence itself. An interrupted attempt leaves nothing behind in the ring:
//! what it wrote lies outside head and tail. It does leave words where it copied elements out to,
//! and its retry may find fewer elements, or none. So a sequence copies out only to memory that
//! counts as uninitialised, and elements reach a caller's slice after the commit.
//!
//! Under a gate every signal is blocked, and a fault ends the process. So on the slow path a
//! caller's slice or vector is touched before the gate closes or after it has opened: elements go
//! by way of the stack.

use std::fmt;
use std::marker::PhantomData;
use std::mem::{ManuallyDrop, MaybeUninit};

use super::area::{Area, WORDS};
use super::error::Error;
use super::gate::GateGuard;
use super::remote::{self, Drain, Raw, Take};
use crate::distance::{self, distance};
use crate::drops;
use crate::word::Invariant;

const HEAD: usize = WORDS;
const TAIL: usize = WORDS + 8;
const MASK: usize = WORDS + 16;
const CAPACITY: usize = WORDS + 24;
const BUFFER: usize = Area::BULK;

crate::sequence! {
    /// Copies one word in from an address; `false` when the ring is full.
    unsafe fn push_word(slot: Slot, from: Word) -> bool {
        let tail = load(slot + TAIL);
        if tail - load(slot + HEAD) == load(slot + CAPACITY) { return false }
        let place = slot + ((tail & load(slot + MASK)) << 3);
        prepare(place + BUFFER, load(from));
        commit(slot + TAIL, tail + 1);
        true
    }

    /// Copies one word out to an address; `false` when the ring is empty.
    unsafe fn pop_word(slot: Slot, to: Word) -> bool {
        let head = load(slot + HEAD);
        if head == load(slot + TAIL) { return false }
        let place = slot + ((head & load(slot + MASK)) << 3);
        prepare(to, load(place + BUFFER));
        commit(slot + HEAD, head + 1);
        true
    }

    /// Copies in as many elements of so many words each as there is room for up to the end of the
    /// buffer, at most `count`; returns how many.
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

    /// Copies out as many elements as there are up to the end of the buffer, at most `count`;
    /// returns how many.
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

/// For the checkers in `verify/`.
#[cfg(feature = "unstable-internals")]
pub(super) const SEQUENCES: &[&crate::sequence::model::Program] = &[
    &push_word::MODEL,
    &pop_word::MODEL,
    &push_batch::MODEL,
    &pop_batch::MODEL,
];

/// Where elements lie that go in, or come out: in a variable of the operation's own, or in memory
/// of the caller's, where a fault may have a handler.
const ON_THE_STACK: bool = false;
const OUTSIDE: bool = true;

/// The most words one sequence copies: a few hundred nanoseconds, far less than a time slice.
const MAX_WORDS: usize = 512;

/// A bounded first-in-first-out store with a part a CPU, of values of any size, in place; a batch
/// goes in or out in one sequence.
///
/// Scope `SameCpu`; putting in and taking out cost no atomic instruction and wait only while
/// another thread holds this CPU's gate. Every operation may be used in signal handlers; nothing
/// allocates after construction. Order holds on each CPU alone. Takes a slot and room for
/// `capacity` elements, rounded up to a power of two, for each CPU; [the module](super) tells the
/// rest.
///
/// A batch that crosses the end of the buffer, or is longer than 4 KiB, takes more than one
/// sequence; elements whose size or alignment is no multiple of a word take one each.
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

// SAFETY: elements move between threads as values, never by reference.
unsafe impl<T: Send> Send for Ring<T> {}
// SAFETY: as above; the sequences and the gates make concurrent use atomic.
unsafe impl<T: Send> Sync for Ring<T> {}

/// An element in whole words of eight bytes.
#[repr(C, align(8))]
union Padded<T> {
    element: ManuallyDrop<MaybeUninit<T>>,
    _word: [u64; 0],
}

impl<T> Ring<T> {
    /// How many words of eight bytes an element takes in the buffer.
    const WORDS: usize = size_of::<T>().div_ceil(8);

    /// Does a machine word hold an element?
    const ONE_WORD: bool = Self::WORDS == 1 && size_of::<usize>() == 8;

    /// Does an array of elements have the layout of the buffer?
    const WHOLE: bool =
        size_of::<T>() == Self::WORDS * 8 && align_of::<T>() >= 8 || size_of::<T>() == 0;

    /// How many elements one sequence copies at most.
    const MAX: usize = if Self::WORDS == 0 {
        MAX_WORDS
    } else if Self::WORDS > MAX_WORDS {
        1
    } else {
        MAX_WORDS / Self::WORDS
    };

    /// A ring of up to `capacity` elements a CPU.
    ///
    /// # Panics
    ///
    /// If [`try_with_capacity_per_cpu`](Ring::try_with_capacity_per_cpu) fails.
    pub fn with_capacity_per_cpu(capacity: usize) -> Ring<T> {
        Ring::try_with_capacity_per_cpu(capacity).unwrap_or_else(|error| panic!("{error}"))
    }

    /// A ring of up to `capacity` elements a CPU, or why there is none.
    ///
    /// # Errors
    ///
    /// [`Error::ZeroCapacity`], [`Error::TooLarge`] (also for elements of more than 4 KiB, or
    /// aligned to more than 128 bytes: box them), [`Error::OutOfMemory`].
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

    /// How many elements each CPU has room for.
    pub fn capacity(&self) -> usize {
        self.capacity
    }

    /// How many CPUs have a part.
    pub fn cpus(&self) -> usize {
        self.area.cpus()
    }

    /// How many elements a CPU's part holds at one moment of the call; already history when it
    /// returns.
    ///
    /// Wait-free. While others keep taking elements out, so that eight readings in a row find the
    /// part changed: at least one, and otherwise no more than there are at one moment. On AArch64,
    /// which may show elements coming and going in another order: between none and the capacity.
    ///
    /// # Panics
    ///
    /// If there is no such CPU.
    pub fn len_on(&self, cpu: usize) -> usize {
        let [head, tail] = [0, 1].map(|word| move || self.area.peek(cpu, word));
        distance(head, tail, 1, self.capacity)
    }

    /// The sum of what [`len_on`](Ring::len_on) says of each CPU, one after the other: an element
    /// that goes from CPU to CPU meanwhile counts once, twice or not at all.
    pub fn len(&self) -> usize {
        (0..self.cpus()).map(|cpu| self.len_on(cpu)).sum()
    }

    /// Is there no element on any CPU? Looks at one after the other, so it may miss an element that
    /// goes from CPU to CPU meanwhile. Already history when it returns.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Puts an element at the end of this CPU's ring.
    ///
    /// # Errors
    ///
    /// The element, if this CPU's ring is full.
    #[inline]
    pub fn push(&self, element: T) -> Result<(), T> {
        let padded = Padded {
            element: ManuallyDrop::new(MaybeUninit::new(element)),
        };
        // SAFETY: one element in whole words; the ring owns it if it took it.
        if unsafe { self.push_from::<ON_THE_STACK>((&raw const padded).expose_provenance(), 1) }
            == 1
        {
            return Ok(());
        }
        // SAFETY: the element was put there above, and the ring did not take it.
        Err(unsafe { ManuallyDrop::into_inner(padded.element).assume_init() })
    }

    /// Takes the oldest element pushed on this CPU.
    #[inline]
    pub fn pop(&self) -> Option<T> {
        let mut padded = Padded {
            element: ManuallyDrop::new(MaybeUninit::uninit()),
        };
        // SAFETY: room for one element in whole words.
        if unsafe { self.pop_to::<ON_THE_STACK>((&raw mut padded).expose_provenance(), 1) } == 0 {
            return None;
        }
        // SAFETY: just copied out of the ring, which has given it up.
        Some(unsafe { ManuallyDrop::into_inner(padded.element).assume_init() })
    }

    /// Copies elements to the end of this CPU's ring, as many as there is room for, from the first
    /// on; returns how many.
    ///
    /// On the slow path it copies each element twice, by way of up to 4 KiB of stack.
    pub fn push_batch(&self, elements: &[T]) -> usize
    where
        T: Copy,
    {
        self.push_all(elements.as_ptr(), elements.len())
    }

    /// Moves the oldest elements pushed on this CPU into a slice, as many as there are and fit;
    /// returns how many. The rest of the slice stays as it is.
    ///
    /// Copies each element twice, by way of up to 4 KiB of stack;
    /// [`pop_into`](Ring::pop_into) copies once on the fast path.
    pub fn pop_batch(&self, into: &mut [T]) -> usize
    where
        T: Copy,
    {
        let mut popped = 0;
        while popped < into.len() {
            let rest = &mut into[popped..];
            let now = if Self::WHOLE {
                // SAFETY: it gets room for so many elements.
                let pop = |to, count| unsafe { self.pop_to::<ON_THE_STACK>(to, count) };
                // SAFETY: elements in whole words, and these are the slice's to overwrite.
                unsafe { Self::by_way_of_the_stack(rest.as_mut_ptr(), rest.len(), pop) }
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

    /// One sequence's share of a batch: pops to the stack, and copies what was popped on to `into`;
    /// returns how many elements.
    ///
    /// # Safety
    ///
    /// An element is whole words, and there is room for `count` of them at `into`. `pop` gets an
    /// address with room for the number of elements that it gets as well, and returns how many of
    /// them it has put there.
    // Out of line: its memory is not to be part of callers' stack frames.
    #[inline(never)]
    unsafe fn by_way_of_the_stack(
        into: *mut T,
        count: usize,
        pop: impl FnOnce(usize, usize) -> usize,
    ) -> usize {
        let mut words = MaybeUninit::<[u64; MAX_WORDS]>::uninit();
        let to = words.as_mut_ptr().expose_provenance();
        let popped = pop(to, count.min(Self::MAX));
        let (from, into) = (words.as_ptr().cast::<MaybeUninit<u8>>(), into.cast());
        // SAFETY: the caller's promise: so many elements were popped into `words`, and fit.
        unsafe { std::ptr::copy_nonoverlapping(from, into, popped * size_of::<T>()) };
        popped
    }

    /// Moves elements from the front of a vector to the end of this CPU's ring, as many as there is
    /// room for; returns how many.
    ///
    /// On the slow path it copies as [`push_batch`](Ring::push_batch) does.
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

    /// Moves the oldest elements pushed on this CPU to the end of a vector, as many as there are
    /// and fit its spare capacity; returns how many.
    ///
    /// On the slow path it copies as [`pop_batch`](Ring::pop_batch) does.
    pub fn pop_into(&self, elements: &mut Vec<T>) -> usize {
        let popped = self.pop_all(elements.spare_capacity_mut());
        // SAFETY: the ring has given up so many elements, copied behind the vector's last.
        unsafe { elements.set_len(elements.len() + popped) };
        popped
    }

    fn push_all(&self, mut from: *const T, count: usize) -> usize {
        let mut pushed = 0;
        while pushed < count {
            let now = if Self::WHOLE {
                // SAFETY: so many elements lie at `from`, laid out as in the buffer.
                unsafe {
                    self.push_from::<OUTSIDE>(
                        from.expose_provenance(),
                        (count - pushed).min(Self::MAX),
                    )
                }
            } else {
                // SAFETY: `from` is within the caller's elements; the copy is the ring's if it
                // takes it.
                let copy = unsafe { from.cast::<MaybeUninit<T>>().read() };
                let padded = Padded {
                    element: ManuallyDrop::new(copy),
                };
                // SAFETY: one element in whole words.
                unsafe {
                    self.push_from::<ON_THE_STACK>((&raw const padded).expose_provenance(), 1)
                }
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
                let count = rest.len().min(Self::MAX);
                // SAFETY: there is room for so many elements, laid out as in the buffer.
                unsafe { self.pop_to::<OUTSIDE>(rest.as_mut_ptr().expose_provenance(), count) }
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

    /// One sequence in.
    ///
    /// # Safety
    ///
    /// `count` elements in whole words, at most `MAX`, lie at `from`; those taken, from the first
    /// on, are the ring's.
    #[inline]
    unsafe fn push_from<const WHERE: bool>(&self, from: usize, count: usize) -> usize {
        // SAFETY: the caller's promise.
        match unsafe { self.push_here(from, count) } {
            Ok(pushed) => pushed,
            // SAFETY: the same.
            Err(_) => unsafe { self.push_slowly::<WHERE>(from, count) },
        }
    }

    /// Without the slow path.
    ///
    /// # Safety
    ///
    /// As of `push_from`.
    #[inline]
    unsafe fn push_here(
        &self,
        from: usize,
        count: usize,
    ) -> Result<usize, crate::sequence::Closed> {
        let slots = self.area.slots();
        // SAFETY: the caller's promise, and the buffer lives as long as the area.
        unsafe {
            if Self::ONE_WORD && count == 1 {
                push_word::on_cpu(slots, from).map(usize::from)
            } else {
                push_batch::on_cpu(slots, from, count, Self::WORDS)
            }
        }
    }

    /// # Safety
    ///
    /// As of `push_from`.
    #[cold]
    unsafe fn push_slowly<const WHERE: bool>(&self, from: usize, count: usize) -> usize {
        if WHERE == OUTSIDE {
            // SAFETY: the caller's promise.
            return unsafe { self.push_copies_slowly(from, count) };
        }
        // SAFETY: the caller's promise, and the gate is held.
        self.area
            .on_slow_path(|held| unsafe { push_batch::gated(held, from, count, Self::WORDS) })
    }

    /// # Safety
    ///
    /// As of `push_from`.
    // Out of line: its memory is not to be part of callers' stack frames.
    #[inline(never)]
    unsafe fn push_copies_slowly(&self, from: usize, count: usize) -> usize {
        let mut words = MaybeUninit::<[u64; MAX_WORDS]>::uninit();
        let (from, to) = (
            std::ptr::with_exposed_provenance::<MaybeUninit<u8>>(from),
            words.as_mut_ptr().cast(),
        );
        // SAFETY: the caller's promise, and there is room for `MAX` elements.
        unsafe { std::ptr::copy_nonoverlapping(from, to, count * size_of::<T>()) };
        let copies = words.as_ptr().expose_provenance();
        // SAFETY: the caller's promise, for the copies; those that the ring does not take are
        // forgotten.
        unsafe { self.push_slowly::<ON_THE_STACK>(copies, count) }
    }

    /// One sequence out.
    ///
    /// # Safety
    ///
    /// There is room for `count` elements in whole words at `to`. All of it counts as uninitialised
    /// afterwards, but for the elements popped: an aborted attempt may have written there.
    #[inline]
    unsafe fn pop_to<const WHERE: bool>(&self, to: usize, count: usize) -> usize {
        let slots = self.area.slots();
        // SAFETY: the caller's promise, and the buffer lives as long as the area.
        let popped = unsafe {
            if Self::ONE_WORD && count == 1 {
                pop_word::on_cpu(slots, to).map(usize::from)
            } else {
                pop_batch::on_cpu(slots, to, count, Self::WORDS)
            }
        };
        match popped {
            Ok(popped) => popped,
            // SAFETY: the same.
            Err(_) => unsafe { self.pop_slowly::<WHERE>(to, count) },
        }
    }

    /// # Safety
    ///
    /// As of `pop_to`.
    #[cold]
    unsafe fn pop_slowly<const WHERE: bool>(&self, to: usize, count: usize) -> usize {
        if WHERE == OUTSIDE {
            // SAFETY: it gets room for so many elements.
            let pop = |to, count| unsafe { self.pop_slowly::<ON_THE_STACK>(to, count) };
            let into = std::ptr::with_exposed_provenance_mut(to);
            // SAFETY: the caller's promise.
            return unsafe { Self::by_way_of_the_stack(into, count, pop) };
        }
        // SAFETY: the caller's promise, and the gate is held.
        self.area
            .on_slow_path(|held| unsafe { pop_batch::gated(held, to, count, Self::WORDS) })
    }

    /// Takes the oldest element pushed on a CPU, through its gate.
    ///
    /// Costs three loads if there seems to be none, else as much as [`Area::close_gate`]; waits
    /// while another thread holds that gate.
    ///
    /// # Panics
    ///
    /// If there is no such CPU.
    pub fn steal_from(&self, cpu: usize) -> Option<T>
    where
        T: Send,
    {
        remote::steal_from(self, cpu)
    }

    /// Takes an element from any CPU, the next ones first and this one last, by
    /// [`steal_from`](Ring::steal_from). Like [`is_empty`](Ring::is_empty), it may miss an element
    /// that goes from CPU to CPU meanwhile.
    pub fn steal(&self) -> Option<T>
    where
        T: Send,
    {
        remote::steal(self)
    }

    /// Takes every element out, CPU by CPU, the oldest first: sixteen at a time, each time at the
    /// cost of [`Area::close_gate`].
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
        let mut padded = Padded {
            element: ManuallyDrop::new(MaybeUninit::uninit()),
        };
        let to = (&raw mut padded).expose_provenance();
        // SAFETY: room for one element in whole words, and the gate is held.
        if unsafe { pop_batch::gated(held, to, 1, Self::WORDS) } == 0 {
            return None;
        }
        // SAFETY: just copied out of the ring, which has given it up.
        let element = unsafe { ManuallyDrop::into_inner(padded.element).assume_init() };
        Some(Raw {
            element: ManuallyDrop::new(element),
        })
    }

    unsafe fn element(&self, raw: Raw<T>) -> T {
        // SAFETY: the caller's promise: `take` put it there.
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
            let (head, mask) = (self.area.peek(cpu, 0), self.area.peek(cpu, 2));
            let buffer = self.area.bulk(cpu).as_ptr();
            (0..self.len_on(cpu)).map(move |position| {
                let place = head.wrapping_add(position) & mask;
                buffer.wrapping_add(place * Self::WORDS * 8).cast::<T>()
            })
        });
        drops::each(|| {
            // SAFETY: between head and tail lie elements of the ring, each read once; nobody else
            // has the ring now.
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
