//! The memory of a per-CPU structure: one slot per CPU, with a gate and a bulk region each.
//!
//! ```text
//!      -2           -1            0            1               n-1
//!   +----+-----+----+-----+----+------+----+------+--    --+----+------+
//!   |gate|     |gate|     |slot| bulk |slot| bulk |  ...   |slot| bulk |
//!   +----+-----+----+-----+----+------+----+------+--    --+----+------+
//!                         ^ base       a slot: 128 bytes, gate u32 first, then 15 words
//! ```
//!
//! A sequence computes its slot from the `cpu_id` that the kernel keeps in the thread's
//! `struct rseq`. A thread that is not registered reads -1 or -2 there and so reaches a guard slot,
//! whose gate is permanently closed. One test of the gate therefore also covers the case that
//! sections are unavailable.

use std::ptr::{NonNull, null_mut};
use std::sync::atomic::{AtomicPtr, AtomicU32, AtomicUsize, Ordering};

use super::error::Error;
use super::gate::GateGuard;
use super::lazy::Lazy;
use super::lock::FOR_GOOD;
use super::memory;
use crate::growth::Growth;
use crate::platform;
use crate::status::{Reason, Status};

/// The size of a slot in bytes: two cache lines, because processors prefetch lines in pairs.
pub(super) const SLOT_BYTES: usize = 128;

/// The byte offset of a slot's first word.
pub(super) const WORDS: usize = 8;

/// The number of words in a slot.
pub(super) const WORDS_PER_SLOT: usize = (SLOT_BYTES - WORDS) / 8;

const GUARDS: usize = 2;

/// Returns what this process can use, or [`Error::StartingUp`] until start-up has decided it. Until
/// then the number of CPUs and the offset of a thread's CPU number are provisional, and a structure
/// stores both permanently.
pub(crate) fn started() -> Result<&'static Status, Error> {
    unless_starting(platform::start())
}

/// Returns the same, and [`Error::StartingUp`] also while another thread starts atomseq: waits for
/// no thread.
pub(super) fn started_at_once() -> Result<&'static Status, Error> {
    unless_starting(platform::start_at_once())
}

fn unless_starting(status: &'static Status) -> Result<&'static Status, Error> {
    match status.reason() {
        Some(Reason::StartingUp) => Err(Error::StartingUp),
        _ => Ok(status),
    }
}

/// One zeroed slot per CPU: the memory of one per-CPU structure.
///
/// The area has a slot for every CPU number that the kernel may ever use, so a CPU that comes
/// online later has one too. The memory comes from the operating system, never from the global
/// allocator. Use it for structures of your own; [`docs::patterns`](crate::docs::patterns) shows
/// how.
///
/// Safe code that has a reference to an area can store any word in any slot, by a sequence that is
/// a [plain `fn`](crate::sequence!#plain-functions). A structure whose unsafe sequences take a word
/// for an address keeps its area in a private field.
#[derive(Debug)]
pub struct Area {
    place: Place,
    cpus: usize,
    bytes: usize,
}

/// The words of an area that sequences read.
#[derive(Debug)]
#[repr(C)]
pub(super) struct Place {
    /// The address of CPU 0's slot.
    base: NonNull<u8>,
    /// The distance in bytes between the slots of adjacent CPUs.
    stride: usize,
    /// The offset of a thread's `struct rseq` from its thread pointer.
    rseq_offset: isize,
}

// A published `Lazy` is used as a `Place`.
const _: () = assert!(
    size_of::<Place>() == size_of::<Lazy>()
        && std::mem::offset_of!(Place, base) == std::mem::offset_of!(Lazy, base)
        && std::mem::offset_of!(Place, stride) == std::mem::offset_of!(Lazy, stride)
        && std::mem::offset_of!(Place, rseq_offset) == std::mem::offset_of!(Lazy, rseq_offset)
);

// SAFETY: an area owns its mapping, which is not tied to a thread. Only sequences that are unsafe
// functions access memory without atomics, and their callers vouch for the contents.
unsafe impl Send for Area {}
// SAFETY: shared methods access the slots with atomic operations only, and so do sequences that are
// safe functions. Callers of the others vouch for concurrent use.
unsafe impl Sync for Area {}

/// The slots of an area, for the `Slot` parameter of a sequence.
// A single word, so that a restarted sequence finds it in a register and the caller spills nothing
// beforehand.
#[derive(Clone, Copy, Debug)]
pub struct Slots<'a> {
    place: &'a Place,
}

