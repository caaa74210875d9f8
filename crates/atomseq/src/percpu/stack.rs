//! A bounded stack per CPU: an array behind the slot, and two counts of the bytes ever pushed and
//! popped.
//!
//! ```text
//!   +------+--------+--------+------+------+------+------+----
//!   | gate | pushed | popped |      | word | word |      |  …     array, `capacity` bytes
//!   +------+--------+--------+------+------+------+------+----
//!              pushed - popped = 16, in bytes ────^
//! ```
//!
//! There are two counts instead of one height so that a push changes one word and a pop the other.
//! With a single height, each operation in a run of pushes and pops would have to wait for the
//! store of the one before. Both counts wrap around.

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
use crate::or_panic::OrPanic;
use crate::sequence::Closed;
use crate::word::Invariant;

const PUSHED: usize = WORDS;
const POPPED: usize = WORDS + 8;
const ARRAY: usize = Area::BULK;

crate::sequence! {
    /// Pushes a word. Returns `false` if the array of `capacity` bytes is full.
    unsafe fn push(slot: Slot, capacity: Word, value: Word) -> bool {
        let pushed = load(slot + PUSHED);
        let height = pushed - load(slot + POPPED);
        if height == capacity { return false }
        prepare(slot + height + ARRAY, value);
        commit(slot + PUSHED, pushed + 8);
        true
    }

    /// Pops the word on top.
    unsafe fn pop(slot: Slot) -> Option<Word> {
        let popped = load(slot + POPPED);
        let height = load(slot + PUSHED) - popped;
        if height == 0 { return None }
        let value = load(slot + height + (ARRAY - 8));
        commit(slot + POPPED, popped + 8);
        Some(value)
    }

    /// Pushes words from the array of `count` words at `from`, from the first on, as many as there
    /// is room for. Returns their number.
    unsafe fn push_batch(slot: Slot, capacity: Word, from: Word, count: Word) -> Word {
        let pushed = load(slot + PUSHED);
        let height = pushed - load(slot + POPPED);
        let taken = min((capacity - height) >> 3, count);
        prepare_copy(slot + height + ARRAY, from, taken);
        commit(slot + PUSHED, pushed + (taken << 3));
        taken
    }

    /// Pops up to `count` words into `to`, the topmost last. Returns their number.
    unsafe fn pop_batch(slot: Slot, to: Word, count: Word) -> Word {
        let popped = load(slot + POPPED);
        let height = load(slot + PUSHED) - popped;
        let taken = min(height >> 3, count);
        prepare_copy(to, slot + (height - (taken << 3)) + ARRAY, taken);
        commit(slot + POPPED, popped + (taken << 3));
        taken
    }
}

/// The sequences of this file, for the checkers in `verify/`.
#[cfg(feature = "unstable-internals")]
pub(super) const SEQUENCES: &[&crate::sequence::model::Program] = &[
    &push::MODEL,
    &pop::MODEL,
    &push_batch::MODEL,
    &pop_batch::MODEL,
];

/// A bounded last-in-first-out stack with one part per CPU. A thread pops what was pushed on its
/// CPU, which is most likely still in that CPU's cache.
///
/// Scope `SameCpu`. [`push`](Stack::push) and [`pop`](Stack::pop) cost no atomic instruction on the
/// fast path, and block only while another thread holds this CPU's gate or [forks](super#progress).
/// Every operation may be called in a signal handler. Nothing allocates after construction.
/// Elements are ordered per CPU only: a thread that migrates sees the other CPU's elements. A stack
/// takes one slot (128 bytes) and eight bytes per element for each CPU. See [the module](super) for
/// what all per-CPU structures share.
///
/// ```
/// use atomseq::percpu::Stack;
///
/// let free: Stack<Box<[u8; 64]>> = Stack::with_capacity_per_cpu(128);
/// free.push(Box::new([0; 64])).unwrap();
/// // On this CPU, or on another one if this thread migrated.
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

// SAFETY: a stack owns its elements and returns each to one caller, by value. `T: Send` lets them
// change threads.
unsafe impl<T: AsWord + Send> Send for Stack<T> {}
// SAFETY: shared access moves elements by value only, which `T: Send` permits. Sequences and gates
// make concurrent operations on a slot atomic.
unsafe impl<T: AsWord + Send> Sync for Stack<T> {}

impl<T: AsWord> Stack<T> {
    /// Creates a stack of up to `capacity` elements per CPU.
    ///
    /// # Panics
    ///
    /// If [`try_with_capacity_per_cpu`](Stack::try_with_capacity_per_cpu) fails.
    #[track_caller]
    pub fn with_capacity_per_cpu(capacity: usize) -> Stack<T> {
        Stack::try_with_capacity_per_cpu(capacity).or_panic()
    }

