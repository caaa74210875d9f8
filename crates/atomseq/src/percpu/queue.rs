//! An unbounded queue a CPU: a ring of linked cells that grows where it is full.
//!
//! ```text
//!            head                tail                 free cells stay in the ring,
//!             v                   v                   so that a push or a pop moves
//!   ┌─> free ─> full ─> full ─> next ─> free ─┐       one word and allocates nothing;
//!   └─────────────────────────────────────────┘       full is next->link == head
//! ```
//!
//! One cell is always free: the one at the tail. A full ring grows by a chain of new cells spliced
//! in behind it, again with one visible store.
//!
//! # Is it empty?
//!
//! It is if head and tail are the same cell at the same time. An outsider reads one after the
//! other, while the ring may go round, and come to the same cells again. So each cell has a
//! *number*: which push made it the tail. The push before writes it, while the cell is free, and so
//! not before the head has left it. As long as a cell is the head, its number does not change.
//!
//! An outsider reads the head's number, the head, the tail, the head and the number once more. If
//! both are unchanged, the head was there all the while, and where the tail was then tells. If not,
//! it has moved: there was an element.

use std::fmt;
use std::marker::PhantomData;
use std::ptr::NonNull;
use std::sync::atomic::{AtomicPtr, AtomicUsize, Ordering};

use super::area::{Area, WORDS};
use super::batch::ElementWord;
use super::error::Error;
use super::gate::GateGuard;
use super::memory;
use super::remote::{self, Drain, Raw, Take};
use crate::word::Invariant;
use crate::{AsWord, drops};

const HEAD: usize = WORDS;
const TAIL: usize = WORDS + 8;

const LINK: usize = 0;
const VALUE: usize = 8;
const NUMBER: usize = 16;

crate::sequence! {
    /// Fills the cell at the tail; `false` when the ring is full.
    unsafe fn push(slot: Slot, value: Word) -> bool {
        let cell = load(slot + TAIL);
        let next = load(cell + LINK);
        if next == load(slot + HEAD) { return false }
        prepare(cell + VALUE, value);
        prepare(next + NUMBER, load(cell + NUMBER) + 1);
        commit(slot + TAIL, next);
        true
    }

    /// Empties the cell at the head.
    unsafe fn pop(slot: Slot) -> Option<Word> {
        let cell = load(slot + HEAD);
        if cell == load(slot + TAIL) { return None }
        let value = load(cell + VALUE);
        let next = load(cell + LINK);
        commit_release(slot + HEAD, next);
        Some(value)
    }

    /// Splices a chain of free cells in behind the tail.
    unsafe fn grow(slot: Slot, first: Word, last: Word) {
        let cell = load(slot + TAIL);
        let next = load(cell + LINK);
        prepare(last + LINK, next);
        commit(cell + LINK, first);
    }
}

/// For the checkers in `verify/`.
#[cfg(feature = "unstable-internals")]
pub(super) const SEQUENCES: &[&crate::sequence::model::Program] =
    &[&push::MODEL, &pop::MODEL, &grow::MODEL];

/// The address of the next cell, a word and the cell's number, as [`LINK`], [`VALUE`] and
/// [`NUMBER`] say.
#[repr(C)]
struct Cell {
    link: ElementWord,
    value: ElementWord,
    number: ElementWord,
}

/// Cells each CPU starts with.
const FIRST_CELLS: usize = 32;

/// A mapping that a full ring took its new cells from; freed with the queue.
#[repr(C)]
struct Chunk {
    next: *mut Chunk,
    bytes: usize,
}

/// The mappings of a queue. They outlive its elements, also where a destructor panics: a field is
/// dropped after the whole.
struct Chunks {
    newest: AtomicPtr<Chunk>,
    /// How many bytes to ask for next.
    next_bytes: AtomicUsize,
}

impl Chunks {
    const fn new() -> Chunks {
        Chunks {
            newest: AtomicPtr::new(std::ptr::null_mut()),
            next_bytes: AtomicUsize::new(SMALLEST_CHUNK),
        }
    }