impl Slots<'_> {
    /// The offset from [`area`](Slots::area) of the address of CPU 0's slot.
    #[doc(hidden)]
    pub const BASE: usize = std::mem::offset_of!(Place, base);

    /// The offset from [`area`](Slots::area) of the distance in bytes between the slots of adjacent
    /// CPUs.
    #[doc(hidden)]
    pub const STRIDE: usize = std::mem::offset_of!(Place, stride);

    /// Returns the address of the words that sequences read.
    #[doc(hidden)]
    #[inline(always)]
    pub fn area(self) -> *const u8 {
        (&raw const *self.place).cast()
    }

    /// Returns the address of CPU 0's slot.
    #[doc(hidden)]
    #[inline(always)]
    pub fn base(self) -> *mut u8 {
        self.place.base.as_ptr()
    }

    /// Returns the distance in bytes between the slots of adjacent CPUs.
    #[doc(hidden)]
    #[inline(always)]
    pub fn stride(self) -> usize {
        self.place.stride
    }

    /// Returns the offset of the thread's `struct rseq` from its thread pointer.
    #[doc(hidden)]
    #[inline(always)]
    pub fn rseq_offset(self) -> isize {
        self.place.rseq_offset
    }
}

impl Area {
    /// The byte offset of the first of a slot's fifteen words. The gate lies before it.
    pub const FIRST_WORD: usize = WORDS;

    /// The byte offset from a slot to its bulk memory.
    pub const BULK: usize = SLOT_BYTES;

    /// Creates a zeroed area, and starts atomseq if it has not been started.
    ///
    /// The gates are open if [`gates_active`](crate::status::Status::gates_active) is true, and
    /// permanently closed otherwise. `bulk_bytes` zeroed bytes follow each slot: sequences find
    /// them at offset [`BULK`](Area::BULK) from the slot, other code with [`bulk`](Area::bulk).
    ///
    /// # Errors
    ///
    /// [`Error::TooLarge`] if the size exceeds the address space, [`Error::OutOfMemory`] if the
    /// operating system refuses the memory, [`Error::StartingUp`] during start-up.
    pub fn try_new(bulk_bytes: usize) -> Result<Area, Error> {
        let status = started()?;
        Area::with_gates(bulk_bytes, status, status.gates_active())
    }

    /// Creates an area whose gates no thread ever closes while sections run. Each operation on it
    /// must concern a single word. It stays fast where the kernel's rseq fence is unreliable.
    pub(super) fn ungated(bulk_bytes: usize) -> Result<Area, Error> {
        let status = started()?;
        Area::with_gates(bulk_bytes, status, status.is_active())
    }

    /// Creates an area whose gates are permanently closed.
    pub(super) fn closed(bulk_bytes: usize) -> Result<Area, Error> {
        Area::with_gates(bulk_bytes, started()?, false)
    }

    fn with_gates(bulk_bytes: usize, status: &Status, open: bool) -> Result<Area, Error> {
        let cpus = status.features().cpus;
        let stride = stride(bulk_bytes).ok_or(Error::TooLarge)?;
        Ok(Area {
            place: Place {
                base: map(stride, cpus, open, memory::allocate)?,
                stride,
                rseq_offset: platform::rseq_offset(),
            },
            cpus,
            bytes: bytes(stride, cpus).ok_or(Error::TooLarge)?,
        })
    }

    /// Returns the number of CPUs that have a slot: the largest CPU number that the kernel may ever
    /// use, plus one.
    pub fn cpus(&self) -> usize {
        self.cpus
    }

    /// Returns the address space that the area takes, in bytes, including the guards.
    pub fn bytes(&self) -> usize {
        self.bytes
    }

    /// Panics if there is no such CPU.
    #[inline]
    #[track_caller]
    pub(super) fn check(&self, cpu: usize) {
        assert!(
            cpu < self.cpus,
            "CPU {cpu} has no slot: there are {}",
            self.cpus
        );
    }

    /// Returns the size of a slot's bulk memory, rounded up to that of a slot.
    pub(super) fn bulk_bytes(&self) -> usize {
        self.place.stride - SLOT_BYTES
    }

