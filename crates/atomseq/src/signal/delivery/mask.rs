//! The user-level mask: how its end finds what waits, and how a signal is deferred.
//!
//! ```text
//!             start        signal: blocked, queued again       end: unblocked, delivered
//! thread  ──────┬──────────────────┬─────────────────────────────┬───────────
//! depth   0     1                  1 + waiting                   0
//! added   0     0                  what was not blocked yet      0
//! ```

use core::ffi::c_int;
use core::sync::atomic::Ordering::Relaxed;

use super::super::statistics::COUNTS;
use super::words::{Masks, Words};
use super::{actions, controls, keep};
use crate::arch::{enter_mask, leave_mask};
use crate::platform::{
    Context, bit, change_mask, is_quiet, kernel_mask, queue_to_this_thread, send_to_this_thread,
};

/// From now on, managed signals are put off on this thread.
#[inline(always)]
pub fn start_mask() {
    enter_mask();
}

/// The opposite; the outermost end delivers what was put off.
#[inline(always)]
pub fn end_mask() {
    leave_mask(unblock);
}

/// Is this thread inside a mask?
pub fn is_masked() -> bool {
    Words::of_this_thread().depth() > 0
}

/// After the end of a mask, when signals wait, or when that was one which `with_kernel_mask` has left: unblocks them if it
/// was the outermost one. (C: it does not unwind, and the end of a mask needs no code for that.)
///
/// A handler that is installed here may run before `added` is read: of a signal that is never
/// blocked, or that was not managed when the others were blocked. It finds `added` empty, which is
/// set aside while it runs (`Words::set_aside`).
///
/// A handler of someone else's that the kernel calls may have a mask itself and, at the end of
/// that, take `added`: it found the count at 0. It has unblocked the signals only until it returns,
/// so this does it again, as `taken` says.
/// Nothing else comes to this place with nothing in `added` and nothing kept: the highest bit of
/// `depth` is set for one of the two only. (This is reached all the same, unless one signal arrived
/// right before the store that ended the mask, and the other right after it. Hence the rule that
/// handlers with masks are to be installed through this module.)
#[cold]
#[inline(never)]
extern "C" fn unblock() {
    let words = Words::of_this_thread();
    if words.end_left_mask() && !words.has_waiting() {
        return;
    }
    // Where all signals are blocked, they stay so; the end of that sees to what is left here.
    if words.depth() > 0 || is_quiet() && !controls::is_off(controls::GATES) {
        return;
    }
    words.clear_waiting();
    let mut added = words.added.swap(0, Relaxed);
    let has_kept = words.has_kept();
    if added != 0 {
        words.taken.store(added, Relaxed);
    } else if !has_kept {
        added = words.taken.load(Relaxed);
    }
    if controls::is_off(controls::UNBLOCKING) {
        return;
    }
    match has_kept {
        true => keep::end_in(kernel_mask() & !added),
        false => _ = change_mask(libc::SIG_UNBLOCK, added),
    }
}

/// Defers a signal until the mask ends.
pub fn defer(signal: c_int, info: &libc::siginfo_t, context: Context) {
    let words = Words::of_this_thread();
    let mask = context.mask();
    let missing = (actions::managed() | bit(signal)) & !mask;
    words.add(missing);
    context.set_mask(mask | missing);
    let is_kept = keep::is_kept(signal) && !controls::is_off(controls::KEEPING);
    match is_kept {
        true => keep::keep(signal, info),
        false => wait_blocked(signal, info),
    }
    COUNTS.deferrals.add();
}

/// Defers a signal until the code that it interrupted goes on with another mask: during a rollforward there is room for
/// one signal only.
pub fn hold_back(signal: c_int, info: &libc::siginfo_t, context: Context) {
    context.set_mask(context.mask() | actions::managed() | bit(signal));
    wait_blocked(signal, info);
    COUNTS.deferrals.add();
}

