//! A bounded stack in an array (S92, figure 5.5).
//!
//! ```text
//!   height 3 ─────────────┐
//!   +------+------+------+v-----+------+----
//!   | word | word | word |      |      |  …
//!   +------+------+------+------+------+----
//! ```
//!
//! A push stores to the cell at the height and raises the height; a pop only lowers the height. No
//! thread reads cells above the height. Under OS-assisted DCAS the cell therefore needs no
//! rollback, and one section makes the whole change ([`shadow`](crate::dcas::shadow)). Under k-CAS,
//! a push changes both words at once.

use std::fmt;

use super::Error;
use super::array::{Array, CELL, Put, Take};
use super::bounded::{Bounded, Words, clear, filled};
use crate::AsWord;
use crate::dcas::shadow::{ABORTED, BUSY, DONE, HIGHEST_CPU, REFUSED, STATES, UNREGISTERED};
use crate::dcas::{Cells, Mechanism, StableWord, Version, VersionedWords, mechanism};
use crate::or_panic::OrPanic;

crate::sequence! {
    /// Pushes a word, if it is this CPU's turn.
    unsafe fn push(shadow: Word, cells: Word, room: Word, word: Word) -> Word {
        'abort: { return ABORTED }
        let own = cpu();
        if own > HIGHEST_CPU { return UNREGISTERED }
        let free = load_acquire(shadow);
        // Literals, because AArch64 encodes them in its instructions: BELOW_VERSION, VERSION and
        // HELD.
        if (free & 0xffff) != own { return BUSY }
        let side = (free >> 13) & 8;
        let height = load(shadow + side + STATES);
        if height == room { return REFUSED }
        let found = cas(shadow, free, free + 0x4000);
        if found != free { return BUSY }
        store(cells + height, word);
        store(shadow + 8 - side + STATES, height + 8);
        commit_release(shadow, free + 0x1_0000);
        DONE
    }

    /// Pushes a word, and takes the turn from another CPU.
    unsafe fn push_anyway(shadow: Word, cells: Word, room: Word, word: Word) -> Word {
        'abort: { return ABORTED }
        let own = cpu();
        if own > HIGHEST_CPU { return UNREGISTERED }
        let free = load_acquire(shadow);
        if (free & 0xc000) != 0 { return BUSY }
        let side = (free >> 13) & 8;
        let height = load(shadow + side + STATES);
        if height == room { return REFUSED }
        let turn = free - (free & 0x3fff) + own;
        let found = cas(shadow, free, turn + 0x4000);
        if found != free { return BUSY }
        store(cells + height, word);
        store(shadow + 8 - side + STATES, height + 8);
        commit_release(shadow, turn + 0x1_0000);
        DONE
    }

    /// Pops a word, if it is this CPU's turn.
    unsafe fn pop(shadow: Word, cells: Word) -> (Word, Word) {
        'abort: { return (ABORTED, 0) }
        let own = cpu();
        if own > HIGHEST_CPU { return (UNREGISTERED, 0) }
        let free = load_acquire(shadow);
        if (free & 0xffff) != own { return (BUSY, 0) }
        let side = (free >> 13) & 8;
        let height = load(shadow + side + STATES);
        if height == 0 { return (REFUSED, 0) }
        let word = load(cells + height - 8);
        let found = cas(shadow, free, free + 0x4000);
        if found != free { return (BUSY, 0) }
        store(shadow + 8 - side + STATES, height - 8);
        commit_release(shadow, free + 0x1_0000);
        (DONE, word)
    }

    /// Pops a word, and takes the turn from another CPU.
    unsafe fn pop_anyway(shadow: Word, cells: Word) -> (Word, Word) {
        'abort: { return (ABORTED, 0) }
        let own = cpu();
        if own > HIGHEST_CPU { return (UNREGISTERED, 0) }
        let free = load_acquire(shadow);
        if (free & 0xc000) != 0 { return (BUSY, 0) }
        let side = (free >> 13) & 8;
        let height = load(shadow + side + STATES);
        if height == 0 { return (REFUSED, 0) }
        let word = load(cells + height - 8);
        let turn = free - (free & 0x3fff) + own;
        let found = cas(shadow, free, turn + 0x4000);
        if found != free { return (BUSY, 0) }
        store(shadow + 8 - side + STATES, height - 8);
        commit_release(shadow, turn + 0x1_0000);
        (DONE, word)
    }
}

/// For the checkers in `verify/`.
#[cfg(feature = "unstable-internals")]
pub(super) const SEQUENCES: &[&crate::sequence::model::Program] = &[
    &push::MODEL,
    &pop::MODEL,
    &push_anyway::MODEL,
    &pop_anyway::MODEL,
];