    /// Free cells in a chunk of their own: the address of the first and of the last. Where there is
    /// no memory for a chunk, there may be some for half of it.
    fn new_chain(&self, map: impl Fn(usize) -> Option<NonNull<u8>>) -> Option<(usize, usize)> {
        // Relaxed: sizes need not be exact.
        let mut bytes = self.next_bytes.load(Ordering::Relaxed);
        let mapping = loop {
            match map(bytes) {
                Some(mapping) => break mapping,
                None if bytes == SMALLEST_CHUNK => return None,
                None => bytes /= 2,
            }
        };
        let next_bytes = (bytes * 2).min(LARGEST_CHUNK);
        self.next_bytes.store(next_bytes, Ordering::Relaxed);
        let chunk = mapping.cast::<Chunk>();
        let mut next = self.newest.load(Ordering::Relaxed);
        loop {
            // SAFETY: a fresh mapping, aligned to a page, that nobody else knows before the
            // exchange.
            unsafe { chunk.write(Chunk { next, bytes }) };
            // Release: pairs with the exclusive access in `drop`; chunks are only added until then.
            match self.newest.compare_exchange_weak(
                next,
                chunk.as_ptr(),
                Ordering::Release,
                Ordering::Relaxed,
            ) {
                Ok(_) => break,
                Err(now) => next = now,
            }
        }
        let count = bytes / size_of::<Cell>() - 1;
        // SAFETY: behind its header the chunk has room for so many cells, aligned to words like it.
        Some(unsafe { chain(chunk.cast::<Cell>().add(1), count) })
    }
}

impl Drop for Chunks {
    fn drop(&mut self) {
        let mut chunk = *self.newest.get_mut();
        while let Some(mapping) = NonNull::new(chunk) {
            // SAFETY: a chunk that `new_chain` mapped.
            let Chunk { next, bytes } = unsafe { mapping.read() };
            // SAFETY: its start and size; the queue is being dropped, and no cell is reached any
            // more.
            unsafe { memory::free(mapping.cast(), bytes) };
            chunk = next;
        }
    }
}

/// A chunk's header takes the place of one cell.
const _: () = assert!(size_of::<Chunk>() <= size_of::<Cell>());

/// What the first chunk takes; each next one takes twice as much as the one before, up to the
/// largest.
const SMALLEST_CHUNK: usize = 4096;
const LARGEST_CHUNK: usize = 1 << 20;

/// An unbounded first-in-first-out store with a part a CPU: a thread pops the oldest of what was
/// pushed on its CPU.
///
/// Scope `SameCpu`; [`push`](Queue::push) and [`pop`](Queue::pop) cost no atomic instruction and
/// wait only while another thread holds this CPU's gate. Every operation may be used in signal
/// handlers. A part that is full takes a chunk of memory from the operating system and keeps it
/// until the queue is dropped, so nothing allocates once a queue has been as long as it gets. Order
/// holds on each CPU alone. Takes a slot and 24 bytes an element for each CPU, and for 32 of them
/// from the start; [the module](super) tells the rest.
///
/// ```
/// use atomseq::percpu::Queue;
///
/// let jobs = Queue::new();
/// for job in 0..1000u32 {
///     jobs.push(job).unwrap();
/// }
/// assert_eq!(jobs.drain().map(u64::from).sum::<u64>(), 499_500);
/// ```
pub struct Queue<T: AsWord> {
    area: Area,
    chunks: Chunks,
    elements: Invariant<T>,
}

// SAFETY: elements move between threads as values, never by reference.
unsafe impl<T: AsWord + Send> Send for Queue<T> {}
// SAFETY: as above; the sequences and the gates make concurrent use atomic.
unsafe impl<T: AsWord + Send> Sync for Queue<T> {}

impl<T: AsWord> Queue<T> {
    /// An empty queue.
    ///
    /// # Panics
    ///
    /// If [`try_new`](Queue::try_new) fails.
    pub fn new() -> Queue<T> {
        Queue::try_new().unwrap_or_else(|error| panic!("{error}"))
    }

