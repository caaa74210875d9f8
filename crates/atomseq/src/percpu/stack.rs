//! A bounded stack a CPU: an array behind the slot, and how much was ever pushed and popped.
//!
//! ```text
//!   +------+--------+--------+------+------+------+------+----
//!   | gate | pushed | popped |      | word | word |      |  …     array, `capacity` bytes
//!   +------+--------+--------+------+------+------+------+----
//!              pushed - popped = 16, in bytes ────^
//! ```
//!
//! Two counts instead of one height, because a push then changes one word and a pop the other: in a
//! run of pushes and pops, no operation has to wait until the one before has stored what it loads,
//! adds to and stores again. Both counts wrap around.

use std::fmt;
use std::marker::PhantomData;
use std::slice;

use super::area::{Area, WORDS};
use super::batch::ElementWord;
use super::error::Error;
use super::gate::GateGuard;
use super::remote::{self, Drain, Raw, Take};
use crate::AsWord;
use crate::distance::distance;
use crate::drops;
use crate::sequence::Closed;
use crate::word::Invariant;

const PUSHED: usize = WORDS;
const POPPED: usize = WORDS + 8;
const ARRAY: usize = Area::BULK;

crate::sequence! {
    /// Puts a word on top; `false` when the array of `capacity` bytes is full.
    unsafe fn push(slot: Slot, capacity: Word, value: Word) -> bool {
        let pushed = load(slot + PUSHED);
        let height = pushed - load(slot + POPPED);
        if height == capacity { return false }
        prepare(slot + height + ARRAY, value);
        commit(slot + PUSHED, pushed + 8);
        true
    }

    /// Takes the word on top.
    unsafe fn pop(slot: Slot) -> Option<Word> {
        let popped = load(slot + POPPED);
        let height = load(slot + PUSHED) - popped;
        if height == 0 { return None }
        let value = load(slot + height + (ARRAY - 8));
        commit(slot + POPPED, popped + 8);
        Some(value)
    }

    /// Puts as many words on top as there is room for, of `count` at `from`; returns how many.
    unsafe fn push_batch(slot: Slot, capacity: Word, from: Word, count: Word) -> Word {
        let pushed = load(slot + PUSHED);
        let height = pushed - load(slot + POPPED);
        let taken = min((capacity - height) >> 3, count);
        prepare_copy(slot + height + ARRAY, from, taken);
        commit(slot + PUSHED, pushed + (taken << 3));
        taken
    }

    /// Takes up to `count` words from the top into `to`, the topmost last; returns how many.
    unsafe fn pop_batch(slot: Slot, to: Word, count: Word) -> Word {
        let popped = load(slot + POPPED);
        let height = load(slot + PUSHED) - popped;
        let taken = min(height >> 3, count);
        prepare_copy(to, slot + (height - (taken << 3)) + ARRAY, taken);
        commit(slot + POPPED, popped + (taken << 3));
        taken
    }
}

/// For the checkers in `verify/`.
#[cfg(feature = "unstable-internals")]
pub(super) const SEQUENCES: &[&crate::sequence::model::Program] = &[
    &push::MODEL,
    &pop::MODEL,
    &push_batch::MODEL,
    &pop_batch::MODEL,
];

/// A bounded last-in-first-out store with a part a CPU: what a thread pushes, a thread on the same
/// CPU pops, most likely still in its cache.
///
/// Scope `SameCpu`; [`push`](Stack::push) and [`pop`](Stack::pop) cost no atomic instruction and
/// wait only while another thread holds this CPU's gate. Every operation may be used in signal
/// handlers; nothing allocates after construction. Order holds on each CPU alone: a thread that
/// moves finds the other CPU's elements. Takes a slot and eight bytes an element for each CPU; [the
/// module](super) tells the rest.
///
/// ```
/// use atomseq::percpu::Stack;
///
/// let free: Stack<Box<[u8; 64]>> = Stack::with_capacity_per_cpu(128);
/// free.push(Box::new([0; 64])).unwrap();
/// // Back on the same CPU, or found on another one.
/// let block = free.pop().or_else(|| free.steal()).unwrap();
/// assert_eq!(block.len(), 64);
/// assert!(free.drain().next().is_none());
/// ```
pub struct Stack<T: AsWord> {
    area: Area,
    /// In bytes.
    capacity: usize,
    elements: Invariant<T>,
}

// SAFETY: elements move between threads as values, never by reference.
unsafe impl<T: AsWord + Send> Send for Stack<T> {}
// SAFETY: as above; the sequences and the gates make concurrent use atomic.
unsafe impl<T: AsWord + Send> Sync for Stack<T> {}

impl<T: AsWord> Stack<T> {
    /// A stack of up to `capacity` elements a CPU.
    ///
    /// # Panics
    ///
    /// If [`try_with_capacity_per_cpu`](Stack::try_with_capacity_per_cpu) fails.
    pub fn with_capacity_per_cpu(capacity: usize) -> Stack<T> {
        Stack::try_with_capacity_per_cpu(capacity).unwrap_or_else(|error| panic!("{error}"))
    }

