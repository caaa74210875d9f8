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

use std::ptr::NonNull;
use std::sync::atomic::{AtomicU32, AtomicUsize, Ordering};

use super::error::Error;
use super::gate::GateGuard;
use super::lock::FOR_GOOD;
use super::memory;
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
    let status = platform::start();
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
    base: NonNull<u8>,
    stride: usize,
    rseq_offset: isize,
    cpus: usize,
    bytes: usize,
}

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
    area: &'a Area,
}

impl Slots<'_> {
    /// The offset in [`Area`] of the address of CPU 0's slot.
    #[doc(hidden)]
    pub const BASE: usize = std::mem::offset_of!(Area, base);

    /// The offset in [`Area`] of the distance in bytes between the slots of adjacent CPUs.
    #[doc(hidden)]
    pub const STRIDE: usize = std::mem::offset_of!(Area, stride);

    /// Returns the area's address.
    #[doc(hidden)]
    #[inline(always)]
    pub fn area(self) -> *const Area {
        self.area
    }

    /// Returns the address of CPU 0's slot.
    #[doc(hidden)]
    #[inline(always)]
    pub fn base(self) -> *mut u8 {
        self.area.base.as_ptr()
    }

    /// Returns the distance in bytes between the slots of adjacent CPUs.
    #[doc(hidden)]
    #[inline(always)]
    pub fn stride(self) -> usize {
        self.area.stride
    }

    /// Returns the offset of the thread's `struct rseq` from its thread pointer.
    #[doc(hidden)]
    #[inline(always)]
    pub fn rseq_offset(self) -> isize {
        self.area.rseq_offset
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
        debug_assert_eq!(
            cpus,
            platform::cpu_slots(),
            "the number that sections rely on"
        );
        let stride = bulk_bytes
            .checked_next_multiple_of(SLOT_BYTES)
            .and_then(|bulk| bulk.checked_add(SLOT_BYTES))
            .ok_or(Error::TooLarge)?;
        let bytes = stride
            .checked_mul(cpus + GUARDS)
            .filter(|bytes| *bytes <= isize::MAX as usize)
            .ok_or(Error::TooLarge)?;
        let start = memory::allocate(bytes).ok_or(Error::OutOfMemory)?;
        // SAFETY: the mapping has `bytes` bytes: the guards and at least one slot.
        let base = unsafe { start.add(GUARDS * stride) };
        let area = Area {
            base,
            stride,
            rseq_offset: platform::rseq_offset(),
            cpus,
            bytes,
        };
        let closed = if open {
            -(GUARDS as isize)..0
        } else {
            -(GUARDS as isize)..cpus as isize
        };
        for index in closed {
            // Relaxed: the area is not shared yet; sharing it orders this store.
            area.gate_at(index).store(FOR_GOOD, Ordering::Relaxed);
        }
        Ok(area)
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

    /// Returns the slots, for the `Slot` parameter of a sequence's `on_cpu` form.
    #[inline(always)]
    pub fn slots(&self) -> Slots<'_> {
        Slots { area: self }
    }

    /// Returns the address of a CPU's bulk memory.
    ///
    /// # Panics
    ///
    /// If there is no such CPU.
    pub fn bulk(&self, cpu: usize) -> NonNull<u8> {
        assert!(
            cpu < self.cpus,
            "CPU {cpu} has no slot: there are {}",
            self.cpus
        );
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

    /// Reads a word of a CPU's slot. Word 0 is the first one after the gate.
    ///
    /// The word may change at any time. Do not dereference it as a pointer, and do not combine it
    /// with another word: the two need not belong together.
    ///
    /// Wait-free: one acquire load.
    ///
    /// # Panics
    ///
    /// If there is no such CPU, or if `word` is not below 15.
    pub fn peek(&self, cpu: usize, word: usize) -> usize {
        assert!(
            cpu < self.cpus,
            "CPU {cpu} has no slot: there are {}",
            self.cpus
        );
        // Acquire: pairs with `commit_release` in sequences. What a word of a plain `commit` points
        // to may be read only under the gate.
        self.word(cpu as isize, word).load(Ordering::Acquire)
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
        // SAFETY: a slot starts with its gate, which is aligned, only accessed atomically, and
        // valid as long as `self`.
        unsafe { AtomicU32::from_ptr(self.slot_at(index).as_ptr().cast()) }
    }

    pub(super) fn slot_at(&self, index: isize) -> NonNull<u8> {
        assert!(index >= -(GUARDS as isize) && index < self.cpus as isize);
        // SAFETY: the assertion shows that this is a slot or a guard of the mapping.
        unsafe { self.base.offset(index * self.stride as isize) }
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
        // SAFETY: `memory::allocate` returned this start for `bytes` bytes, and the guards came
        // first. No borrow of the area is left, so no sequence runs on it.
        unsafe { memory::free(self.base.sub(GUARDS * self.stride), self.bytes) }
    }
}