    /// Returns the slots, for the `Slot` parameter of a sequence's `on_cpu` form.
    #[inline(always)]
    pub fn slots(&self) -> Slots<'_> {
        Slots { place: &self.place }
    }

    /// Returns the address of a CPU's bulk memory: the bytes that [`try_new`](Area::try_new) was
    /// asked for, rounded up to a multiple of 128.
    ///
    /// While a gate is [closed](Area::close_gate), no sequence is in progress on its CPU, so its
    /// holder may read what sequences prepare. An attempt that was aborted may have prepared words
    /// that no commit followed: read only what the committed words lead to.
    ///
    /// ```
    /// use atomseq::percpu::Area;
    ///
    /// const TAIL: usize = Area::FIRST_WORD;
    /// const ROOM: usize = 8;
    ///
    /// atomseq::sequence! {
    ///     /// Writes a value over this CPU's oldest one.
    ///     unsafe fn push(slot: Slot, value: Word) {
    ///         let tail = load(slot + TAIL);
    ///         prepare(slot + Area::BULK + ((tail & (ROOM - 1)) << 3), value);
    ///         commit(slot + TAIL, tail + 1);
    ///     }
    /// }
    ///
    /// let area = Area::try_new(8 * ROOM)?;
    /// for value in 0..20 {
    ///     // SAFETY: the bulk memory has the words, and other CPUs read them under the gate alone.
    ///     if unsafe { push::on_cpu(area.slots(), value) }.is_err() {
    ///         // SAFETY: the bulk memory has the words, and the gate is held.
    ///         area.on_slow_path(|gate| unsafe { push::gated(gate, value) });
    ///     }
    /// }
    ///
    /// let mut values = Vec::with_capacity(ROOM * area.cpus()); // Allocates before the gate.
    /// for cpu in 0..area.cpus() {
    ///     let _gate = area.close_gate(cpu);
    ///     let tail = area.peek(cpu, TAIL);
    ///     // The oldest value does not count: an aborted attempt may have written over it.
    ///     for index in tail.saturating_sub(ROOM - 1)..tail {
    ///         // SAFETY: one of the words, which no sequence writes while the gate is closed.
    ///         let word = unsafe { area.bulk(cpu).add(8 * (index % ROOM)).cast::<usize>().read() };
    ///         values.push(word);
    ///     }
    /// }
    /// assert!(values.contains(&19));
    /// # Ok::<(), atomseq::percpu::Error>(())
    /// ```
    ///
    /// # Panics
    ///
    /// If there is no such CPU.
    #[track_caller]
    pub fn bulk(&self, cpu: usize) -> NonNull<u8> {
        self.check(cpu);
        self.bulk_at(cpu as isize)
    }

    /// Returns the bulk memory of a CPU or a guard. All CPUs share that of the guards.
    pub(super) fn bulk_at(&self, index: isize) -> NonNull<u8> {
        // SAFETY: `slot_at` returns a slot or a guard of the mapping; its bulk follows `SLOT_BYTES`
        // further in the same mapping.
        unsafe { self.slot_at(index).add(SLOT_BYTES) }
    }

    /// Returns a word of a slot or a guard as an atomic.
    ///
    /// # Panics
    ///
    /// If there is no such slot or word.
    pub(super) fn word(&self, index: isize, word: usize) -> &AtomicUsize {
        assert!(word < WORDS_PER_SLOT);
        let address = self.slot_at(index).as_ptr().wrapping_add(WORDS + 8 * word);
        // SAFETY: the address lies inside a slot of the mapping, is aligned to 8 bytes, was
        // zero-initialized, and is valid as long as `self`.
        unsafe { AtomicUsize::from_ptr(address.cast()) }
    }

    /// Reads the word at a byte offset in a CPU's slot, for which a sequence writes
    /// `load(slot + offset)`. The first word is at [`FIRST_WORD`](Area::FIRST_WORD), the last one
    /// eight bytes before [`BULK`](Area::BULK).
    ///
    /// The word may change at any time. Do not dereference it as a pointer, and do not combine it
    /// with another word: the two need not belong together.
    ///
    /// Wait-free: one acquire load.
    ///
    /// # Panics
    ///
    /// If there is no such CPU, or if `offset` is not that of a word: the gate's, not a multiple of
    /// 8, or beyond the slot.
    #[inline]
    #[track_caller]
    pub fn peek(&self, cpu: usize, offset: usize) -> usize {
        self.check(cpu);
        if !(WORDS..SLOT_BYTES).contains(&offset) || !offset.is_multiple_of(8) {
            no_word(offset);
        }
        // Acquire: pairs with `commit_release` in sequences. What a word of a plain `commit` points
        // to may be read only under the gate.
        self.word(cpu as isize, (offset - WORDS) / 8)
            .load(Ordering::Acquire)
    }

    /// Sets a word of a slot. The caller has exclusive access to the area. `offset` counts from the
    /// gate.
    pub(super) fn set(&self, cpu: usize, offset: usize, value: usize) {
        // Relaxed: passing the area on to another thread orders this store before that thread's
        // accesses.
        self.word(cpu as isize, (offset - WORDS) / 8)
            .store(value, Ordering::Relaxed);
    }

    pub(super) fn gate_at(&self, index: isize) -> &AtomicU32 {
        // SAFETY: a slot starts with its gate, which is valid as long as `self`.
        unsafe { gate(self.slot_at(index)) }
    }

    pub(super) fn slot_at(&self, index: isize) -> NonNull<u8> {
        assert!(index >= -(GUARDS as isize) && index < self.cpus as isize);
        // SAFETY: the assertion shows that this is a slot or a guard of the mapping.
        unsafe { slot(self.place.base, self.place.stride, index) }
    }

    /// Runs the slow path of an operation: registers the thread if it is not registered, closes the
    /// gate of the current CPU's slot, and calls `work` with it.
    ///
    /// Call this after an `on_cpu` form returned [`Closed`](crate::sequence::Closed), with the
    /// sequence's `gated` form as the work. The restrictions of [`GateGuard`] apply to the work.
    /// Blocking, costs and use in signal handlers are those of [`close_gate`](Area::close_gate).
    ///
    /// If a handler of `SIGSEGV` may have to make a caller's memory accessible, touch that memory
    /// before this call, or copy to it afterwards: a fault under the gate ends the process.
    #[cold]
    pub fn on_slow_path<R>(&self, work: impl FnOnce(&GateGuard<'_>) -> R) -> R {
        platform::register_this_thread();
        work(&self.close_here())
    }
}