    /// A stack of up to `capacity` elements a CPU, or why there is none.
    ///
    /// # Errors
    ///
    /// [`Error::ZeroCapacity`], [`Error::TooLarge`], [`Error::OutOfMemory`].
    pub fn try_with_capacity_per_cpu(capacity: usize) -> Result<Stack<T>, Error> {
        if capacity == 0 {
            return Err(Error::ZeroCapacity);
        }
        let capacity = capacity.checked_mul(8).ok_or(Error::TooLarge)?;
        Ok(Stack::of(Area::try_new(capacity)?, capacity))
    }

    /// A stack whose gates are closed for good: there is nothing on it.
    pub(super) fn closed() -> Result<Stack<T>, Error> {
        Ok(Stack::of(Area::closed(0)?, 0))
    }

    fn of(area: Area, capacity: usize) -> Stack<T> {
        Stack {
            area,
            capacity,
            elements: PhantomData,
        }
    }

    /// How many elements each CPU has room for.
    pub fn capacity(&self) -> usize {
        self.capacity / 8
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
        let [pushed, popped] = [0, 1].map(|word| move || self.area.peek(cpu, word));
        distance(popped, pushed, 8, self.capacity) / 8
    }

    /// The sum of what [`len_on`](Stack::len_on) says of each CPU, one after the other: an element
    /// that goes from CPU to CPU meanwhile counts once, twice or not at all.
    pub fn len(&self) -> usize {
        (0..self.cpus()).map(|cpu| self.len_on(cpu)).sum()
    }

    /// Is there no element on any CPU? Looks at one after the other, so it may miss an element that
    /// goes from CPU to CPU meanwhile. Already history when it returns.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Puts an element on this CPU's stack.
    ///
    /// # Errors
    ///
    /// The element, if this CPU's stack is full.
    #[inline]
    pub fn push(&self, element: T) -> Result<(), T> {
        let word = element.into_word();
        // SAFETY: the height stays within the capacity, and the array lives as long as the area.
        match unsafe { push::on_cpu(self.area.slots(), self.capacity, word) } {
            Ok(true) => Ok(()),
            // SAFETY: the word was made above, and the stack did not take it.
            Ok(false) => Err(unsafe { T::from_word(word) }),
            Err(_) => self.push_slowly(word),
        }
    }

    /// The same, of an element that was made a word, for who waits for nobody: if the gate is
    /// closed, nothing was done.
    #[inline]
    pub(super) fn push_at_once(&self, word: usize) -> Result<bool, Closed> {
        // SAFETY: as in `push`.
        unsafe { push::on_cpu(self.area.slots(), self.capacity, word) }
    }

    #[cold]
    #[inline(never)]
    fn push_slowly(&self, word: usize) -> Result<(), T> {
        // SAFETY: as in `push`.
        let pushed = |held: &GateGuard<'_>| unsafe { push::gated(held, self.capacity, word) };
        match self.area.on_slow_path(pushed) {
            true => Ok(()),
            // SAFETY: `push` made the word, and the stack did not take it.
            false => Err(unsafe { T::from_word(word) }),
        }
    }

    /// Takes the last element pushed on this CPU.
    #[inline]
    pub fn pop(&self) -> Option<T> {
        // SAFETY: as in `push`.
        match unsafe { pop::on_cpu(self.area.slots()) } {
            // SAFETY: `push` made the word, and it left the stack just now.
            Ok(Some(word)) => Some(unsafe { T::from_word(word) }),
            Ok(None) => None,
            Err(_) => self.pop_slowly(),
        }
    }

    /// The same for who waits for nobody: if the gate is closed, nothing was done.
    #[inline]
    pub(super) fn pop_at_once(&self) -> Result<Option<T>, Closed> {
        // SAFETY: as in `push`.
        let word = unsafe { pop::on_cpu(self.area.slots()) }?;
        // SAFETY: `push` made the word, and it left the stack just now.
        Ok(word.map(|word| unsafe { T::from_word(word) }))
    }

    #[cold]
    #[inline(never)]
    fn pop_slowly(&self) -> Option<T> {
        // SAFETY: as in `push`.
        let word = self.area.on_slow_path(|held| unsafe { pop::gated(held) })?;
        // SAFETY: `push` made the word, and it left the stack just now.
        Some(unsafe { T::from_word(word) })
    }

    /// Moves as many of the words onto this CPU's stack as there is room for; returns how many.
    pub(super) fn push_words(&self, words: &[ElementWord]) -> usize {
        let (from, count) = (words.as_ptr() as usize, words.len());
        self.push_words_at_once(words).unwrap_or_else(|_| {
            // SAFETY: as there.
            self.area
                .on_slow_path(|held| unsafe { push_batch::gated(held, self.capacity, from, count) })
        })
    }

    /// The same for who waits for nobody: if the gate is closed, nothing was done.
    pub(super) fn push_words_at_once(&self, words: &[ElementWord]) -> Result<usize, Closed> {
        let (from, count) = (words.as_ptr() as usize, words.len());
        // SAFETY: reads `count` words from the slice; otherwise as in `push`.
        unsafe { push_batch::on_cpu(self.area.slots(), self.capacity, from, count) }
    }

