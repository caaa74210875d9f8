//! A bounded queue in a circular array (S92 figure 5.6).
//!
//! ```text
//!   +------+------+------+------+------+----
//!   |      | word | word | word |      |  …      a power of two of cells, `capacity` of them used at a time
//!   +------+^-----+------+------+^-----+----
//!   first ──┘        end, first + length
//! ```
//!
//! A put changes the cell at the end and the length, a get the first and the length. The cells outside nobody looks at, so
//! where the kernel helps they need no undoing, and one section does it all: [`shadow`](crate::dcas::shadow). Every put and every
//! get is one version, so the version v and the length n say where both ends are: there were (v + n) / 2 puts and
//! (v - n) / 2 gets. By k-CAS the cell and one end change at once.

use std::fmt;
use std::marker::PhantomData;

use super::array::{Array, CELL, Put, Take};
use super::{Error, check_capacity};
use crate::Word;
use crate::dcas::shadow::{ABORTED, BUSY, DONE, HIGHEST_CPU, REFUSED, STATES, UNREGISTERED};
use crate::dcas::{Cells, Mechanism, Object, StableWord, Version, mechanism};
use crate::sequence::model::Program;
use crate::word::Invariant;

crate::sequence! {
    /// Puts a word at the end.
    unsafe fn put(shadow: Word, cells: Word, mask: Word, room: Word, word: Word) -> Word {
        'abort: { return ABORTED }
        let own = cpu();
        if own > HIGHEST_CPU { return UNREGISTERED }
        let free = load_acquire(shadow);
        // Literals, which AArch64 has in its instructions: BELOW_VERSION, VERSION and HELD.
        if (free & 0xffff) != 0 { return BUSY }
        // Eight times the version.
        let cells_changed = free >> 13;
        let side = cells_changed & 8;
        let length = load(shadow + side + STATES);
        if length == room { return REFUSED }
        let found = cas(shadow, free, free + own + 0x4000);
        if found != free { return BUSY }
        store(cells + (((cells_changed + length) >> 1) & mask), word);
        store(shadow + 8 - side + STATES, length + 8);
        commit_release(shadow, free + 0x1_0000);
        DONE
    }

    /// Takes the first word.
    unsafe fn get(shadow: Word, cells: Word, mask: Word) -> (Word, Word) {
        'abort: { return (ABORTED, 0) }
        let own = cpu();
        if own > HIGHEST_CPU { return (UNREGISTERED, 0) }
        let free = load_acquire(shadow);
        if (free & 0xffff) != 0 { return (BUSY, 0) }
        let cells_changed = free >> 13;
        let side = cells_changed & 8;
        let length = load(shadow + side + STATES);
        if length == 0 { return (REFUSED, 0) }
        let word = load(cells + (((cells_changed - length) >> 1) & mask));
        let found = cas(shadow, free, free + own + 0x4000);
        if found != free { return (BUSY, 0) }
        store(shadow + 8 - side + STATES, length - 8);
        commit_release(shadow, free + 0x1_0000);
        (DONE, word)
    }
}

/// For the checkers in `verify/`.
pub(super) const SEQUENCES: &[&Program] = &[&put::MODEL, &get::MODEL];

/// A bounded first-in-first-out store (S92 figure 5.6).
///
/// Scope `Machine`; progress and values as [the module](super) says. [`push`](Queue::push) and
/// [`pop`](Queue::pop) cost one atomic instruction each (by k-CAS, two for each word and two more), and none when the
/// queue is full or empty. Nothing allocates after construction. Memory: a word for each value, the capacity
/// rounded up to a power of two, and two cache lines.
///
/// A thread that is preempted between taking its place and filling it, which makes the others wait in queues with a
/// place for each ticket, keeps nobody waiting here.
///
/// ```
/// use atomseq::nonblocking::Queue;
///
/// let queue = Queue::new(4);
/// std::thread::scope(|scope| {
///     scope.spawn(|| (0..100u64).for_each(|value| while queue.push(value).is_err() {}));
///     let popped = std::iter::repeat_with(|| queue.pop()).flatten();
///     assert_eq!(popped.take(100).collect::<Vec<_>>(), Vec::from_iter(0..100));
/// });
/// assert_eq!(queue.pop(), None);
/// ```
///
/// Values that may not go to another thread keep the queue from going there:
///
/// ```compile_fail,E0277
/// let queue = atomseq::nonblocking::Queue::<*mut u8>::new(4);
/// std::thread::spawn(move || queue.pop());
/// ```
pub struct Queue<T: Word> {
    form: Form,
    values: Invariant<T>,
}

