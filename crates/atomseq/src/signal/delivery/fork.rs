//! Forks: a child has no waiting signals of its parent's.

use core::sync::atomic::Ordering::Relaxed;

use super::controls;
use super::words::Words;
use crate::platform::{self, Hook, generation};

/// Differs in the child of a fork, also of one that calls no handlers (`_Fork`).
pub fn process() -> u32 {
    match controls::is_off(controls::FORK) {
        true => 0,
        false => generation(),
    }
}

/// From now on, forks are watched. Others' atfork handlers run with the mask as it is: the threads
/// that they start inherit it. What a signal in a child finds before `forget_parent` has run is
/// what it finds in a child that no atfork handlers are called for: the thread's words say whose
/// they are.
pub fn watch() -> Result<(), i32> {
    static HOOK: Hook = forget_parent;
    platform::watch(&HOOK)
}

/// The kernel gives a child no waiting signals, and the thread forgets those that it keeps; the
/// signal that a rollforward under way is for is marked as the parent's. So what deferral has
/// blocked is unblocked. The masks that the thread is inside stay: their guards are here too. What
/// was unblocked stays noted: a handler of others that forks may return to code that has it
/// blocked, and the end of the mask unblocks it there.
fn forget_parent() -> u64 {
    if controls::is_off(controls::FORK) {
        return 0;
    }
    let words = Words::of_this_thread();
    words.forget_parent();
    words.added.load(Relaxed)
}