impl Drop for Area {
    fn drop(&mut self) {
        // SAFETY: `map` returned this address for this stride and number of CPUs. No borrow of the
        // area is left, so no sequence runs on it.
        unsafe { unmap(self.place.base, self.place.stride, self.cpus, memory::free) }
    }
}

/// Panics because a slot has no word at this byte offset.
#[cold]
#[track_caller]
fn no_word(offset: usize) -> ! {
    match offset {
        ..WORDS => panic!(
            "byte offset {offset} is in the gate: a slot's first word is at `Area::FIRST_WORD`, {WORDS}"
        ),
        SLOT_BYTES.. => panic!(
            "byte offset {offset} is beyond the slot: its last word is at {}",
            SLOT_BYTES - 8
        ),
        _ => panic!("byte offset {offset} is not that of a word: it must be a multiple of 8"),
    }
}

/// Returns the distance between the slots of adjacent CPUs; `None` if it exceeds the address space.
const fn stride(bulk_bytes: usize) -> Option<usize> {
    match bulk_bytes.checked_next_multiple_of(SLOT_BYTES) {
        Some(bulk) => bulk.checked_add(SLOT_BYTES),
        None => None,
    }
}

/// Returns the size of an area, with its guards; `None` if it exceeds the address space.
fn bytes(stride: usize, cpus: usize) -> Option<usize> {
    let bytes = stride.checked_mul(cpus + GUARDS)?;
    (bytes <= isize::MAX as usize).then_some(bytes)
}

/// Returns zeroed memory of so many bytes, or `None` if there is none.
type Allocate = fn(usize) -> Option<NonNull<u8>>;

/// Frees memory of so many bytes.
type Free = unsafe fn(NonNull<u8>, usize);

/// Maps a zeroed area, closes the guards' gates permanently, and the others too unless they are
/// `open`. Returns the address of CPU 0's slot.
fn map(stride: usize, cpus: usize, open: bool, allocate: Allocate) -> Result<NonNull<u8>, Error> {
    debug_assert_eq!(
        cpus,
        platform::cpu_slots(),
        "the number that sections rely on"
    );
    let bytes = bytes(stride, cpus).ok_or(Error::TooLarge)?;
    let start = allocate(bytes).ok_or(Error::OutOfMemory)?;
    // SAFETY: the mapping has `bytes` bytes: the guards and at least one slot.
    let base = unsafe { start.add(GUARDS * stride) };
    let guards = -(GUARDS as isize);
    let closed = guards..if open { 0 } else { cpus as isize };
    for index in closed {
        // SAFETY: this is a slot or a guard of the mapping, and starts with its gate.
        let gate = unsafe { gate(slot(base, stride, index)) };
        // Relaxed: the area is not shared yet; sharing it orders this store.
        gate.store(FOR_GOOD, Ordering::Relaxed);
    }
    Ok(base)
}

