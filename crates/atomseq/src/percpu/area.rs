//! The memory of a per-CPU structure.
//!
//! ```text
//!      -2           -1            0            1               n-1
//!   +----+-----+----+-----+----+------+----+------+--    --+----+------+
//!   |gate|     |gate|     |slot| bulk |slot| bulk |  ...   |slot| bulk |
//!   +----+-----+----+-----+----+------+----+------+--    --+----+------+
//!                         ^ base       a slot: 128 bytes, gate u32 first, then 15 words
//! ```
//!
//! A sequence indexes by the `cpu_id` the kernel maintains. A thread without a registration reads
//! -1 or -2 there and lands on a guard, whose gate is closed for good: the test of the gate is the
//! test for "sections are off" as well.

use std::ptr::NonNull;
use std::sync::atomic::{AtomicU32, AtomicUsize, Ordering};

use super::error::Error;
use super::gate::GateGuard;
use super::lock::FOR_GOOD;
use super::memory;
use crate::platform;
use crate::status::{Reason, Status};

/// The size of a slot: two cache lines, for processors fetch them in pairs.
pub(super) const SLOT_BYTES: usize = 128;

/// Where a slot's words begin.
pub(super) const WORDS: usize = 8;

/// How many words a slot has.
pub(super) const WORDS_PER_SLOT: usize = (SLOT_BYTES - WORDS) / 8;

const GUARDS: usize = 2;

/// What this process can use. An error as long as that is not decided: the number of CPUs and the
/// place of a thread's CPU number, which a structure keeps for good, are provisional until then.
pub(crate) fn started() -> Result<&'static Status, Error> {
    let status = platform::start();
    match status.reason() {
        Some(Reason::StartingUp) => Err(Error::StartingUp),
        _ => Ok(status),
    }
}

/// One slot a CPU, zeroed: the memory of one per-CPU structure.
///
/// Sized by the largest CPU number the kernel may ever use, so that no CPU that comes online later
/// is without a slot. Comes from the operating system, never from the global allocator. For
/// structures of your own; [`docs::patterns`](crate::docs::patterns) shows how.
#[derive(Debug)]
pub struct Area {
    base: NonNull<u8>,
    stride: usize,
    rseq_offset: isize,
    cpus: usize,
    bytes: usize,
}

// SAFETY: an area is plain memory; what is done with it is up to the sequences, which are unsafe.
unsafe impl Send for Area {}
// SAFETY: as above; the gates are atomic.
unsafe impl Sync for Area {}

/// The slots of an area, to be passed to a sequence as its `Slot`.
// A word: what an interrupted sequence goes on with is passed in a register, not spilled
// beforehand.
#[derive(Clone, Copy, Debug)]
pub struct Slots<'a> {
    area: &'a Area,
}

impl Slots<'_> {
    /// Where the area keeps the address of CPU 0's slot.
    #[doc(hidden)]
    pub const BASE: usize = std::mem::offset_of!(Area, base);

    /// Where the area keeps the bytes from one CPU's slot to the next one's.
    #[doc(hidden)]
    pub const STRIDE: usize = std::mem::offset_of!(Area, stride);

    /// The area's address.
    #[doc(hidden)]
    #[inline(always)]
    pub fn area(self) -> *const Area {
        self.area
    }

    /// The address of CPU 0's slot.
    #[doc(hidden)]
    #[inline(always)]
    pub fn base(self) -> *mut u8 {
        self.area.base.as_ptr()
    }

    /// The bytes from one CPU's slot to the next one's.
    #[doc(hidden)]
    #[inline(always)]
    pub fn stride(self) -> usize {
        self.area.stride
    }

    /// Where the thread's `struct rseq` lies, from its thread pointer.
    #[doc(hidden)]
    #[inline(always)]
    pub fn rseq_offset(self) -> isize {
        self.area.rseq_offset
    }
}

impl Area {
    /// The byte offset of the first of a slot's fifteen words; the gate lies before it.
    pub const FIRST_WORD: usize = WORDS;

    /// The byte offset from a slot to its bulk memory.
    pub const BULK: usize = SLOT_BYTES;

    /// A zeroed area, its gates open where [`gates_active`](crate::status::Status::gates_active)
    /// says so, else closed for good. Starts atomseq up.
    ///
    /// Each slot is followed by `bulk_bytes` bytes, zeroed: sequences find them at the offset
    /// [`BULK`](Area::BULK) from the slot, others with [`bulk`](Area::bulk).
    ///
    /// # Errors
    ///
    /// [`Error::TooLarge`], [`Error::OutOfMemory`], [`Error::StartingUp`].
    pub fn try_new(bulk_bytes: usize) -> Result<Area, Error> {
        let status = started()?;
        Area::with_gates(bulk_bytes, status, status.gates_active())
    }

