//! The replacement for `linux/` on other systems, and on Linux with `--cfg atomseq_portable` or
//! under Miri. It has the same names, but no sections, and permanently closed gates. Every
//! operation of every structure therefore takes its slow path.
//!
//! Under Miri it calls only what Miri implements: `mmap`, `munmap`, `sysconf`, `clock_gettime`,
//! `write`, and the standard library.

mod cpus;
mod memory;
mod on_cpu;
mod signals;
mod thread_storage;
mod waiting;

pub use cpus::{cpu_slots, current_cpu};
pub use memory::{discard, map, page_size, unmap};
pub use on_cpu::rseq_offset;
pub use signals::SignalsBlocked;
#[cfg(unix)]
pub use signals::masks;
pub use waiting::{wait, wait_at_most, wait_briefly, wake_all, wake_many, wake_one};

use crate::status::{Features, Reason, Status};
use core::cell::UnsafeCell;
use core::sync::atomic::{AtomicU32, AtomicUsize, Ordering};

/// 0: not yet written; 1: being written; 2: written.
static STATE: AtomicU32 = AtomicU32::new(0);
static STATUS: Written = Written(UnsafeCell::new(INACTIVE));
struct Written(UnsafeCell<Status>);
// SAFETY: only the thread that moved STATE from 0 to 1 writes, before its Release store of 2.
// Readers first load 2 with Acquire.
unsafe impl Sync for Written {}

const INACTIVE: Status = Status {
    sections: false,
    gates: false,
    registrant: None,
    reason: Some(Reason::Portable),
    features: Features {
        rseq_size: 0,
        rseq_alignment: 32,
        node_id: false,
        mm_cid: false,
        slice_ctrl: false,
        membarrier_rseq: false,
        cpus: 1,
        kernel: None,
    },
};

/// Returns a status in which nothing is active.
pub fn start() -> &'static Status {
    // Acquire: pairs with the Release in `write`.
    while STATE.load(Ordering::Acquire) != 2 {
        write();
        core::hint::spin_loop();
    }
    // SAFETY: STATE is 2, so the value is written and never changes again.
    unsafe { &*STATUS.0.get() }
}

/// Does the same: no thread waits for more than a few instructions of another one.
pub fn start_at_once() -> &'static Status {
    start()
}

#[cold]
fn write() {
    // A signal handler on the writing thread would otherwise wait for it indefinitely.
    let _quiet = SignalsBlocked::enter();
    if STATE
        .compare_exchange(0, 1, Ordering::Relaxed, Ordering::Relaxed)
        .is_ok()
    {
        // SAFETY: this thread won the exchange, so it alone writes, and no thread reads before the
        // Release store below.
        unsafe { (*STATUS.0.get()).features.cpus = cpu_slots() };
        STATE.store(2, Ordering::Release);
    }
}

/// Returns 0: forks are not detected.
pub fn generation() -> u32 {
    0
}

/// Returns 1: threads are not distinguished, since no holder is ever revoked.
pub fn thread_id() -> u32 {
    1
}

/// The number of bits of a name.
pub const NAME_BITS: u32 = 52;

/// Returns `None`: threads have no names.
pub fn thread_name() -> Option<u64> {
    None
}

/// Returns `false`: it cannot be determined.
pub fn is_gone(_thread: u32) -> bool {
    false
}

/// Returns `false`: it cannot be determined.
pub fn has_ended(_name: u64) -> bool {
    false
}

/// Returns `false`: exited threads are not reported.
pub fn knows_who_has_ended() -> bool {
    false
}

/// Returns `false`: there is no registration.
pub fn register_this_thread() -> bool {
    false
}

/// Does nothing: no section runs, so there is none to abort.
pub fn membarrier_rseq(_cpu: usize) {}

/// Does nothing: nothing relies on the barrier where no section runs.
pub fn barrier() {}

/// Whether waits are ordered by [`barrier`]: here the thread that clears the awaited word orders
/// them.
pub const ORDERS_ALL: bool = false;

/// Returns `false`: there is no barrier here.
pub fn can_order_all() -> bool {
    false
}

/// Does nothing: no section runs.
pub fn fence_all() {}

/// Returns `false`: the processor is not checked.
pub fn has_double_width() -> bool {
    false
}

/// Does nothing: it is a hint.
pub fn prefetch(_address: usize) {}

/// Does nothing: it is a hint.
pub fn prefetch_for_store(_address: usize) {}

/// Replaces a word if it is as expected. Returns whether it did.
pub fn compare_exchange_here(word: &AtomicUsize, expected: usize, new: usize) -> bool {
    // Relaxed: only this thread accesses the word.
    let (success, failure) = (Ordering::Relaxed, Ordering::Relaxed);
    word.compare_exchange(expected, new, success, failure)
        .is_ok()
}

/// Never called, because [`has_double_width`] returns `false`.
///
/// # Safety
///
/// There is no requirement: it accesses nothing.
pub unsafe fn compare_exchange_double(
    _words: *mut u64,
    _expected: (u64, u64),
    _new: (u64, u64),
) -> Result<(), (u64, u64)> {
    unreachable!("there is no double-width compare-and-swap here")
}