/// Lets a signal wait until it is unblocked: in the kernel, or in this thread's words if the kernel refuses it.
pub fn wait_blocked(signal: c_int, info: &libc::siginfo_t) {
    if !queue_again(signal, info) && !controls::is_off(controls::SENDING) {
        keep::keep(signal, info);
    }
}

/// Queues a signal to this thread, which has it blocked. Returns `false` if the kernel takes it in no way.
///
/// | the kernel refuses | what it is given instead |
/// |---|---|
/// | for want of room (real-time signals only) | the number; the record waits in this thread's words |
/// | `rt_tgsigqueueinfo` as such | `tgkill`; the record waits, too |
pub fn queue_again(signal: c_int, info: &libc::siginfo_t) -> bool {
    let is_checked = !controls::is_off(controls::KEEPING);
    if is_checked && keep::is_superseded(signal) {
        return true;
    }
    let Err(errno) = queue_to_this_thread(signal, info) else {
        return true;
    };
    if errno != libc::EAGAIN {
        COUNTS.refused.add();
    }
    if controls::is_off(controls::SENDING) && errno != libc::EAGAIN {
        return false;
    }
    let words = Words::of_this_thread();
    let is_saved = !controls::is_off(controls::SAVING) && words.save(signal, info);
    // SAFETY: plain old data.
    let mut bare: libc::siginfo_t = unsafe { core::mem::zeroed() };
    bare.si_signo = signal;
    bare.si_code = libc::SI_USER;
    // Not refused for want of room: a signal that says it is from `kill` is noted without a record.
    let is_queued =
        queue_to_this_thread(signal, &bare).is_ok() || send_to_this_thread(signal).is_ok();
    if is_queued && !is_saved {
        COUNTS.lost_information.add();
    }
    if !is_queued && is_saved {
        words.saved.clear();
    }
    is_queued
}

/// Runs `f` with the managed signals blocked in the kernel, and outside of any mask.
pub fn with_kernel_mask<R>(f: impl FnOnce() -> R) -> R {
    struct Restore {
        masks: Masks,
        blocked: u64,
    }
    impl Drop for Restore {
        fn drop(&mut self) {
            let words = Words::of_this_thread();
            words.restore_masks(&self.masks);
            if is_quiet() {
                // `f` has begun to hold a gate that it returns: unblocked when that ends.
                words.add(self.blocked);
                return;
            }
            change_mask(libc::SIG_UNBLOCK, self.blocked);
            // The guards that signals waited for may have been dropped meanwhile.
            if words.has_waiting() {
                unblock();
            }
        }
    }
    let managed = actions::managed();
    let before = change_mask(libc::SIG_BLOCK, managed);
    keep::queue_kept();
    let restore = Restore {
        masks: Words::of_this_thread().leave_masks(),
        blocked: managed & !before,
    };
    let result = f();
    drop(restore);
    result
}

/// The kernel's mask without what deferral has added to it.
fn own_mask_word() -> u64 {
    // The mask first: a signal that is put off in between would be in `added` only.
    let mask = kernel_mask();
    mask & !Words::of_this_thread().added.load(Relaxed)
}

/// This thread's signal mask as the program has set it: without what deferral has added.
///
/// For `posix_spawnattr_setsigmask` and the like, which give a mask to others. Async-signal-safe; one system call.
pub fn own_mask() -> libc::sigset_t {
    let mut set = core::mem::MaybeUninit::uninit();
    // SAFETY: `sigemptyset` initialises the set, which starts with the kernel's 8 bytes.
    unsafe {
        libc::sigemptyset(set.as_mut_ptr());
        set.as_mut_ptr().cast::<u64>().write(own_mask_word());
        set.assume_init()
    }
}

/// Makes of a new thread's function one that first takes off what deferral has added to the mask it inherits.
pub fn inheriting<R>(f: impl FnOnce() -> R) -> impl FnOnce() -> R {
    let mask = own_mask_word();
    move || {
        change_mask(libc::SIG_UNBLOCK, actions::managed() & !mask);
        f()
    }
}