/// Frees an area by `free`.
///
/// # Safety
///
/// `map` returned `base` for this stride and number of CPUs, and no reference to the area is left.
/// `free` frees memory of `memory::allocate`.
unsafe fn unmap(base: NonNull<u8>, stride: usize, cpus: usize, free: Free) {
    // SAFETY: the caller guarantees that this is an area, in which the guards come first, and whose
    // size `map` has computed without overflow.
    unsafe { free(base.sub(GUARDS * stride), stride * (cpus + GUARDS)) }
}

/// Returns the address of a slot or a guard.
///
/// # Safety
///
/// The area has it.
unsafe fn slot(base: NonNull<u8>, stride: usize, index: isize) -> NonNull<u8> {
    // SAFETY: the caller guarantees that the address lies in the mapping.
    unsafe { base.offset(index * stride as isize) }
}

/// Returns the gate of a slot.
///
/// # Safety
///
/// The slot is valid for the lifetime of the result.
unsafe fn gate<'a>(slot: NonNull<u8>) -> &'a AtomicU32 {
    // SAFETY: the caller guarantees a valid slot. It starts with its gate, which is aligned and
    // only accessed atomically.
    unsafe { AtomicU32::from_ptr(slot.as_ptr().cast()) }
}

/// Selects the thread that maps the next area at its first use.
static GROWTH: Growth = Growth::new();

/// How long a thread that maps an area waits for others.
enum Waits {
    /// As long as they may publish it, or hold the last memory.
    Bounded,
    Never,
}

/// An area that is mapped at its first use. No thread ever closes its gates.
impl Lazy {
    /// Creates an area that is not mapped yet.
    ///
    /// # Panics
    ///
    /// If the size of a slot exceeds the address space.
    pub(crate) const fn with_bulk(bulk_bytes: usize) -> Lazy {
        Lazy {
            base: AtomicPtr::new(null_mut()),
            stride: match stride(bulk_bytes) {
                Some(stride) => stride,
                None => panic!("the capacity is larger than the address space: ask for less"),
            },
            rseq_offset: AtomicUsize::new(0),
        }
    }

    /// Returns the slots, for the `Slot` parameter of a sequence's `on_cpu` form. `None` until the
    /// area is mapped, and where sections are unavailable.
    #[inline(always)]
    pub(crate) fn slots(&self) -> Option<Slots<'_>> {
        let place = (&raw const *self).cast();
        // SAFETY: a `Lazy` has the layout of a `Place`. Since it is published, its address is not
        // null, and neither word changes any more.
        let place = self.is_published().then(|| unsafe { &*place })?;
        Some(Slots { place })
    }

    /// Maps the area, unless that has been done, and publishes it if sections are available. Each
    /// operation on it must concern a single word; it stays fast where the kernel's rseq fence is
    /// unreliable. Costs loads only once it has been done.
    ///
    /// # Errors
    ///
    /// [`Error::OutOfMemory`], [`Error::TooLarge`], [`Error::StartingUp`].
    #[cold]
    pub(super) fn map(&self) -> Result<(), Error> {
        let status = started()?;
        self.map_for(status, status.is_active(), Waits::Bounded)
    }

    /// Maps the area as [`map`](Lazy::map) does, but waits for no other thread that maps memory,
    /// may hold the last of it, or forks: the result is then [`Error::OutOfMemory`]. Nor does it
    /// wait for one that starts atomseq: [`Error::StartingUp`]. For operations that have another
    /// way.
    #[cold]
    pub(super) fn map_at_once(&self) -> Result<(), Error> {
        let status = started_at_once()?;
        self.map_for(status, status.is_active(), Waits::Never)
    }

    /// Does the same for sections that a fence must abort.
    #[cold]
    pub(crate) fn map_fenced_at_once(&self) -> Result<(), Error> {
        let status = started_at_once()?;
        self.map_for(status, status.gates_active(), Waits::Never)
    }

    fn map_for(&self, status: &Status, sections: bool, waits: Waits) -> Result<(), Error> {
        let cpus = status.features().cpus;
        let rseq_offset = match sections {
            true => platform::rseq_offset() as usize,
            false => 0,
        };
        let (allocate, free): (Allocate, Free) = match waits {
            Waits::Bounded => (memory::allocate, memory::free),
            Waits::Never => (memory::allocate_at_once, memory::free_at_once),
        };
        let mut refused = Error::OutOfMemory;
        let find = || self.base();
        let grow = || {
            let map = || {
                let mapped = map(self.stride, cpus, sections, allocate);
                mapped.map_err(|error| refused = error).ok()
            };
            // SAFETY: `map` returned the address, and no other thread has seen it.
            self.map_once(map, |base| unsafe { unmap(base, self.stride, cpus, free) })
        };
        let mapped = match waits {
            Waits::Bounded => GROWTH.find_or_grow(find, grow),
            Waits::Never => GROWTH.find_or_grow_at_once(find, grow),
        };
        mapped.ok_or(refused)?;
        self.publish(rseq_offset);
        Ok(())
    }

    /// Returns the number of CPUs that have a slot once the area is mapped; 0 during start-up.
    pub(super) fn cpus(&self) -> usize {
        started().map_or(0, |status| status.features().cpus)
    }

    /// Returns the number of CPUs that have a slot now: 0 until the area is mapped. Does not start
    /// atomseq.
    pub(crate) fn mapped_cpus(&self) -> usize {
        self.base().map_or(0, |_| platform::cpu_slots())
    }

    /// Returns the word at a byte offset from a slot or a guard; `None` if nothing is mapped.
    ///
    /// # Panics
    ///
    /// If there is no such slot or word.
    pub(crate) fn word(&self, index: isize, offset: usize) -> Option<&AtomicUsize> {
        let base = self.base()?;
        let cpus = platform::cpu_slots() as isize;
        assert!(index >= -(GUARDS as isize) && index < cpus);
        assert!(offset.is_multiple_of(8) && offset >= WORDS && offset < self.stride);
        // SAFETY: the assertions keep the address within a slot or a guard of the mapping, behind
        // the gate. It is aligned to 8 bytes, was zero-initialized, and is valid as long as `self`.
        Some(unsafe {
            AtomicUsize::from_ptr(slot(base, self.stride, index).add(offset).as_ptr().cast())
        })
    }
}

