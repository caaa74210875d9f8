//! The sequence on a flag's home CPU, and what the slow path needs of the machine. The models in
//! `verify/` replace this file by one in which each step of the sequence, the fence and the barrier
//! are steps of the model.

use std::sync::atomic::compiler_fence;

use super::bias::{APART, FREE, HomeFlag, UNSET};
use crate::platform;
use crate::sync::{AtomicU32, AtomicUsize, Ordering};

pub(super) use super::mechanism::waiter_barrier;
pub(super) use crate::platform::{
    SignalsBlocked, current_cpu, generation, membarrier_rseq, register_this_thread,
};

/// The offset of the second word. The first is at the start of [`HomeFlag`].
const HELD: usize = std::mem::offset_of!(HomeFlag, held);

crate::sequence! {
    /// Sets the flag if this CPU is its home and it is clear.
    unsafe fn take(flag: Word) -> bool {
        let here = cpu();
        // Acquire: pairs with the Release that published the home.
        let home = load_acquire(flag);
        if here != home { return false }
        // Acquire: pairs with the Release that cleared the flag.
        let held = load_acquire(flag + HELD);
        if held != 0 { return false }
        commit(flag + HELD, 1);
        true
    }
}

/// The sequences of this file, for the checkers in `verify/`.
#[cfg(feature = "unstable-internals")]
pub(super) const SEQUENCES: &[&crate::sequence::model::Program] = &[&take::MODEL];

impl HomeFlag {
    #[allow(
        clippy::declare_interior_mutable_const,
        reason = "the value that new ones begin with, and nothing else"
    )]
    pub const CLEAR: HomeFlag = HomeFlag {
        home: AtomicUsize::new(UNSET),
        apart: [0; APART],
        held: AtomicUsize::new(FREE),
        ended: AtomicU32::new(0),
    };
}

/// Sets the flag if this CPU is its home and it is clear. Returns false otherwise, or if this
/// thread cannot run sections.
#[inline(always)]
pub(super) fn take_at_home(flag: &HomeFlag) -> bool {
    // SAFETY: the sequence accesses the two words of the flag. A home that is a CPU number was
    // published by a thread that had found at start-up that the fence works. No other value of the
    // home equals what `cpu` returns, not even on a thread that is not registered, so the sequence
    // then returns false.
    unsafe { take::on_cpu(std::ptr::from_ref(flag) as usize) == Ok(true) }
}

/// Clears a flag, by storing `free`, one of its two clear values. The caller's next load may be
/// reordered before the store; [`waiter_barrier`], executed by the waiter that it looks for, makes
/// up for that.
#[inline(always)]
pub(super) fn clear(flag: &HomeFlag, free: usize) {
    if platform::ORDERS_ALL {
        // Release: pairs with the Acquire of the thread that sets the flag next.
        flag.held.store(free, Ordering::Release);
        // The processor may execute the next load earlier, but the compiler must not move it.
        compiler_fence(Ordering::SeqCst);
    } else {
        // SeqCst: pairs with the fence in `waiter_barrier`.
        flag.held.swap(free, Ordering::SeqCst);
    }
}

/// Returns whether sections can be fenced. Start-up decides this; this call starts atomseq if
/// necessary.
pub(super) fn can_be_fenced() -> bool {
    platform::start().gates_active()
}
