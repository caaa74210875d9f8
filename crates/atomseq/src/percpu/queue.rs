//! An unbounded queue per CPU: a ring of linked cells that grows when it is full.
//!
//! ```text
//!            head                tail                 free cells stay in the ring,
//!             v                   v                   so that a push or a pop moves
//!   ┌─> free ─> full ─> full ─> next ─> free ─┐       one word and allocates nothing;
//!   └─────────────────────────────────────────┘       full is next->link == head
//! ```
//!
//! One cell is always free: the one at the tail. A full ring grows by a chain of new cells that is
//! spliced in behind the tail, which also takes a single visible store.
//!
//! # How another CPU finds the queue empty
//!
//! The queue is empty if head and tail are the same cell at the same time. Another thread has to
//! read one after the other. Meanwhile the ring may advance all the way round to the same cells.
//! Each cell therefore has a *number*, which counts the pushes that have moved the tail. The push
//! that makes a cell the tail first writes the cell's number. The cell is free then, so the head
//! has left it: the number of a cell does not change while the cell is the head.
//!
//! `was_empty` reads the head, its number, the head, the tail, and again the head and the number.
//! If head and number are unchanged, the cell was the head throughout, and comparing it with the
//! tail decides. If either has changed, the head has moved, so there was an element.

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
use crate::or_panic::OrPanic;
use crate::word::Invariant;
use crate::{AsWord, drops};

const HEAD: usize = WORDS;
const TAIL: usize = WORDS + 8;

const LINK: usize = 0;
const VALUE: usize = 8;
const NUMBER: usize = 16;

