//! A bounded stack in an array (S92 figure 5.5).
//!
//! ```text
//!   height 3 ─────────────┐
//!   +------+------+------+v-----+------+----
//!   | word | word | word |      |      |  …
//!   +------+------+------+------+------+----
//! ```
//!
//! A push changes the cell at the height and the height, a pop the height alone. What lies above
//! the height nobody looks at, so where the kernel helps the cell needs no undoing, and one section
//! does it all: [`shadow`](crate::dcas::shadow). By k-CAS both words change at once.

use std::fmt;

use super::Error;
use super::array::{Array, CELL, Put, Take};
use super::bounded::{Bounded, Words, clear, filled};
use crate::AsWord;
use crate::dcas::shadow::{ABORTED, BUSY, DONE, HIGHEST_CPU, REFUSED, STATES, UNREGISTERED};
use crate::dcas::{Cells, Mechanism, StableWord, Version, VersionedWords, mechanism};

crate::sequence! {
    /// Puts a word on top.
    unsafe fn push(shadow: Word, cells: Word, room: Word, word: Word) -> Word {
        'abort: { return ABORTED }
        let own = cpu();
        if own > HIGHEST_CPU { return UNREGISTERED }
        let free = load_acquire(shadow);
        // Literals, which AArch64 has in its instructions: BELOW_VERSION, VERSION and HELD.
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

    /// Puts a word on top, also if it is another CPU's turn.
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

    /// Takes the word on top.
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

    /// Takes the word on top, also if it is another CPU's turn.
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

/// A bounded last-in-first-out store (S92 figure 5.5).
///
/// Scope `Machine`; progress and values as [the module](super) says. [`push`](Stack::push) and
/// [`pop`](Stack::pop) cost one atomic instruction each (by k-CAS, two for each word and two more),
/// and none when the stack is full or empty. Nothing allocates after construction. Memory: a word
/// for each value and six cache lines; by k-CAS two words for each value, and a thread's first
/// operation maps [a page of descriptors](crate::dcas).
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
/// What does not fit in a word goes in as a `Box`; by itself it does not compile:
///
/// ```compile_fail,E0277
/// let stack = atomseq::nonblocking::Stack::<String>::new(4);
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
            Form::Kcas(covered) => covered.object.snapshot([&covered.height]).0[0] as usize,
        }
    }
}

impl<T: AsWord> Stack<T> {
    /// A stack of up to `capacity` values.
    ///
    /// # Panics
    ///
    /// If [`try_with_capacity`](Stack::try_with_capacity) fails.
    pub fn with_capacity(capacity: usize) -> Stack<T> {
        Stack::try_with_capacity(capacity).unwrap_or_else(|error| panic!("{error}"))
    }

    /// A stack of up to `capacity` values, or why there is none.
    ///
    /// # Errors
    ///
    /// [`Error::ZeroCapacity`], [`Error::OutOfMemory`].
    pub fn try_with_capacity(capacity: usize) -> Result<Stack<T>, Error> {
        Stack::made(mechanism(), capacity)
    }

    /// One that uses this mechanism whatever was chosen, to test and to compare.
    #[cfg(any(test, feature = "unstable-internals"))]
    pub fn forced(capacity: usize, mechanism: Mechanism) -> Stack<T> {
        let made = Stack::made(mechanism.or_kcas(), capacity);
        made.unwrap_or_else(|error| panic!("{error}"))
    }

    fn made(mechanism: Mechanism, capacity: usize) -> Result<Stack<T>, Error> {
        let made = Bounded::new(capacity, |capacity| match mechanism {
            Mechanism::Assisted => Array::new(capacity, capacity).map(Form::Assisted),
            Mechanism::Kcas => Covered::new(capacity).map(Form::Kcas),
        });
        made.map(Stack)
    }