impl Drop for Lazy {
    fn drop(&mut self) {
        if let Some(base) = self.base() {
            // SAFETY: `map` returned this address for this stride and the number of CPUs, which
            // start-up has decided. No borrow of the area is left.
            unsafe { unmap(base, self.stride, platform::cpu_slots(), memory::free) }
        }
    }
}

/// Calls `work` while another thread has the turn to map areas, which a further one may take over.
#[cfg(test)]
pub(crate) fn while_another_thread_maps<R>(work: impl FnOnce() -> R) -> R {
    use std::sync::atomic::AtomicBool;

    /// Also where `work` panics.
    struct Done<'a>(&'a AtomicBool);
    impl Drop for Done<'_> {
        fn drop(&mut self) {
            self.0.store(true, Ordering::Release);
        }
    }

    let [has_begun, is_done] = [const { AtomicBool::new(false) }; 2];
    let await_flag = |flag: &AtomicBool| {
        while !flag.load(Ordering::Acquire) {
            std::thread::yield_now();
        }
    };
    let grow = || {
        has_begun.store(true, Ordering::Release);
        await_flag(&is_done);
        Some(())
    };
    std::thread::scope(|scope| {
        scope.spawn(|| GROWTH.find_or_grow(|| None, grow));
        let _done = Done(&is_done);
        await_flag(&has_begun);
        work()
    })
}

#[cfg(test)]
mod tests {
    use super::while_another_thread_maps;
    use crate::percpu::{Counter, Gauge};

    /// Returns whether the additions went elsewhere.
    fn is_counted_without_an_area() -> bool {
        let (counter, gauge) = (Counter::new(), Gauge::new());
        let is_mapped = while_another_thread_maps(|| {
            counter.add(5);
            gauge.sub(7);
            assert_eq!((counter.sum(), gauge.value()), (5, -7));
            counter.increment();
            counter.per_cpu().any(|(_, added)| added > 0)
        });
        counter.prepare().unwrap();
        counter.increment();
        assert_eq!(counter.sum(), 7);
        !is_mapped
    }

    /// An addition has another word to count in, so it waits for no thread that maps memory.
    #[test]
    fn an_addition_does_not_wait_for_memory() {
        // Other tests may take the turn over, but not each time.
        if crate::status().is_active() {
            assert!((0..20).any(|_| is_counted_without_an_area()));
        }
    }
}