/// A bounded stack of one-word values (S92, figure 5.5).
///
/// The scope is `Machine`; progress is that of the [mechanism](super#progress).
/// [`push`](Stack::push) and [`pop`](Stack::pop) cost one atomic instruction each under OS-assisted
/// DCAS. Under k-CAS, `push` costs eight at most and `pop` four. Both cost none if the stack is
/// full or empty. Before an operation fails under OS-assisted DCAS, it may wait for other threads
/// to change the stack, for [at most 512 pauses in which none
/// does](crate::docs::internals#queues-in-arrays). A thread that polls waits once. No operation
/// allocates after construction, except that a thread's first operation under k-CAS maps [a page of
/// descriptors](crate::dcas#mechanisms). Memory: one word per value and six cache lines; under
/// k-CAS, two words per value.
///
/// ```
/// use atomseq::nonblocking::Stack;
///
/// let stack = Stack::with_capacity(100);
/// std::thread::scope(|scope| {
///     for start in [0, 10] {
///         let stack = &stack;
///         scope.spawn(move || (start..start + 10).for_each(|value| stack.push(value).unwrap()));
///     }
/// });
/// let mut values: Vec<u64> = stack.drain().collect();
/// values.sort();
/// assert_eq!(values, Vec::from_iter(0..20));
/// ```
///
/// A value that does not fit in a word must be boxed. By itself it does not compile:
///
/// ```compile_fail,E0277
/// let stack = atomseq::nonblocking::Stack::<String>::with_capacity(4);
/// ```
pub struct Stack<T: AsWord>(Bounded<T, Form>);

enum Form {
    Assisted(Array),
    Kcas(Covered),
}

impl Words for Form {
    fn capacity(&self) -> usize {
        match self {
            Form::Assisted(array) => array.capacity(),
            Form::Kcas(covered) => covered.cells.len(),
        }
    }

    fn len(&self) -> usize {
        match self {
            Form::Assisted(array) => array.len(),
            Form::Kcas(covered) => covered.versioned.snapshot([&covered.height]).0[0] as usize,
        }
    }
}

impl<T: AsWord> Stack<T> {
    /// Creates a stack of up to `capacity` values.
    ///
    /// # Panics
    ///
    /// If [`try_with_capacity`](Stack::try_with_capacity) fails.
    #[track_caller]
    pub fn with_capacity(capacity: usize) -> Stack<T> {
        Stack::try_with_capacity(capacity).or_panic()
    }

    /// Creates a stack of up to `capacity` values.
    ///
    /// # Errors
    ///
    /// [`Error::ZeroCapacity`], [`Error::OutOfMemory`].
    pub fn try_with_capacity(capacity: usize) -> Result<Stack<T>, Error> {
        Stack::made(mechanism(), capacity)
    }

    /// Creates a stack that uses this mechanism whatever the process has chosen, for tests and
    /// comparisons.
    #[cfg(any(test, feature = "unstable-internals"))]
    pub fn forced(capacity: usize, mechanism: Mechanism) -> Stack<T> {
        let made = Stack::made(mechanism.or_kcas(), capacity);
        made.or_panic()
    }

    fn made(mechanism: Mechanism, capacity: usize) -> Result<Stack<T>, Error> {
        let made = Bounded::new(capacity, |capacity| match mechanism {
            Mechanism::Assisted => Array::new(capacity, capacity).map(Form::Assisted),
            Mechanism::Kcas => Covered::new(capacity).map(Form::Kcas),
        });
        made.map(Stack)
    }

    /// Pushes a value. One atomic instruction under OS-assisted DCAS.
    ///
    /// # Errors
    ///
    /// The value, if the stack is full.
    #[inline]
    pub fn push(&self, value: T) -> Result<(), T> {
        let word = value.into_word();
        let done = match &self.0.words {
            Form::Assisted(array) => {
                let outcome = try_push(array, word);
                outcome == Some(DONE) || array.put_slowly(outcome, PUSH, word)
            }
            Form::Kcas(covered) => covered.push(word),
        };
        match done {
            true => Ok(()),
            // SAFETY: `word` comes from `into_word` above and was not stored, so it is converted
            // back once.
            false => Err(unsafe { T::from_word(word) }),
        }
    }

    /// Pops the value pushed last. Returns `None` if the stack is empty. One atomic instruction
    /// under OS-assisted DCAS.
    #[inline]
    pub fn pop(&self) -> Option<T> {
        let word = match &self.0.words {
            Form::Assisted(array) => match try_pop(array) {
                Some((DONE, word)) => Some(word),
                outcome => array.take_slowly(outcome.map(|(outcome, _)| outcome), POP),
            },
            Form::Kcas(covered) => covered.pop(),
        };
        // SAFETY: `push` stored the word, and the change that took it out succeeded for this call
        // alone. So it is converted back once.
        word.map(|word| unsafe { T::from_word(word) })
    }

    /// Returns an iterator that pops values until the stack is empty.
    pub fn drain(&self) -> impl Iterator<Item = T> {
        std::iter::from_fn(|| self.pop())
    }

    /// Returns the maximum number of values.
    pub fn capacity(&self) -> usize {
        self.0.words.capacity()
    }

    /// Returns the number of values at some time during the call.
    pub fn len(&self) -> usize {
        self.0.words.len()
    }

    /// Returns whether the stack was empty at some time during the call.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Returns whether the stack was full at some time during the call.
    pub fn is_full(&self) -> bool {
        self.len() == self.capacity()
    }

