//! Hand-written assembly: one file for each architecture, with the same names in each.
//!
//! | name | what it is |
//! |---|---|
//! | `SIGNATURE` | the four bytes that the kernel requires before every abort address |
//! | `thread_pointer` | the base of offsets into a thread's static storage |
//! | `thread_block_offset` | the offset of this crate's thread-local block from the thread pointer |
//! | `__thread_address` | the address of the calling thread's copy of a `per_thread!` static |
//! | `syscall` | a system call that does not change `errno` |
//! | `glibc_rseq_symbols` | static builds only: the C library's `__rseq_offset` and `__rseq_size`, or nulls |
//! | `enter_mask`, `leave_mask` | the user-level signal mask's fast path |
//! | `has_double_width`, `compare_exchange_double` | two adjacent words, compared and replaced atomically |
//! | `compare_exchange_here` | a word of this thread, compared and replaced so that no signal handler comes between |
//! | `prefetch`, `prefetch_for_store` | fetch a cache line that this CPU is about to read, or to change |
//! | `signal_entries`, `signal_entry`, `entering`, `is_ending` | the functions that the kernel calls on a signal; where the context is before its delivery is recorded, and when it no longer is |
//! | `CONTEXT_AFTER`, `RETURN_AFTER` | the offsets from an entry's stack of the context and of the return address |
//! | `is_returning`, `CONTEXT_AT_RETURN` | whether the thread is about to make the kernel restore a context, and the offset of that from its stack |
//! | `place` | the caller's program counter, stack pointer and frame pointer |
//! | `roll` | runs the rest of an interrupted sequence's clone with the interrupted registers |
//! | `spawn_kicker` | the self-test's helper: a child that interrupts its parent |
//! | `watch` | the self-test's section, which spins until it is interrupted |
//!
//! The thread-local block is defined here rather than with `thread_local!`, because signal handlers
//! and allocators use it. Initial-exec storage is never allocated on first use, and has no
//! destructor.
//!
//! ```text
//! thread block, 256 bytes, 32-byte aligned
//!  0 ..32   struct rseq; cpu_id (offset 4) starts as -1, so that every section of an
//!           unregistered thread uses a guard slot
//! 32 ..36   registration: 0 not yet, 1 registered, 2 retired, 3 refused
//! 36 ..40   nesting of forks that this thread is in the middle of
//! 40 ..44   nesting of `SignalsBlocked` guards
//! 44 ..48   the generation of the process whose forks wait for their end, or 0
//! 48 ..56   how many masks (signal::mask) this thread is inside; the highest bit: signals wait
//! 56 ..64   the signals that deferral has blocked in the kernel
//! 64 ..232  the rest of signal's words: signal/delivery/words.rs;
//!           200: the delivery whose code runs
//! 232..240  the signal mask that the outermost `SignalsBlocked` found
//! ```

use core::ffi::c_void;

use crate::platform::Entry;

/// Builds a symbol name with this crate's version, because two versions of atomseq may be linked
/// into one program.
macro_rules! name {
    ($text:literal) => {
        concat!(
            "__atomseq_",
            env!("CARGO_PKG_VERSION_MAJOR"),
            "_",
            env!("CARGO_PKG_VERSION_MINOR"),
            "_",
            $text
        )
    };
}

/// Declares such a symbol as one that other files of the same object may name.
macro_rules! hidden {
    ($text:literal) => {
        concat!(
            ".globl ",
            $crate::arch::name!($text),
            "\n.hidden ",
            $crate::arch::name!($text)
        )
    };
}
pub(crate) use {hidden, name};

#[cfg(target_arch = "x86_64")]
mod x86_64;
#[cfg(target_arch = "x86_64")]
pub use x86_64::*;

#[cfg(target_arch = "aarch64")]
mod aarch64;
#[cfg(target_arch = "aarch64")]
pub use aarch64::*;

/// The offset in the thread block of the mask that the outermost `SignalsBlocked` found, after the
/// words of `signal`.
pub const FOUND_MASK: usize = 232;
const _: () = assert!(FOUND_MASK + size_of::<u64>() <= 256);

unsafe extern "C" {
    #[link_name = name!("entry")]
    static ENTRY: u8;
    #[link_name = name!("noted")]
    static NOTED: u8;
    #[link_name = name!("entered")]
    static ENTERED: u8;
    #[link_name = name!("ending")]
    static ENDING: u8;
    #[link_name = name!("ended")]
    static ENDED: u8;
    #[link_name = name!("resumed")]
    static RESUMED: u8;
}

/// The number of entries that `signal_entries` defines.
pub const SIGNAL_ENTRIES: usize = 16;

/// Added to the number that follows the code of each entry.
pub const ENTRY_NUMBERED: u32 = 0x7173_6100;

/// Returns an entry that `signal_entries` defines: a function that the kernel can call on a signal.
pub fn signal_entry(number: usize) -> Entry {
    assert!(number < SIGNAL_ENTRIES);
    let address = (&raw const ENTRY).wrapping_add(16 * number);
    // SAFETY: a function of this type starts there, because the assembly places an entry in every
    // 16 bytes and the number is in range.
    unsafe { core::mem::transmute::<*const u8, Entry>(address) }
}

/// Where an entry keeps its context until its delivery is recorded.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Entering {
    /// In the argument registers.
    InArguments,
    /// In the delivery that the stack pointer points to.
    OnStack,
}

