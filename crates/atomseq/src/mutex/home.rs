//! What happens on the fast path, and what the slow path asks of the machine. Models in `verify/`
//! replace this file with one in which each step of a sequence, the fence and the barrier are steps
//! of the model.

use std::sync::atomic::compiler_fence;

use super::bias::{APART, Bias, FREE, UNSET};
use crate::platform;
use crate::sync::{AtomicU32, AtomicUsize, Ordering};

pub(super) use super::barrier::waiter_barrier;
pub(super) use crate::platform::{
    SignalsBlocked, current_cpu, generation, membarrier_rseq, register_this_thread,
};

/// Where the second word lies; the first is where [`Bias`] begins.
const HELD: usize = std::mem::offset_of!(Bias, held);

crate::sequence! {
    /// Sets the flag if this CPU is its home and it is clear.
    unsafe fn take(flag: Word) -> bool {
        let here = cpu();
        // Acquire: pairs with the Release that published the home.
        let home = load_acquire(flag);
        if here != home { return false }
        // Acquire: pairs with the Release that cleared it.
        let held = load_acquire(flag + HELD);
        if held != 0 { return false }
        commit(flag + HELD, 1);
        true
    }
}

/// For the checkers in `verify/`.
#[cfg(feature = "unstable-internals")]
pub(super) const SEQUENCES: &[&crate::sequence::model::Program] = &[&take::MODEL];

impl Bias {
    #[allow(
        clippy::declare_interior_mutable_const,
        reason = "the value that new ones begin with, and nothing else"
    )]
    pub const CLEAR: Bias = Bias {
        home: AtomicUsize::new(UNSET),
        apart: [0; APART],
        held: AtomicUsize::new(FREE),
        ended: AtomicU32::new(0),
    };
}

/// Sets the flag if this CPU is its home and it is clear; otherwise, or if this thread can run no
/// section, false.
#[inline(always)]
pub(super) fn take_at_home(flag: &Bias) -> bool {
    // SAFETY: the two words are the flag's. A home that is this CPU's number was published by
    // whoever found at start-up that sections can be fenced; every other value, which includes what
    // `cpu` reads as on a thread that is not registered, leads out.
    unsafe { take::on_cpu(std::ptr::from_ref(flag) as usize) == Ok(true) }
}

/// Clears a flag: makes it `free` in one of its two ways. [`waiter_barrier`], called by whoever
/// wants to be seen by what the caller does next, stands for a barrier here.
#[inline(always)]
pub(super) fn clear(flag: &Bias, free: usize) {
    if platform::ORDERS_ALL {
        // Release: pairs with the Acquire of whoever sets it next.
        flag.held.store(free, Ordering::Release);
        // The processor may make the next load earlier, the compiler may not.
        compiler_fence(Ordering::SeqCst);
    } else {
        // SeqCst: pairs with the fence in `barrier`.
        flag.held.swap(free, Ordering::SeqCst);
    }
}

/// Can sections be fenced? Decided at start-up, which this call makes if nobody has.
pub(super) fn can_be_fenced() -> bool {
    platform::start().gates_active()
}