    /// Returns the mechanism that this stack uses.
    pub fn mechanism(&self) -> Mechanism {
        match &self.0.words {
            Form::Assisted(_) => Mechanism::Assisted,
            Form::Kcas(_) => Mechanism::Kcas,
        }
    }

    /// Returns the number of modifications plus 1 (GC96, section 5.3). A new stack is at version 1.
    pub fn version(&self) -> Version {
        match &self.0.words {
            Form::Assisted(array) => array.version(),
            Form::Kcas(covered) => covered.versioned.version(),
        }
    }

    /// Leaves the state in which a thread is stopped indefinitely inside `push`, to test recovery.
    /// Returns `false` under k-CAS, where there is nothing to recover.
    #[cfg(any(test, feature = "unstable-internals"))]
    pub fn abandon(&self) -> bool {
        match &self.0.words {
            Form::Assisted(array) => array.abandon(end),
            Form::Kcas(_) => return false,
        }
        true
    }
}

#[inline(always)]
fn try_push(array: &Array, word: usize) -> Option<usize> {
    let (shadow, cells) = (array.shadow.address(), array.cells());
    // SAFETY: a height that counts is at most the room. So the cell at it lies in the array, unless
    // it equals the room, in which case the section stores nothing. The holder of the lock alone
    // stores there, and no thread reads cells above the height.
    unsafe { push::on_cpu(shadow, cells, array.room(), word) }.ok()
}

#[inline(always)]
fn try_pop(array: &Array) -> Option<(usize, usize)> {
    // SAFETY: no stored height is larger than the room, and the section reads no cell if it is 0.
    // So the cell below it lies in the array.
    unsafe { pop::on_cpu(array.shadow.address(), array.cells()) }.ok()
}

fn try_push_anyway(array: &Array, word: usize) -> Option<usize> {
    let (shadow, cells) = (array.shadow.address(), array.cells());
    // SAFETY: a height that counts is at most the room. So the cell at it lies in the array, unless
    // it equals the room, in which case the section stores nothing. The holder of the lock alone
    // stores there, and no thread reads cells above the height.
    unsafe { push_anyway::on_cpu(shadow, cells, array.room(), word) }.ok()
}

fn try_pop_anyway(array: &Array) -> Option<(usize, usize)> {
    // SAFETY: no stored height is larger than the room, and the section reads no cell if it is 0.
    // So the cell below it lies in the array.
    unsafe { pop_anyway::on_cpu(array.shadow.address(), array.cells()) }.ok()
}

/// Returns the offset of the cell above all others, in bytes.
fn end(_: &Array, _version: u64, height: u64) -> u64 {
    height
}

const PUSH: Put = Put {
    attempt: try_push_anyway,
    cell: end,
};

const POP: Take = Take {
    attempt: try_pop_anyway,
    cell: |_, _, height| height - CELL as u64,
};

/// The stack under k-CAS: words that a version covers.
struct Covered {
    versioned: VersionedWords,
    height: StableWord,
    cells: Cells,
}

impl Covered {
    fn new(capacity: usize) -> Option<Covered> {
        let versioned = VersionedWords::with_kcas();
        Some(Covered {
            cells: Cells::new(capacity)?,
            height: StableWord::default(),
            versioned,
        })
    }

    fn push(&self, word: usize) -> bool {
        loop {
            let version = self.versioned.begin();
            let height = self.versioned.load(&self.height);
            if height as usize == self.cells.len() {
                if self.versioned.is_still(version) {
                    return false;
                }
                continue;
            }
            let cell = (&self.cells, height as usize, word as u64);
            let higher = (&self.height, height + 1);
            // SAFETY: the words belong to this stack and are covered by its `versioned` alone,
            // which was created to use k-CAS.
            if unsafe { self.versioned.store_cell_if_by_kcas(version, cell, higher) } {
                return true;
            }
            self.versioned.back_off();
        }
    }

    fn pop(&self) -> Option<usize> {
        loop {
            let version = self.versioned.begin();
            let height = self.versioned.load(&self.height);
            if height == 0 {
                if self.versioned.is_still(version) {
                    return None;
                }
                continue;
            }
            let word = self.cells.load(&self.versioned, height as usize - 1);
            let lower = (&self.height, height - 1);
            // SAFETY: the word belongs to this stack and is covered by its `versioned` alone, which
            // was created to use k-CAS.
            if unsafe { self.versioned.store_if_by_kcas(version, lower) } {
                return Some(word as usize);
            }
            self.versioned.back_off();
        }
    }
}

impl<T: AsWord> Drop for Stack<T> {
    fn drop(&mut self) {
        clear(self, Stack::pop);
    }
}

/// Collects values into a full stack, the last one on top.
impl<T: AsWord> FromIterator<T> for Stack<T> {
    /// # Panics
    ///
    /// As [`with_capacity`](Stack::with_capacity), except that no values make an empty stack of
    /// capacity 1.
    #[track_caller]
    fn from_iter<I: IntoIterator<Item = T>>(values: I) -> Stack<T> {
        filled(values, Stack::try_with_capacity, Stack::push)
    }
}

impl<T: AsWord> fmt::Debug for Stack<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt("Stack", f)
    }
}