    /// Puts a value on top.
    ///
    /// # Errors
    ///
    /// The value, when the stack is full.
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
            // SAFETY: made of the value above, and not stored.
            false => Err(unsafe { T::from_word(word) }),
        }
    }

    /// Takes the value on top.
    #[inline]
    pub fn pop(&self) -> Option<T> {
        let word = match &self.0.words {
            Form::Assisted(array) => match try_pop(array) {
                Some((DONE, word)) => Some(word),
                outcome => array.take_slowly(outcome.map(|(outcome, _)| outcome), POP),
            },
            Form::Kcas(covered) => covered.pop(),
        };
        // SAFETY: it was in here, by `push`, up to the change that took it out, which no other pop
        // has made.
        word.map(|word| unsafe { T::from_word(word) })
    }

    /// Takes values off, one by one, until there are none.
    pub fn drain(&self) -> impl Iterator<Item = T> {
        std::iter::from_fn(|| self.pop())
    }

    /// How many values it can hold.
    pub fn capacity(&self) -> usize {
        self.0.words.capacity()
    }

    /// How many values it holds; history already when this returns.
    pub fn len(&self) -> usize {
        self.0.words.len()
    }

    /// Does it hold none?
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Which mechanism it uses.
    pub fn mechanism(&self) -> Mechanism {
        match &self.0.words {
            Form::Assisted(_) => Mechanism::Assisted,
            Form::Kcas(_) => Mechanism::Kcas,
        }
    }

    /// One more than the modifications that it has had (GC96 5.3): a new stack is at version 1.
    pub fn version(&self) -> Version {
        match &self.0.words {
            Form::Assisted(array) => array.version(),
            Form::Kcas(covered) => covered.object.version(),
        }
    }

    /// Leaves the stack as a thread does that is stopped for ever inside `push`, to test recovery.
    /// `false` by k-CAS, where nothing is left to recover.
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
    // SAFETY: the height that counts at a version is at most the room, and so the cell at it is one
    // of the array's if it is not equal to the room; whoever holds the lock stores there, and
    // nobody looks above the height.
    unsafe { push::on_cpu(shadow, cells, array.room(), word) }.ok()
}

#[inline(always)]
fn try_pop(array: &Array) -> Option<(usize, usize)> {
    // SAFETY: no height that was ever stored is larger than the room; the cell below it is one of
    // the array's.
    unsafe { pop::on_cpu(array.shadow.address(), array.cells()) }.ok()
}

fn try_push_anyway(array: &Array, word: usize) -> Option<usize> {
    let (shadow, cells) = (array.shadow.address(), array.cells());
    // SAFETY: the height that counts at a version is at most the room, so the cell at it is one of
    // the array's if it is not equal to the room; the holder of the lock stores there, above the
    // height.
    unsafe { push_anyway::on_cpu(shadow, cells, array.room(), word) }.ok()
}

fn try_pop_anyway(array: &Array) -> Option<(usize, usize)> {
    // SAFETY: no height that was ever stored is larger than the room; the cell below it is one of
    // the array's.
    unsafe { pop_anyway::on_cpu(array.shadow.address(), array.cells()) }.ok()
}

/// The cell above the others, in bytes.
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

/// The stack by k-CAS: words that a version covers.
struct Covered {
    object: VersionedWords,
    height: StableWord,
    cells: Cells,
}

impl Covered {
    fn new(capacity: usize) -> Option<Covered> {
        let object = VersionedWords::with_mechanism(Mechanism::Kcas);
        Some(Covered {
            cells: Cells::new(capacity)?,
            height: StableWord::default(),
            object,
        })
    }

    fn push(&self, word: usize) -> bool {
        loop {
            let version = self.object.begin();
            let height = self.object.load(&self.height);
            if height as usize == self.cells.len() {
                if self.object.is_still(version) {
                    return false;
                }
                continue;
            }
            let cell = (&self.cells, height as usize, word as u64);
            let higher = (&self.height, height + 1);
            // SAFETY: the words are this stack's, and its object, which uses k-CAS, alone covers
            // them.
            if unsafe { self.object.put_since_by_kcas(version, cell, higher) } {
                return true;
            }
        }
    }

    fn pop(&self) -> Option<usize> {
        loop {
            let version = self.object.begin();
            let height = self.object.load(&self.height);
            if height == 0 {
                if self.object.is_still(version) {
                    return None;
                }
                continue;
            }
            let word = self.cells.load(&self.object, height as usize - 1);
            let lower = (&self.height, height - 1);
            // SAFETY: as in `push`.
            if unsafe { self.object.store_if_by_kcas(version, lower) } {
                return Some(word as usize);
            }
        }
    }
}

impl<T: AsWord> Drop for Stack<T> {
    fn drop(&mut self) {
        clear(self, Stack::pop);
    }
}

/// A stack that is full of these values, the last one on top.
impl<T: AsWord> FromIterator<T> for Stack<T> {
    /// # Panics
    ///
    /// As [`with_capacity`](Stack::with_capacity); not for no values: then there is room for one.
    fn from_iter<I: IntoIterator<Item = T>>(values: I) -> Stack<T> {
        filled(values, Stack::with_capacity, Stack::push)
    }
}

impl<T: AsWord> fmt::Debug for Stack<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt("Stack", f)
    }
}
