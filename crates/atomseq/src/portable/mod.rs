//! What stands in for `linux/` elsewhere, and on Linux with `--cfg atomseq_portable`: the same
//! names, no sections, and gates that are closed for good, so that every operation of every
//! structure takes its slow path.

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
use core::sync::atomic::{AtomicU32, Ordering};

/// 0 not written yet, 1 being written, 2 written.
static STATE: AtomicU32 = AtomicU32::new(0);
static STATUS: Written = Written(UnsafeCell::new(INACTIVE));
struct Written(UnsafeCell<Status>);
// SAFETY: written by the one thread that moved STATE from 0 to 1, before the Release that makes it
// readable.
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

/// Says that nothing is active.
pub fn start() -> &'static Status {
    // Acquire: pairs with the Release in `write`.
    while STATE.load(Ordering::Acquire) != 2 {
        write();
        core::hint::spin_loop();
    }
    // SAFETY: written, and never again.
    unsafe { &*STATUS.0.get() }
}

#[cold]
fn write() {
    // A handler on the writing thread would wait for it.
    let _quiet = SignalsBlocked::enter();
    if STATE
        .compare_exchange(0, 1, Ordering::Relaxed, Ordering::Relaxed)
        .is_ok()
    {
        // SAFETY: this thread alone writes, and no one reads before the Release below.
        unsafe { (*STATUS.0.get()).features.cpus = cpu_slots() };
        STATE.store(2, Ordering::Release);
    }
}

/// Forks are not watched.
pub fn generation() -> u32 {
    0
}

/// Threads are not told apart: nobody throws a holder out.
pub fn thread_id() -> u32 {
    1
}

/// The bits of a name.
pub const NAME_BITS: u32 = 52;

/// Nor by names.
pub fn thread_name() -> Option<u64> {
    None
}

/// Nor asked after.
pub fn is_gone(_thread: u32) -> bool {
    false
}

/// As little by name.
pub fn has_ended(_name: u64) -> bool {
    false
}

/// Nobody asks.
pub fn knows_who_has_ended() -> bool {
    false
}

/// There is no registration to make.
pub fn register_this_thread() -> bool {
    false
}

/// No section runs, so there is none to abort.
pub fn membarrier_rseq(_cpu: usize) {}

/// No section runs, so nothing is left to the barrier.
pub fn barrier() {}

/// Waits are ordered by whoever clears what is waited for.
pub const ORDERS_ALL: bool = false;

/// There is no barrier here.
pub fn can_order_all() -> bool {
    false
}

/// As little.
pub fn fence_all() {}

/// No processor is asked here.
pub fn has_double_width() -> bool {
    false
}

/// Never called.
///
/// # Safety
///
/// Nothing is touched.
pub unsafe fn compare_exchange_double(
    _words: *mut u64,
    _expected: (u64, u64),
    _new: (u64, u64),
) -> Result<(), (u64, u64)> {
    unreachable!("there is no double-width compare-and-swap here")
}