    /// Moves words off this CPU's stack, as many as there are and fit; returns how many.
    pub(super) fn pop_words(&self, words: &mut [ElementWord]) -> usize {
        self.pop_words_at_once(words).unwrap_or_else(|_| {
            let (to, count) = (words.as_mut_ptr() as usize, words.len());
            // SAFETY: as there.
            self.area
                .on_slow_path(|held| unsafe { pop_batch::gated(held, to, count) })
        })
    }

    /// The same for who waits for nobody: if the gate is closed, nothing was done.
    pub(super) fn pop_words_at_once(&self, words: &mut [ElementWord]) -> Result<usize, Closed> {
        let (to, count) = (words.as_mut_ptr() as usize, words.len());
        // SAFETY: writes at most `count` words to the slice, which nobody else sees.
        unsafe { pop_batch::on_cpu(self.area.slots(), to, count) }
    }

    /// The same from any CPU's stack, which nobody else uses now: so it closes no gate.
    pub(super) fn pop_words_from(&mut self, cpu: usize, words: &mut [ElementWord]) -> usize {
        let height = self.len_on(cpu);
        let count = height.min(words.len());
        let bottom = self.area.bulk(cpu).cast::<ElementWord>();
        // SAFETY: below the height lie words that `push` made, in whole places, and nobody else has
        // the stack now.
        let top = unsafe { slice::from_raw_parts(bottom.add(height - count).as_ptr(), count) };
        words[..count].copy_from_slice(top);
        let popped = self.area.peek(cpu, (POPPED - WORDS) / 8);
        self.area.set(cpu, POPPED, popped.wrapping_add(8 * count));
        count
    }

    /// Moves half of the words off a CPU's stack, at least one and no more than fit, through its
    /// gate: any CPU's, the next ones first and this one last. Returns how many; 0 if no CPU has
    /// any.
    pub(super) fn steal_half(&self, words: &mut [ElementWord]) -> usize {
        let cpus = self.cpus();
        let here = crate::platform::current_cpu();
        let counts = (1..=cpus).map(|distance| {
            let cpu = (here + distance) % cpus;
            if self.len_on(cpu) == 0 {
                return 0;
            }
            let held = self.area.close_gate(cpu);
            let half = self.len_on(cpu).div_ceil(2);
            let (to, count) = (words.as_mut_ptr() as usize, half.min(words.len()));
            // SAFETY: as in `pop_words`, and the gate is held.
            unsafe { pop_batch::gated(&held, to, count) }
        });
        { counts }.find(|count| *count > 0).unwrap_or(0)
    }

    /// Takes the last element pushed on a CPU, through its gate.
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
    /// [`steal_from`](Stack::steal_from). Like [`is_empty`](Stack::is_empty), it may miss an
    /// element that goes from CPU to CPU meanwhile.
    pub fn steal(&self) -> Option<T>
    where
        T: Send,
    {
        remote::steal(self)
    }

    /// Takes elements out, CPU by CPU, the last pushed first: sixteen at a time, each time at
    /// the cost of [`Area::close_gate`].
    ///
    /// From each CPU it takes at most as many as are there when it comes to that CPU: all of them,
    /// if nothing is pushed there meanwhile. What is pushed between two of its turns comes first,
    /// and as many older elements stay. Drain again to get these.
    pub fn drain(&self) -> Drain<'_, T>
    where
        T: Send,
    {
        Drain::new(self)
    }
}

impl<T: AsWord + Send> Take<T> for Stack<T> {
    fn area(&self) -> &Area {
        &self.area
    }

    fn take(&self, held: &GateGuard<'_>) -> Option<Raw<T>> {
        // SAFETY: as in `push`, and the gate is held.
        let word = unsafe { pop::gated(held) }?;
        Some(Raw { word })
    }

    unsafe fn element(&self, raw: Raw<T>) -> T {
        // SAFETY: the caller's promise: `take` wrote the word, which `push` had made and which has
        // left the structure.
        unsafe { T::from_word(raw.word) }
    }

    fn seems_occupied(&self, cpu: usize) -> bool {
        self.len_on(cpu) > 0
    }

    fn count(&self, held: &GateGuard<'_>) -> usize {
        self.len_on(held.cpu())
    }
}

impl<T: AsWord> Drop for Stack<T> {
    fn drop(&mut self) {
        let mut places = (0..self.area.cpus()).flat_map(|cpu| {
            let bottom = self.area.bulk(cpu).as_ptr().cast::<ElementWord>();
            (0..self.len_on(cpu)).map(move |index| bottom.wrapping_add(index))
        });
        drops::each(|| {
            // SAFETY: below the height lie words that `push` made, each read once; nobody else has
            // the stack now.
            let element = places
                .next()
                .map(|place| unsafe { T::from_word(place.read().word()) });
            element.is_some()
        });
    }
}

impl<T: AsWord> fmt::Debug for Stack<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Stack")
            .field("len", &self.len())
            .field("capacity", &self.capacity())
            .finish()
    }
}

#[cfg(test)]
mod tests;