crate::sequence! {
    /// Fills the cell at the tail. Returns `false` if the ring is full.
    unsafe fn push(slot: Slot, value: Word) -> bool {
        let cell = load(slot + TAIL);
        let next = load(cell + LINK);
        if next == load(slot + HEAD) { return false }
        prepare(cell + VALUE, value);
        prepare(next + NUMBER, load(cell + NUMBER) + 1);
        commit(slot + TAIL, next);
        true
    }

    /// Empties the cell at the head. Returns `None` if the ring is empty.
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

/// The sequences of this file, for the checkers in `verify/`.
#[cfg(feature = "unstable-internals")]
pub(super) const SEQUENCES: &[&crate::sequence::model::Program] =
    &[&push::MODEL, &pop::MODEL, &grow::MODEL];

/// A cell: the address of the next cell, an element's word, and the cell's number. [`LINK`],
/// [`VALUE`] and [`NUMBER`] are the offsets of these fields.
#[repr(C)]
struct Cell {
    link: ElementWord,
    value: ElementWord,
    number: ElementWord,
}

/// The number of cells that each CPU starts with.
const FIRST_CELLS: usize = 32;

/// The header of a mapping from which a full ring took new cells. Freed with the queue.
#[repr(C)]
struct Chunk {
    next: *mut Chunk,
    bytes: usize,
}

/// The mappings of a queue. As a field they are dropped after `Queue::drop` has dropped the
/// elements, even if a destructor panics.
struct Chunks {
    newest: AtomicPtr<Chunk>,
    /// The size of the next chunk, in bytes.
    next_bytes: AtomicUsize,
}

impl Chunks {
    const fn new() -> Chunks {
        Chunks {
            newest: AtomicPtr::new(std::ptr::null_mut()),
            next_bytes: AtomicUsize::new(SMALLEST_CHUNK),
        }
    }

    /// Maps a chunk and links its cells to a chain. Returns the addresses of the first and last
    /// cell. If the system refuses the memory, tries half of it, down to `SMALLEST_CHUNK`.
    fn new_chain(&self, map: impl Fn(usize) -> Option<NonNull<u8>>) -> Option<(usize, usize)> {
        // Relaxed: the size is only a hint.
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
            // SAFETY: a new mapping, aligned to a page, with room for the header. No other thread
            // can reach it before the exchange.
            unsafe { chunk.write(Chunk { next, bytes }) };
            // Release: pairs with the synchronization that gives `drop` exclusive access. No other
            // code reads the list, which only grows until then.
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
        // SAFETY: behind its header the chunk has room for `count` cells and is aligned for them.
        // No other thread uses them yet.
        Some(unsafe { chain(chunk.cast::<Cell>().add(1), count) })
    }
}

impl Drop for Chunks {
    fn drop(&mut self) {
        let mut chunk = *self.newest.get_mut();
        while let Some(mapping) = NonNull::new(chunk) {
            // SAFETY: `new_chain` wrote this header, and `&mut self` excludes other threads.
            let Chunk { next, bytes } = unsafe { mapping.read() };
            // SAFETY: the chunk's start and size. The queue is being dropped and its elements are
            // gone, so no code reaches a cell any more.
            unsafe { memory::free(mapping.cast(), bytes) };
            chunk = next;
        }
    }
}

/// A chunk's header takes the place of one cell.
const _: () = assert!(size_of::<Chunk>() <= size_of::<Cell>());

/// The sizes of chunks in bytes. The first chunk has the smallest size; each chunk doubles it, up
/// to the largest.
const SMALLEST_CHUNK: usize = 4096;
const LARGEST_CHUNK: usize = 1 << 20;

/// An unbounded first-in-first-out queue with one part per CPU: a thread pops the oldest element
/// pushed on its CPU.
///
/// Scope `SameCpu`. [`push`](Queue::push) and [`pop`](Queue::pop) cost no atomic instruction on the
/// fast path, and block only while another thread holds this CPU's gate or [forks](super#progress).
/// Every operation may be called in a signal handler. Elements are ordered per CPU only.
///
/// A full part takes a chunk of memory from the operating system, and keeps it until the queue is
/// dropped. Nothing allocates any more once each part has reached its maximum length. A queue takes
/// one slot (128 bytes) per CPU and 24 bytes per element, with room for 31 elements per CPU from
/// the start. See [the module](super) for what all per-CPU structures share.
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

// SAFETY: a queue owns its elements and returns each to one caller, by value. `T: Send` lets them
// change threads.
unsafe impl<T: AsWord + Send> Send for Queue<T> {}
// SAFETY: shared access moves elements by value only, which `T: Send` permits. Sequences and gates
// make concurrent operations on a slot atomic.
unsafe impl<T: AsWord + Send> Sync for Queue<T> {}

impl<T: AsWord> Queue<T> {
    /// Creates an empty queue.
    ///
    /// # Panics
    ///
    /// If [`try_new`](Queue::try_new) fails.
    #[track_caller]
    pub fn new() -> Queue<T> {
        Queue::try_new().or_panic()
    }

    /// Creates an empty queue.
    ///
    /// # Errors
    ///
    /// [`Error::OutOfMemory`] if the operating system refuses the memory, [`Error::StartingUp`]
    /// during start-up.
    pub fn try_new() -> Result<Queue<T>, Error> {
        let area = Area::try_new(FIRST_CELLS * size_of::<Cell>())?;
        for cpu in 0..area.cpus() {
            let cells = area.bulk(cpu).cast::<Cell>();
            // SAFETY: the bulk has room for `FIRST_CELLS` cells, and the area is not shared yet.
            let (first, last) = unsafe { chain(cells, FIRST_CELLS) };
            // SAFETY: `last` is a cell that `chain` initialized, and the area is not shared yet.
            // Its link closes the ring.
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

    /// Returns the address of the newest chunk.
    #[cfg(all(test, atomseq_sections))]
    pub(super) fn newest_chunk(&self) -> Option<usize> {
        let chunk = self.chunks.newest.load(Ordering::Relaxed);
        (!chunk.is_null()).then(|| chunk.addr())
    }

    /// Returns the number of CPUs that have a part.
    pub fn cpus(&self) -> usize {
        self.area.cpus()
    }

    /// Returns whether every CPU's part is empty. Reads one part after the other, so it may miss an
    /// element that changes CPU during the call. The result may be out of date when the call
    /// returns.
    pub fn is_empty(&self) -> bool {
        (0..self.cpus()).all(|cpu| self.is_empty_on(cpu))
    }

    /// Returns whether a CPU's part is empty. The result may be out of date when the call returns.
    ///
    /// # Panics
    ///
    /// If there is no such CPU.
    #[track_caller]
    pub fn is_empty_on(&self, cpu: usize) -> bool {
        self.was_empty(cpu, || ())
    }

    /// Returns whether a CPU's part was empty at some time between the first load and the last. The
    /// head of this file explains the algorithm. Tests use `gap` to change the queue between the
    /// loads.
    #[inline(always)]
    #[track_caller]
    fn was_empty(&self, cpu: usize, mut gap: impl FnMut()) -> bool {
        let head = self.area.peek(cpu, HEAD);
        gap();
        if self.area.peek(cpu, TAIL) != head {
            return false;
        }
        let number = || {
            let number = std::ptr::with_exposed_provenance_mut(head + NUMBER);
            // SAFETY: every head is the address of a cell, and cells live as long as the queue.
            // Sequences store a number with one instruction. Acquire: keeps the later loads after
            // this one. The `peek`s before it acquire too, and pair with the release of `pop`, so
            // this load sees numbers that were written before the head reached this cell. On
            // AArch64 it may see a number written before the head left the cell, but not one from a
            // whole round of the ring earlier.
            unsafe { AtomicUsize::from_ptr(number) }.load(Ordering::Acquire)
        };
        gap();
        let before = number();
        gap();
        let was_there = self.area.peek(cpu, HEAD) == head;
        gap();
        let had_reached_it = self.area.peek(cpu, TAIL) == head;
        gap();
        let is_there = self.area.peek(cpu, HEAD) == head;
        gap();
        was_there && had_reached_it && is_there && number() == before
    }

    /// Pushes an element to the end of this CPU's part.
    ///
    /// A push to a full part makes a system call for memory. Each one doubles the size, up to 1
    /// MiB. If the system refuses the memory, further calls ask for half of it each, down to 4 KiB.
    ///
    /// # Errors
    ///
    /// Returns the element if the part is full and the operating system refuses memory.
    #[inline]
    pub fn push(&self, element: T) -> Result<(), T> {
        let word = element.into_word();
        // SAFETY: head and tail are cells, which live as long as the queue. The cell at the tail is
        // free.
        match unsafe { push::on_cpu(self.area.slots(), word) } {
            Ok(true) => Ok(()),
            _ => self.push_slowly(word),
        }
    }

    #[cold]
    fn push_slowly(&self, word: usize) -> Result<(), T> {
        loop {
            // SAFETY: head and tail are cells, which live as long as the queue. The cell at the
            // tail is free.
            let pushed = match unsafe { push::on_cpu(self.area.slots(), word) } {
                Ok(pushed) => pushed,
                // SAFETY: head and tail are cells, which live as long as the queue, and `held`
                // closes this slot.
                Err(_) => self
                    .area
                    .on_slow_path(move |held| unsafe { push::gated(held, word) }),
            };
            if pushed {
                return Ok(());
            }
            let Some((first, last)) = self.chunks.new_chain(memory::allocate) else {
                // SAFETY: `push` converted an element to this word, and no cell took it.
                return Err(unsafe { T::from_word(word) });
            };
            // SAFETY: the cells of the chain are new and live as long as the queue. No other thread
            // can reach them.
            if unsafe { grow::on_cpu(self.area.slots(), first, last) }.is_err() {
                // SAFETY: the aborted attempt did not publish the chain, so the cells are still
                // unreachable; `held` closes this slot.
                self.area
                    .on_slow_path(move |held| unsafe { grow::gated(held, first, last) });
            }
        }
    }

    /// Pops the oldest element pushed on this CPU.
    #[inline]
    pub fn pop(&self) -> Option<T> {
        // SAFETY: head and tail are cells, which live as long as the queue. Cells from head to tail
        // hold words.
        let word = match unsafe { pop::on_cpu(self.area.slots()) } {
            Ok(word) => word,
            Err(_) => self.pop_slowly(),
        }?;
        // SAFETY: `push` converted an element to this word, and the sequence has just removed it
        // from the queue.
        Some(unsafe { T::from_word(word) })
    }

    #[cold]
    fn pop_slowly(&self) -> Option<usize> {
        // SAFETY: head and tail are cells, which live as long as the queue, and `held` closes this
        // slot.
        self.area.on_slow_path(|held| unsafe { pop::gated(held) })
    }

    /// Pops the oldest element pushed on a CPU, under its gate.
    ///
    /// Costs at most seven loads if the part is empty, and otherwise as much as
    /// [`Area::close_gate`]. Blocks while another thread holds that gate.
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

    /// Pops an element from any CPU with [`steal_from`](Queue::steal_from). Tries the following CPU
    /// numbers first and the current CPU last. Like [`is_empty`](Queue::is_empty), it may miss an
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

/// Initializes `count` cells, each linked to the next one. Returns the addresses of the first and
/// the last.
///
/// # Safety
///
/// `cells` has room for `count` cells, at least one, and no other code uses it.
unsafe fn chain(cells: NonNull<Cell>, count: usize) -> (usize, usize) {
    let at = |index: usize| cells.as_ptr().wrapping_add(index).expose_provenance();
    for index in 0..count {
        // SAFETY: the caller guarantees room for `count` cells that no other code uses.
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
        // SAFETY: head and tail are cells, which live as long as the queue, and `held` closes this
        // slot.
        let word = unsafe { pop::gated(held) }?;
        Some(Raw { word })
    }

    unsafe fn element(&self, raw: Raw<T>) -> T {
        // SAFETY: the caller guarantees that `take` returned `raw`, once. Its word comes from
        // `push`, and has left the queue.
        unsafe { T::from_word(raw.word) }
    }

    fn seems_occupied(&self, cpu: usize) -> bool {
        !self.is_empty_on(cpu)
    }

    fn count(&self, held: &GateGuard<'_>) -> usize {
        let [head, tail] = [HEAD, TAIL].map(|word| {
            let cell = self.area.peek(held.cpu(), word);
            let number = std::ptr::with_exposed_provenance_mut(cell + NUMBER);
            // SAFETY: head and tail are cells, which live as long as the queue. Sequences store a
            // number with one instruction. Relaxed: closing the gate has ordered all earlier
            // stores, and while it is held neither number changes.
            unsafe { AtomicUsize::from_ptr(number) }.load(Ordering::Relaxed)
        });
        tail.wrapping_sub(head)
    }
}

impl<T: AsWord> Drop for Queue<T> {
    fn drop(&mut self) {
        let mut words = (0..self.area.cpus()).flat_map(|cpu| {
            let (mut cell, tail) = (self.area.peek(cpu, HEAD), self.area.peek(cpu, TAIL));
            std::iter::from_fn(move || {
                if cell == tail {
                    return None;
                }
                let at = std::ptr::with_exposed_provenance::<Cell>(cell);
                // SAFETY: a cell of the ring. `&mut self` excludes other threads, and the chunks
                // are dropped later.
                let Cell { link, value, .. } = unsafe { at.read() };
                // SAFETY: `chain` initialized the link of every cell.
                cell = unsafe { link.word() };
                // SAFETY: the cells from head to tail hold words that `push` stored.
                Some(unsafe { value.word() })
            })
        });
        drops::each(|| {
            // SAFETY: `push` converted an element to this word, and the walk reaches each word
            // once.
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