    /// An empty queue, or why there is none.
    ///
    /// # Errors
    ///
    /// [`Error::OutOfMemory`].
    pub fn try_new() -> Result<Queue<T>, Error> {
        let area = Area::try_new(FIRST_CELLS * size_of::<Cell>())?;
        for cpu in 0..area.cpus() {
            let cells = area.bulk(cpu).cast::<Cell>();
            // SAFETY: the bulk has room for these cells, and nobody else has the area yet.
            let (first, last) = unsafe { chain(cells, FIRST_CELLS) };
            // SAFETY: the last of the chain; its link closes the ring.
            unsafe { (*(last as *mut Cell)).link = ElementWord::new(first) };
            area.set(cpu, HEAD, first);
            area.set(cpu, TAIL, first);
        }
        Ok(Queue {
            area,
            chunks: Chunks::new(),
            elements: PhantomData,
        })
    }

    /// The address of the newest chunk.
    #[cfg(all(test, atomseq_sections))]
    pub(super) fn newest_chunk(&self) -> Option<usize> {
        let chunk = self.chunks.newest.load(Ordering::Relaxed);
        (!chunk.is_null()).then(|| chunk.addr())
    }

    /// How many CPUs have a part.
    pub fn cpus(&self) -> usize {
        self.area.cpus()
    }

    /// Is there no element on any CPU? Looks at one after the other, so it may miss an element that
    /// goes from CPU to CPU meanwhile. Already history when it returns.
    pub fn is_empty(&self) -> bool {
        (0..self.cpus()).all(|cpu| self.is_empty_on(cpu))
    }

    /// Is there no element on a CPU? Already history when it returns.
    ///
    /// # Panics
    ///
    /// If there is no such CPU.
    pub fn is_empty_on(&self, cpu: usize) -> bool {
        self.was_empty(cpu, || ())
    }

    /// Was there no element on a CPU at some time between the first load and the last? As the
    /// file's head says; `gap` is for tests, which let others in between the loads.
    #[inline(always)]
    fn was_empty(&self, cpu: usize, mut gap: impl FnMut()) -> bool {
        let head = self.area.peek(cpu, 0);
        gap();
        if self.area.peek(cpu, 1) != head {
            return false;
        }
        let number = || {
            let number = std::ptr::with_exposed_provenance_mut(head + NUMBER);
            // SAFETY: a head is a cell, and cells live as long as the queue; sequences store their
            // numbers, each as a whole. Acquire: the loads after it stay there. Those before it are
            // acquires as well, which pair with the release of `pop`: numbers written before the
            // head came here are seen. (On AArch64 one may be seen before the head has left, but
            // not a whole round of the ring before.)
            unsafe { AtomicUsize::from_ptr(number) }.load(Ordering::Acquire)
        };
        gap();
        let before = number();
        gap();
        let was_there = self.area.peek(cpu, 0) == head;
        gap();
        let had_reached_it = self.area.peek(cpu, 1) == head;
        gap();
        let is_there = self.area.peek(cpu, 0) == head;
        gap();
        was_there && had_reached_it && is_there && number() == before
    }

    /// Puts an element at the end of this CPU's queue. A full one costs a system call for memory,
    /// each time for twice as much up to a mebibyte; where that is refused, more calls, for half of
    /// it down to four kibibytes.
    ///
    /// # Errors
    ///
    /// The element, if the queue is full and the operating system gives no memory.
    #[inline]
    pub fn push(&self, element: T) -> Result<(), T> {
        let word = element.into_word();
        // SAFETY: cells live as long as the queue, and the one at the tail is free.
        match unsafe { push::on_cpu(self.area.slots(), word) } {
            Ok(true) => Ok(()),
            _ => self.push_slowly(word),
        }
    }

    #[cold]
    fn push_slowly(&self, word: usize) -> Result<(), T> {
        loop {
            // SAFETY: as in `push`.
            let pushed = match unsafe { push::on_cpu(self.area.slots(), word) } {
                Ok(pushed) => pushed,
                // SAFETY: the same.
                Err(_) => self
                    .area
                    .on_slow_path(|held| unsafe { push::gated(held, word) }),
            };
            if pushed {
                return Ok(());
            }
            let Some((first, last)) = self.chunks.new_chain(memory::allocate) else {
                // SAFETY: `push` made the word, and the queue did not take it.
                return Err(unsafe { T::from_word(word) });
            };
            // SAFETY: a chain of cells that nobody else knows, living as long as the queue.
            if unsafe { grow::on_cpu(self.area.slots(), first, last) }.is_err() {
                // SAFETY: the same.
                self.area
                    .on_slow_path(|held| unsafe { grow::gated(held, first, last) });
            }
        }
    }