/// Returns whether, and how, this program counter is in an entry before the delivery is recorded.
pub fn entering(pc: usize) -> Option<Entering> {
    let [entry, noted, entered] =
        [&raw const ENTRY, &raw const NOTED, &raw const ENTERED].map(|label| label as usize);
    match pc {
        _ if (entry..noted).contains(&pc) => Some(Entering::InArguments),
        _ if (noted..entered).contains(&pc) => Some(Entering::OnStack),
        _ => None,
    }
}

/// Returns `Some` if this program counter is in an entry at a place where the delivery may no
/// longer be recorded. The context is then in the delivery that the stack pointer points to, or,
/// for `Some(true)`, in the register of the third argument.
pub fn is_ending(pc: usize) -> Option<bool> {
    let [ending, ended, resumed] =
        [&raw const ENDING, &raw const ENDED, &raw const RESUMED].map(|label| label as usize);
    (ending..resumed).contains(&pc).then_some(pc == ended)
}

unsafe extern "C" {
    #[link_name = name!("roll")]
    fn roll_asm(registers: *mut c_void, entry: usize, has_sahf: usize) -> usize;
    #[link_name = name!("roll_abandoned")]
    static ROLL_ABANDONED: u8;
}

/// Returns the address where a thread inside a clone continues, with the clone's stack pointer, to
/// make `roll` return 0.
pub fn roll_abandoned() -> usize {
    &raw const ROLL_ABANDONED as usize
}

/// Runs a clone from `entry` on with the interrupted registers, then saves the registers again,
/// except the stack pointer and the program counter. Returns the place in the clone's end. If a
/// fault's handler has sent the thread to `roll_abandoned`, it returns 0 and saves nothing.
///
/// # Safety
/// The caller must be a signal handler. `registers` must be those that the kernel saved when it
/// interrupted the thread in a sequence, and `entry` must be the same instruction in the sequence's
/// clone.
pub unsafe fn roll(registers: *mut c_void, entry: usize) -> usize {
    #[cfg(target_arch = "x86_64")]
    let has_sahf = x86_64::has_sahf();
    #[cfg(target_arch = "aarch64")]
    let has_sahf = false;
    // SAFETY: the assembly follows the C calling convention. By the contract the clone continues
    // the sequence. It uses no stack, except on AArch64 two words for its end, which comes back.
    unsafe { roll_asm(registers, entry, has_sahf.into()) }
}

/// The words shared by the self-test's section and its helper. `repr(C)`: the assembly uses the
/// offsets below.
#[repr(C)]
pub struct KickWords {
    /// 0: set by the section once it runs.
    pub ready: core::sync::atomic::AtomicU32,
    /// 4: set by the helper once it has interrupted the section.
    pub done: core::sync::atomic::AtomicU32,
    /// 8: the CPU that the section must be on.
    pub cpu: u32,
    /// 12: how to interrupt: 0 by running on the section's CPU, 1 by a fence.
    pub kick: u32,
    /// 16: the result of the helper's system call.
    pub result: core::sync::atomic::AtomicI32,
    /// 20: how often the helper checks `ready` before it gives up.
    pub rounds: u32,
    /// 24: how long it sleeps between two checks.
    pub nap: [i64; 2],
    /// 40: the length in bytes of the set of CPUs that the helper moves to; 0: any CPU.
    pub mask_bytes: usize,
    /// 48: that set.
    pub mask: *const u8,
    /// 56: the scheduling attributes that the helper gives itself.
    pub attributes: *const u8,
    /// 64: set by the helper before it checks `ready` for the first time.
    pub prepared: core::sync::atomic::AtomicU32,
    /// 68: cleared by the kernel once the helper has exited and no longer accesses this memory.
    pub alive: core::sync::atomic::AtomicU32,
}

/// The results of `watch`.
pub mod watched {
    /// The kernel aborted the section.
    pub const ABORTED: u32 = 0;
    /// The helper was done and the section still ran, so the abort is missing.
    pub const MISSED: u32 = 1;
    /// Nothing happened before the rounds were over.
    pub const NOTHING: u32 = 2;
    /// The thread was on another CPU than `KickWords::cpu`.
    pub const MOVED: u32 = 3;
}

unsafe extern "C" {
    #[link_name = name!("spawn_kicker")]
    fn spawn_kicker_asm(words: *const KickWords) -> i64;
    #[link_name = name!("watch")]
    fn watch_asm(rseq: *mut u8, words: *const KickWords, rounds: u64) -> u32;
}

/// Starts the self-test's helper. Returns its process id or a negative error number.
///
/// # Safety
/// All signals must be blocked, the thread must have no rseq section armed, and `words` must live
/// until the child has been waited for.
pub unsafe fn spawn_kicker(words: *const KickWords) -> i64 {
    // SAFETY: the assembly follows the C calling convention in the parent. The child never returns,
    // and by the contract its accesses to `words` are valid.
    unsafe { spawn_kicker_asm(words) }
}

/// Spins inside a section until it is aborted, `done` is set, or `rounds` are over.
///
/// # Safety
/// `rseq` must be this thread's registered `struct rseq`, or a block of that layout that the kernel
/// does not know. `words` must be valid.
pub unsafe fn watch(rseq: *mut u8, words: *const KickWords, rounds: u64) -> u32 {
    // SAFETY: the assembly is a leaf function in the C calling convention, and its abort handler
    // returns to the same caller.
    unsafe { watch_asm(rseq, words, rounds) }
}