    /// Creates a stack of up to `capacity` elements per CPU.
    ///
    /// # Errors
    ///
    /// [`Error::ZeroCapacity`], [`Error::TooLarge`], [`Error::OutOfMemory`] if the operating system
    /// refuses the memory, [`Error::StartingUp`] during start-up.
    pub fn try_with_capacity_per_cpu(capacity: usize) -> Result<Stack<T>, Error> {
        if capacity == 0 {
            return Err(Error::ZeroCapacity);
        }
        let capacity = capacity.checked_mul(8).ok_or(Error::TooLarge)?;
        Ok(Stack::of(Area::try_new(capacity)?, capacity))
    }

    /// Creates a stack of capacity zero whose gates are permanently closed.
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

    /// Returns the maximum number of elements per CPU; [`len`](Stack::len) is the total of all
    /// CPUs.
    pub fn capacity(&self) -> usize {
        self.capacity / 8
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
        let [pushed, popped] = [PUSHED, POPPED].map(|word| move || self.area.peek(cpu, word));
        distance(popped, pushed, 8, self.capacity) / 8
    }

    /// Returns the sum of [`len_on`](Stack::len_on) over all CPUs. The CPUs are read one after the
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

    /// Pushes an element onto this CPU's part.
    ///
    /// # Errors
    ///
    /// Returns the element if the part is full.
    #[inline]
    pub fn push(&self, element: T) -> Result<(), T> {
        let word = element.into_word();
        // SAFETY: `capacity` is that of the array, which lives as long as the area, and the
        // sequence keeps the height within it.
        match unsafe { push::on_cpu(self.area.slots(), self.capacity, word) } {
            Ok(true) => Ok(()),
            // SAFETY: `into_word` returned the word above, and the stack did not take it.
            Ok(false) => Err(unsafe { T::from_word(word) }),
            Err(_) => self.push_slowly(word),
        }
    }

    /// Pushes the word of an element without blocking. Returns `false` if the part is full.
    /// `Closed` means that the gate was closed and nothing changed.
    #[inline]
    pub(super) fn push_at_once(&self, word: usize) -> Result<bool, Closed> {
        // SAFETY: `capacity` is that of the array, which lives as long as the area, and the
        // sequence keeps the height within it.
        unsafe { push::on_cpu(self.area.slots(), self.capacity, word) }
    }

    #[cold]
    #[inline(never)]
    fn push_slowly(&self, word: usize) -> Result<(), T> {
        // SAFETY: `capacity` is that of the array, which lives as long as the area, and `held`
        // closes this slot.
        let pushed = |held: &GateGuard<'_>| unsafe { push::gated(held, self.capacity, word) };
        match self.area.on_slow_path(pushed) {
            true => Ok(()),
            // SAFETY: the caller got the word from `into_word`, and the stack did not take it.
            false => Err(unsafe { T::from_word(word) }),
        }
    }

    /// Pops the element pushed last on this CPU.
    #[inline]
    pub fn pop(&self) -> Option<T> {
        // SAFETY: words below the height come from `push`, and the array lives as long as the area.
        match unsafe { pop::on_cpu(self.area.slots()) } {
            // SAFETY: `into_word` returned the word, and the sequence has just removed it from the
            // stack.
            Ok(Some(word)) => Some(unsafe { T::from_word(word) }),
            Ok(None) => None,
            Err(_) => self.pop_slowly(),
        }
    }

    /// Pops an element without blocking. `Closed` means that the gate was closed and nothing
    /// changed.
    #[inline]
    pub(super) fn pop_at_once(&self) -> Result<Option<T>, Closed> {
        // SAFETY: words below the height come from `push`, and the array lives as long as the area.
        let word = unsafe { pop::on_cpu(self.area.slots()) }?;
        // SAFETY: `into_word` returned the word, and the sequence has just removed it from the
        // stack.
        Ok(word.map(|word| unsafe { T::from_word(word) }))
    }

    #[cold]
    #[inline(never)]
    fn pop_slowly(&self) -> Option<T> {
        // SAFETY: words below the height come from `push`, the array lives as long as the area, and
        // `held` closes this slot.
        let word = self.area.on_slow_path(|held| unsafe { pop::gated(held) })?;
        // SAFETY: `into_word` returned the word, and the sequence has just removed it from the
        // stack.
        Some(unsafe { T::from_word(word) })
    }