    /// Takes the oldest element pushed on this CPU.
    #[inline]
    pub fn pop(&self) -> Option<T> {
        // SAFETY: as in `push`.
        let word = match unsafe { pop::on_cpu(self.area.slots()) } {
            Ok(word) => word,
            Err(_) => self.pop_slowly(),
        }?;
        // SAFETY: `push` made the word, and it left the queue just now.
        Some(unsafe { T::from_word(word) })
    }

    #[cold]
    fn pop_slowly(&self) -> Option<usize> {
        // SAFETY: as in `push`.
        self.area.on_slow_path(|held| unsafe { pop::gated(held) })
    }

    /// Takes the oldest element pushed on a CPU, through its gate.
    ///
    /// Costs seven loads if there is none, else as much as [`Area::close_gate`]; waits while
    /// another thread holds that gate.
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
    /// [`steal_from`](Queue::steal_from). Like [`is_empty`](Queue::is_empty), it may miss an
    /// element that goes from CPU to CPU meanwhile.
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

/// Links `count` cells, one after the other; returns the addresses of the first and the last.
///
/// # Safety
///
/// There is room for so many cells, at least one, and nobody else uses it.
unsafe fn chain(cells: NonNull<Cell>, count: usize) -> (usize, usize) {
    let at = |index: usize| cells.as_ptr().wrapping_add(index).expose_provenance();
    for index in 0..count {
        // SAFETY: the caller's promise.
        unsafe {
            cells.add(index).write(Cell {
                link: ElementWord::new(at(index + 1)),
                value: ElementWord::EMPTY,
                number: ElementWord::new(0),
            })
        };
    }
    (at(0), at(count - 1))
}

impl<T: AsWord + Send> Take<T> for Queue<T> {
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
        !self.is_empty_on(cpu)
    }

    fn count(&self, held: &GateGuard<'_>) -> usize {
        let [head, tail] = [0, 1].map(|word| {
            let cell = self.area.peek(held.cpu(), word);
            let number = std::ptr::with_exposed_provenance_mut(cell + NUMBER);
            // SAFETY: head and tail are cells, and cells live as long as the queue; sequences store
            // their numbers, each as a whole. Relaxed: the gate is held, so neither changes, and
            // closing it has ordered what was stored before.
            unsafe { AtomicUsize::from_ptr(number) }.load(Ordering::Relaxed)
        });
        tail.wrapping_sub(head)
    }
}

impl<T: AsWord> Drop for Queue<T> {
    fn drop(&mut self) {
        let mut words = (0..self.area.cpus()).flat_map(|cpu| {
            let (mut cell, tail) = (self.area.peek(cpu, 0), self.area.peek(cpu, 1));
            std::iter::from_fn(move || {
                if cell == tail {
                    return None;
                }
                let at = std::ptr::with_exposed_provenance::<Cell>(cell);
                // SAFETY: a cell of the ring; nobody else has the queue now, and its chunks go
                // after this.
                let Cell { link, value, .. } = unsafe { at.read() };
                // SAFETY: every cell has a link.
                cell = unsafe { link.word() };
                // SAFETY: from head to tail, cells hold words.
                Some(unsafe { value.word() })
            })
        });
        drops::each(|| {
            // SAFETY: `push` made the word, and each is reached once.
            let element = words.next().map(|word| unsafe { T::from_word(word) });
            element.is_some()
        });
    }
}

impl<T: AsWord> Default for Queue<T> {
    fn default() -> Queue<T> {
        Queue::new()
    }
}

impl<T: AsWord> fmt::Debug for Queue<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Queue")
            .field("is_empty", &self.is_empty())
            .finish()
    }
}

#[cfg(test)]
mod tests;