    /// An area whose gates are never closed while sections run: nothing but single words is kept
    /// in it. It is fast even where the kernel's fence cannot be trusted.
    pub(super) fn ungated(bulk_bytes: usize) -> Result<Area, Error> {
        let status = started()?;
        Area::with_gates(bulk_bytes, status, status.is_active())
    }

    /// An area whose gates are closed for good.
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
        // SAFETY: the mapping holds the guards and at least one slot.
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
            // Relaxed: nobody else has the area yet.
            area.gate_at(index).store(FOR_GOOD, Ordering::Relaxed);
        }
        Ok(area)
    }

    /// How many CPUs have a slot: the largest CPU number the kernel may ever use, plus one.
    pub fn cpus(&self) -> usize {
        self.cpus
    }

    /// How many bytes of address space the area takes, the guards' included.
    pub fn bytes(&self) -> usize {
        self.bytes
    }

    /// The slots, for the `Slot` parameter of a sequence's `on_cpu` form.
    #[inline(always)]
    pub fn slots(&self) -> Slots<'_> {
        Slots { area: self }
    }

    /// The bulk memory of a CPU.
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

    /// The same for the guards, whose memory is shared by all.
    pub(super) fn bulk_at(&self, index: isize) -> NonNull<u8> {
        // SAFETY: behind each slot and guard lies its bulk, in the same mapping.
        unsafe { self.slot_at(index).add(SLOT_BYTES) }
    }

    /// A word of a slot or a guard, as an atomic: for values that outsiders may read.
    ///
    /// # Panics
    ///
    /// If there is no such slot or word.
    pub(super) fn word(&self, index: isize, word: usize) -> &AtomicUsize {
        assert!(word < WORDS_PER_SLOT);
        let address = self.slot_at(index).as_ptr().wrapping_add(WORDS + 8 * word);
        // SAFETY: inside a slot, aligned, zero-initialised, and valid as long as `self`.
        unsafe { AtomicUsize::from_ptr(address.cast()) }
    }

    /// A word of a CPU's slot, counted from 0 for the first after the gate, as a value. It may
    /// change at any time: look at it, but do not follow it as a pointer and do not pair it with
    /// another word.
    ///
    /// Wait-free: one acquire load.
    ///
    /// # Panics
    ///
    /// If there is no such CPU, or `word` is not below 15.
    pub fn peek(&self, cpu: usize, word: usize) -> usize {
        assert!(
            cpu < self.cpus,
            "CPU {cpu} has no slot: there are {}",
            self.cpus
        );
        // Acquire: pairs with `commit_release`; to follow a word of a plain commit, hold the gate.
        self.word(cpu as isize, word).load(Ordering::Acquire)
    }

    /// Sets a word of a slot while nobody else has the area; `offset` counts from the gate.
    pub(super) fn set(&self, cpu: usize, offset: usize, value: usize) {
        // Relaxed: whoever gets the area later synchronises with this thread to get it.
        self.word(cpu as isize, (offset - WORDS) / 8)
            .store(value, Ordering::Relaxed);
    }

    pub(super) fn gate_at(&self, index: isize) -> &AtomicU32 {
        // SAFETY: the first word of a slot is its gate, aligned and valid as long as `self`.
        unsafe { AtomicU32::from_ptr(self.slot_at(index).as_ptr().cast()) }
    }

    pub(super) fn slot_at(&self, index: isize) -> NonNull<u8> {
        assert!(index >= -(GUARDS as isize) && index < self.cpus as isize);
        // SAFETY: just checked to be a slot or a guard of the mapping.
        unsafe { self.base.offset(index * self.stride as isize) }
    }

    /// The slow path of an operation on this CPU's slot: registers the thread if that is why it
    /// came here, then does the work under the gate.
    ///
    /// For after an `on_cpu` that returned [`Closed`](crate::sequence::Closed): the work runs the
    /// sequence's `gated` form. What holds for [`GateGuard`] holds for the work; blocks, costs and
    /// may be called like [`close`](Area::close_gate). Addresses that a caller has passed in may
    /// lead to memory that a handler of `SIGSEGV` opens: touch it before, or copy to it afterwards.
    #[cold]
    pub fn on_slow_path<R>(&self, work: impl FnOnce(&GateGuard<'_>) -> R) -> R {
        platform::register_this_thread();
        work(&self.close_here())
    }
}

impl Drop for Area {
    fn drop(&mut self) {
        // SAFETY: the memory began with the guards and had this size; nobody borrows the area,
        // so no thread is in a section on it.
        unsafe { memory::free(self.base.sub(GUARDS * self.stride), self.bytes) }
    }
}