enum Form {
    Assisted(Array),
    Kcas(Covered),
}

// SAFETY: values move between threads, and are never shared.
unsafe impl<T: Word + Send> Send for Queue<T> {}
// SAFETY: as above; changes are atomic.
unsafe impl<T: Word + Send> Sync for Queue<T> {}

impl<T: Word> Queue<T> {
    /// A queue of up to `capacity` values.
    ///
    /// # Panics
    ///
    /// If [`try_new`](Queue::try_new) fails.
    pub fn new(capacity: usize) -> Queue<T> {
        Queue::try_new(capacity).unwrap_or_else(|error| panic!("{error}"))
    }

    /// A queue of up to `capacity` values, or why there is none.
    ///
    /// # Errors
    ///
    /// [`Error::ZeroCapacity`], [`Error::OutOfMemory`].
    pub fn try_new(capacity: usize) -> Result<Queue<T>, Error> {
        Queue::made(mechanism(), capacity)
    }

    /// One that uses this mechanism whatever was chosen, to test and to compare.
    #[doc(hidden)]
    pub fn forced(capacity: usize, mechanism: Mechanism) -> Queue<T> {
        let made = Queue::made(mechanism.or_kcas(), capacity);
        made.unwrap_or_else(|error| panic!("{error}"))
    }

    fn made(mechanism: Mechanism, capacity: usize) -> Result<Queue<T>, Error> {
        check_capacity(capacity)?;
        let cells = capacity.checked_next_power_of_two();
        let cells = cells.ok_or(Error::OutOfMemory)?;
        let form = match mechanism {
            Mechanism::Assisted => Array::new(cells, capacity).map(Form::Assisted),
            Mechanism::Kcas => Covered::new(cells, capacity).map(Form::Kcas),
        };
        Ok(Queue {
            form: form.ok_or(Error::OutOfMemory)?,
            values: PhantomData,
        })
    }

    /// Puts a value at the end.
    ///
    /// # Errors
    ///
    /// The value, when the queue is full.
    #[inline]
    pub fn push(&self, value: T) -> Result<(), T> {
        let word = value.into_word();
        let done = match &self.form {
            Form::Assisted(array) => {
                let told = try_put(array, word);
                told == Some(DONE) || array.put_slowly(told, PUT, word)
            }
            Form::Kcas(covered) => covered.put(word),
        };
        match done {
            true => Ok(()),
            // SAFETY: made of the value above, and not stored.
            false => Err(unsafe { T::from_word(word) }),
        }
    }

    /// Takes the first value.
    #[inline]
    pub fn pop(&self) -> Option<T> {
        let word = match &self.form {
            Form::Assisted(array) => match try_get(array) {
                Some((DONE, word)) => Some(word),
                told => array.take_slowly(told.map(|(told, _)| told), GET),
            },
            Form::Kcas(covered) => covered.get(),
        };
        // SAFETY: it was in the queue, by `push`, up to the change that took it out, which no other pop has made.
        word.map(|word| unsafe { T::from_word(word) })
    }

    /// Takes values out, one by one, the oldest first, until there are none.
    pub fn drain(&self) -> impl Iterator<Item = T> {
        std::iter::from_fn(|| self.pop())
    }

    /// How many values it can hold.
    pub fn capacity(&self) -> usize {
        match &self.form {
            Form::Assisted(array) => array.capacity(),
            Form::Kcas(covered) => covered.capacity,
        }
    }

    /// How many values it holds; history already when this returns.
    pub fn len(&self) -> usize {
        match &self.form {
            Form::Assisted(array) => array.len(),
            Form::Kcas(covered) => covered.len(),
        }
    }

    /// Does it hold none?
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Which mechanism it uses.
    pub fn mechanism(&self) -> Mechanism {
        match &self.form {
            Form::Assisted(_) => Mechanism::Assisted,
            Form::Kcas(_) => Mechanism::Kcas,
        }
    }

    /// How many modifications it has had (GC96 5.3).
    pub fn version(&self) -> Version {
        match &self.form {
            Form::Assisted(array) => array.version(),
            Form::Kcas(covered) => covered.object.version(),
        }
    }

