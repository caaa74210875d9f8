//! Forks: a child does not inherit its parent's waiting signals.

use core::sync::atomic::Ordering::Relaxed;

use super::controls;
use super::words::Words;
use crate::platform::{self, Hook, generation};

/// Returns a number that differs in the child of a fork, also of one that calls no atfork handlers
/// (`_Fork`).
pub fn process() -> u32 {
    match controls::is_off(controls::FORK) {
        true => 0,
        false => generation(),
    }
}

/// Registers the atfork handler, once. Atfork handlers of other code run with the mask unchanged,
/// since the threads that they start inherit it. A signal may arrive in a child before
/// `forget_parent` has run, as in a child without atfork handlers. The process number in the
/// thread's words then says that they are the parent's.
pub fn watch() -> Result<(), i32> {
    static HOOK: Hook = forget_parent;
    platform::watch(&HOOK)
}

/// Makes the thread of a child forget the signals that it keeps; the kernel gives a child no
/// pending ones. The signal of a rollforward under way is marked as the parent's already. Returns
/// what deferral has blocked, for the caller to unblock.
///
/// The masks that the thread is inside stay, since their guards exist in the child too. `added`
/// stays set: a handler of other code that forks may return to code that has these signals blocked,
/// and the end of the mask unblocks them there.
fn forget_parent() -> u64 {
    if controls::is_off(controls::FORK) {
        return 0;
    }
    let words = Words::of_this_thread();
    words.forget_parent();
    words.added.load(Relaxed)
}