    /// Moves as many of the words onto this CPU's part as there is room for. Returns their number.
    pub(super) fn push_words(&self, words: &[ElementWord]) -> usize {
        let (from, count) = (words.as_ptr() as usize, words.len());
        self.push_words_at_once(words).unwrap_or_else(|_| {
            // SAFETY: `from` is a slice of `count` words, and `held` closes this slot, whose array
            // has this capacity.
            self.area.on_slow_path(move |held| unsafe {
                push_batch::gated(held, self.capacity, from, count)
            })
        })
    }

    /// Does the same without blocking. `Closed` means that the gate was closed and nothing changed.
    pub(super) fn push_words_at_once(&self, words: &[ElementWord]) -> Result<usize, Closed> {
        let (from, count) = (words.as_ptr() as usize, words.len());
        // SAFETY: `from` is a slice of `count` words. `capacity` is that of the array, which lives
        // as long as the area.
        unsafe { push_batch::on_cpu(self.area.slots(), self.capacity, from, count) }
    }

    /// Moves words off this CPU's part, as many as there are and fit. Returns their number.
    pub(super) fn pop_words(&self, words: &mut [ElementWord]) -> usize {
        self.pop_words_at_once(words).unwrap_or_else(|_| {
            let (to, count) = (words.as_mut_ptr() as usize, words.len());
            // SAFETY: `to` is a slice with room for `count` words that only this call accesses, and
            // `held` closes this slot.
            self.area
                .on_slow_path(move |held| unsafe { pop_batch::gated(held, to, count) })
        })
    }

    /// Does the same without blocking. `Closed` means that the gate was closed and nothing changed.
    pub(super) fn pop_words_at_once(&self, words: &mut [ElementWord]) -> Result<usize, Closed> {
        let (to, count) = (words.as_mut_ptr() as usize, words.len());
        // SAFETY: `to` is a slice with room for `count` words that only this call accesses.
        unsafe { pop_batch::on_cpu(self.area.slots(), to, count) }
    }

    /// Moves words off a CPU's part, as many as there are and fit. Exclusive access makes closing
    /// the gate unnecessary.
    pub(super) fn pop_words_from(&mut self, cpu: usize, words: &mut [ElementWord]) -> usize {
        let height = self.len_on(cpu);
        let count = height.min(words.len());
        let bottom = self.area.bulk(cpu).cast::<ElementWord>();
        // SAFETY: below the height lie words that `push` made, in whole places, and `&mut self`
        // excludes other threads.
        let top = unsafe { slice::from_raw_parts(bottom.add(height - count).as_ptr(), count) };
        words[..count].copy_from_slice(top);
        let popped = self.area.peek(cpu, POPPED);
        self.area.set(cpu, POPPED, popped.wrapping_add(8 * count));
        count
    }

    /// Moves half of the words off one CPU's part, at least one and at most as many as fit, under
    /// its gate. Tries the following CPU numbers first and the current CPU last. Returns the number
    /// of words; 0 if no CPU has any.
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
            // SAFETY: `to` is a slice with room for `count` words that only this call accesses, and
            // `held` closes this slot.
            unsafe { pop_batch::gated(&held, to, count) }
        });
        { counts }.find(|count| *count > 0).unwrap_or(0)
    }

    /// Pops the element pushed last on a CPU, under its gate.
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

    /// Pops an element from any CPU with [`steal_from`](Stack::steal_from). Tries the following CPU
    /// numbers first and the current CPU last. Like [`is_empty`](Stack::is_empty), it may miss an
    /// element that changes CPU during the call.
    pub fn steal(&self) -> Option<T>
    where
        T: Send,
    {
        remote::steal(self)
    }

    /// Returns an iterator that removes elements, CPU by CPU, the one pushed last first. It closes
    /// a gate for up to sixteen elements at a time, at the cost of [`Area::close_gate`].
    ///
    /// From each CPU it removes at most as many elements as were there when it reached that CPU:
    /// all of them, if none is pushed there meanwhile. Elements that are pushed between two
    /// closings of the gate come first, and as many older elements remain. Drain again to remove
    /// these.
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
        // SAFETY: words below the height come from `push`, the array lives as long as the area, and
        // `held` closes this slot.
        let word = unsafe { pop::gated(held) }?;
        Some(Raw { word })
    }

    unsafe fn element(&self, raw: Raw<T>) -> T {
        // SAFETY: the caller guarantees that `take` returned `raw`, once. Its word comes from
        // `push`, and has left the stack.
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
            // SAFETY: the places below the height hold words that `push` made, each is read once,
            // and `&mut self` excludes other threads.
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