    /// Leaves the queue as a thread does that is stopped for ever inside `push`, to test recovery. `false` by
    /// k-CAS, where nothing is left to recover.
    #[doc(hidden)]
    pub fn abandon(&self) -> bool {
        match &self.form {
            Form::Assisted(array) => array.abandon(end),
            Form::Kcas(_) => return false,
        }
        true
    }
}

#[inline(always)]
fn try_put(array: &Array, word: usize) -> Option<usize> {
    let (shadow, cells) = (array.shadow.address(), array.cells());
    // SAFETY: what is masked is within the cells; whoever holds the lock stores to the one at the end, where nobody looks
    // if not all are in use.
    unsafe { put::on_cpu(shadow, cells, array.mask(), array.room(), word) }.ok()
}

#[inline(always)]
fn try_get(array: &Array) -> Option<(usize, usize)> {
    // SAFETY: what is masked is within the cells.
    unsafe { get::on_cpu(array.shadow.address(), array.cells(), array.mask()) }.ok()
}

/// The cell behind the others, in bytes.
fn end(array: &Array, version: u64, length: u64) -> u64 {
    ((CELL as u64 * version + length) / 2) & array.mask() as u64
}

const PUT: Put = Put {
    attempt: try_put,
    cell: end,
};

const GET: Take = Take {
    attempt: try_get,
    cell: |array, version, length| {
        ((CELL as u64 * version).wrapping_sub(length) / 2) & array.mask() as u64
    },
};

/// The queue by k-CAS: words that a version covers. Both ends are counts of what went through them.
struct Covered {
    object: Object,
    first: StableWord,
    end: StableWord,
    cells: Cells,
    capacity: usize,
}

impl Covered {
    fn new(cells: usize, capacity: usize) -> Option<Covered> {
        let object = Object::forced(Mechanism::Kcas);
        Some(Covered {
            cells: Cells::new(cells)?,
            first: StableWord::default(),
            end: StableWord::default(),
            object,
            capacity,
        })
    }

    fn cell(&self, position: u64) -> usize {
        position as usize & (self.cells.len() - 1)
    }

    fn len(&self) -> usize {
        let ([first, end], _) = self.object.snapshot([&self.first, &self.end]);
        (end - first) as usize
    }

    fn put(&self, word: usize) -> bool {
        loop {
            let version = self.object.begin();
            let [first, end] = [&self.first, &self.end].map(|word| self.object.load(word));
            if end.wrapping_sub(first) as usize == self.capacity {
                if self.object.is_still(version) {
                    return false;
                }
                continue;
            }
            let cell = (&self.cells, self.cell(end), word as u64);
            // SAFETY: the words are this queue's, and its object, which uses k-CAS, alone covers them.
            if unsafe {
                self.object
                    .put_since_by_kcas(version, cell, (&self.end, end + 1))
            } {
                return true;
            }
        }
    }

    fn get(&self) -> Option<usize> {
        loop {
            let version = self.object.begin();
            let [first, end] = [&self.first, &self.end].map(|word| self.object.load(word));
            if first == end {
                if self.object.is_still(version) {
                    return None;
                }
                continue;
            }
            let word = self.cells.load(&self.object, self.cell(first));
            let next = (&self.first, first + 1);
            // SAFETY: as in `put`.
            if unsafe { self.object.exchange_one_since_by_kcas(version, next) } {
                return Some(word as usize);
            }
        }
    }
}

impl<T: Word> Drop for Queue<T> {
    fn drop(&mut self) {
        self.drain().for_each(drop);
    }
}

/// A queue that is full of these values, the first one first.
impl<T: Word> FromIterator<T> for Queue<T> {
    /// # Panics
    ///
    /// As [`new`](Queue::new); not for no values: then there is room for one.
    fn from_iter<I: IntoIterator<Item = T>>(values: I) -> Queue<T> {
        let values: Vec<T> = values.into_iter().collect();
        let queue = Queue::new(values.len().max(1));
        for value in values {
            let pushed = queue.push(value);
            debug_assert!(pushed.is_ok(), "there is room for all");
        }
        queue
    }
}

impl<T: Word> fmt::Debug for Queue<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Queue")
            .field("len", &self.len())
            .field("capacity", &self.capacity())
            .finish_non_exhaustive()
    }
}
