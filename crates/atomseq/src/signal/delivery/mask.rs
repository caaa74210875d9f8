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
use super::words::{Masks, Waiting, Words};
use super::{actions, controls, keep};
use crate::arch::{enter_mask, leave_mask};
use crate::platform::{
    Context, are_signals_blocked, bit, change_mask, kernel_mask, pending, queue_to_this_thread,
    send_to_this_thread,
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

/// After the end of a mask, when signals wait, or when that was one which `with_kernel_mask` has
/// left: unblocks them if it was the outermost one. (C: it does not unwind, and the end of a mask
/// needs no code for that.)
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
    if words.depth() > 0 || are_signals_blocked() && !controls::is_off(controls::GATES) {
        return;
    }
    // In this order. A delivery between the two loads forgets what an earlier end has taken; one
    // that comes later may run what is kept.
    let is_for_kept = words.added.load(Relaxed) == 0 && words.has_kept();
    words.clear_waiting();
    let mut added = words.added.swap(0, Relaxed);
    let has_kept = words.has_kept();
    if added != 0 {
        words.taken.store(added, Relaxed);
    } else if !has_kept && !is_for_kept {
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
    let is_kept = keep::is_kept(signal, info) && !controls::is_off(controls::KEEPING);
    let waits_in_kernel = || match queue_with_record(signal, info) {
        Ok(()) => true,
        // The mask's end looks for what is kept.
        Err(errno) => queue_number_or_keep(signal, info, errno, |_| true),
    };
    if is_kept || !waits_in_kernel() {
        keep::keep(signal, info);
    }
    COUNTS.deferrals.add();
}

/// Defers a signal until the code that it interrupted goes on with another mask: during a
/// rollforward there is room for one signal only.
pub fn hold_back(signal: c_int, info: &libc::siginfo_t, context: Context) {
    context.set_mask(context.mask() | actions::managed() | bit(signal));
    wait_blocked(signal, info);
    COUNTS.deferrals.add();
}

/// Lets a signal wait until it is unblocked: in the kernel, or in this thread's words if the kernel
/// refuses it. Also there if queueing it would lose it, and one of its number is pending: the
/// delivery of that one then calls the handler for both.
///
/// Which one is pending, the thread's or one of the process, the kernel does not say. Beside one of
/// the process nothing would be lost, but another thread may take that, and then nothing ends a
/// wait for what is kept. So whatever can be queued is.
pub fn wait_blocked(signal: c_int, info: &libc::siginfo_t) {
    if !waits_in_kernel(signal, info, keep::may_merge(signal, info)) {
        keep::keep(signal, info);
    }
}

/// As [`wait_blocked`], but returns `false` for what this thread has to keep. `may_merge`: the
/// kernel would lose it beside a pending one of its number.
///
/// Where a sandbox does not tell what is pending, the thread keeps whatever a pending signal could
/// be in the way of.
pub fn waits_in_kernel(signal: c_int, info: &libc::siginfo_t, may_merge: bool) -> bool {
    let is_in_danger = may_merge && keep::has_place(signal);
    let is_kept_in_doubt = is_in_danger || keep::superseding(signal) != 0;
    if is_kept_in_doubt && !controls::is_off(controls::KEEPING) && pending().is_none() {
        return false;
    }
    let unless = if is_in_danger { bit(signal) } else { 0 };
    match queue_unless(unless, signal, info) {
        Ok(true) => true,
        Ok(false) => keep::is_real_time(signal) && queue_as_of_tgkill(signal, info).is_ok(),
        Err(errno) => queue_number_or_keep(signal, info, errno, |signal| {
            pending().is_none_or(|pending| pending & bit(signal) != 0)
        }),
    }
}

/// Queues a real-time signal of `kill` to this thread, which has it blocked, as one of `tgkill`
/// from the same sender: of that, the kernel says when there is no room.
fn queue_as_of_tgkill(signal: c_int, info: &libc::siginfo_t) -> Result<(), c_int> {
    let mut sent = *info;
    sent.si_code = libc::SI_TKILL;
    queue_with_record(signal, &sent)
}

/// After the kernel has refused a signal's record with `errno`: queues its number. Returns `false`
/// for what this thread has to keep: if the kernel takes it in no way; and if there is no room for
/// its record and `keeps_if_full` says so.
fn queue_number_or_keep(
    signal: c_int,
    info: &libc::siginfo_t,
    errno: c_int,
    keeps_if_full: impl FnOnce(c_int) -> bool,
) -> bool {
    let is_kept = errno == libc::EAGAIN
        && !controls::is_off(controls::SAVING)
        && keep::has_place(signal)
        && keeps_if_full(signal);
    !is_kept && (queue_number(signal, info, errno) || controls::is_off(controls::SENDING))
}

/// Queues a signal to this thread, which has it blocked. Returns `false` if the kernel takes it in
/// no way.
///
/// | the kernel refuses | what it is given instead |
/// |---|---|
/// | for want of room (real-time signals only) | the number; the record waits in this thread's words |
/// | `rt_tgsigqueueinfo` as such | `tgkill`; the record waits, too |
pub fn queue_again(signal: c_int, info: &libc::siginfo_t) -> bool {
    match queue_with_record(signal, info) {
        Ok(()) => true,
        Err(errno) => queue_number(signal, info, errno),
    }
}

/// As [`queue_again`], unless the kernel does not take the record; `Err` holds an error number.
fn queue_with_record(signal: c_int, info: &libc::siginfo_t) -> Result<(), c_int> {
    queue_unless(0, signal, info).map(|_| ())
}

/// As [`queue_with_record`], unless one of a set of signals is pending: then queues nothing, and
/// returns `false`.
fn queue_unless(set: u64, signal: c_int, info: &libc::siginfo_t) -> Result<bool, c_int> {
    let superseding = match controls::is_off(controls::KEEPING) {
        true => 0,
        false => keep::superseding(signal),
    };
    match queue_to_this_thread(signal, info, set | superseding) {
        Ok(found) => Ok(found & set == 0),
        Err(errno) => {
            if errno != libc::EAGAIN {
                COUNTS.refused.add();
            }
            Err(errno)
        }
    }
}

/// As [`queue_again`], after the kernel has refused the record with `errno`.
///
/// The kernel notes the number in a bit, which it clears when it delivers the last queued signal of
/// that number. So this one may never come by itself; then the delivery of that last one finds its
/// record ([`Words::take_saved`]).
fn queue_number(signal: c_int, info: &libc::siginfo_t, errno: c_int) -> bool {
    if controls::is_off(controls::SENDING) && errno != libc::EAGAIN {
        return false;
    }
    let words = Words::of_this_thread();
    let is_another_saved = words.is_saved(signal);
    let is_saved = !controls::is_off(controls::SAVING) && words.save(signal, info);
    let mut is_queued = queue_bare(signal).is_ok();
    if !is_queued {
        if is_saved {
            words.saved.expect_sent();
        }
        is_queued = send_to_this_thread(signal).is_ok();
    }
    if is_queued && !is_saved {
        match is_another_saved && errno == libc::EAGAIN {
            // Both are the same bit.
            true => COUNTS.lost_signals.add(),
            false => COUNTS.lost_information.add(),
        };
    }
    if !is_queued && is_saved {
        words.saved.clear();
    }
    is_queued
}

/// Queues again a signal that waits in the kernel without its record, if it still does: the
/// delivery of another one of its number may have cleared what the kernel had noted. Nothing is
/// lost or doubled if that has not happened, but where room was made after the kernel had refused
/// the record and before it was given the number: then both may come.
pub fn queue_saved_again(signal: c_int) {
    let words = Words::of_this_thread();
    match words.saved.waiting(signal) {
        // Of standard signals, one is pending.
        Some(Waiting::Sent) if !keep::is_real_time(signal) => _ = send_to_this_thread(signal),
        // It is in the queue by itself.
        Some(Waiting::Sent) | None => {}
        Some(Waiting::Noted(record)) => match queue_with_record(signal, &record) {
            Ok(()) => words.saved.clear(),
            // There is still no room: it is a bit, whether it is set already or not.
            Err(_) => _ = queue_bare(signal),
        },
    }
}

/// Queues a signal to this thread as one of `kill`, without a sender. That is not refused for want
/// of room: the kernel notes the number.
fn queue_bare(signal: c_int) -> Result<(), c_int> {
    // SAFETY: plain old data.
    let mut bare: libc::siginfo_t = unsafe { core::mem::zeroed() };
    bare.si_signo = signal;
    bare.si_code = libc::SI_USER;
    queue_to_this_thread(signal, &bare, 0).map(|_| ())
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
            // What a call in `f` has taken, such as `sigwait`, was no delivery.
            words.forget_taken();
            if are_signals_blocked() {
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
/// For `posix_spawnattr_setsigmask` and the like, which give a mask to others. Async-signal-safe;
/// one system call.
pub fn own_mask() -> libc::sigset_t {
    let mut set = core::mem::MaybeUninit::uninit();
    // SAFETY: `sigemptyset` initialises the set, which starts with the kernel's 8 bytes.
    unsafe {
        libc::sigemptyset(set.as_mut_ptr());
        set.as_mut_ptr().cast::<u64>().write(own_mask_word());
        set.assume_init()
    }
}

/// Makes of a new thread's function one that first takes off what deferral has added to the mask it
/// inherits.
pub fn inheriting<R>(f: impl FnOnce() -> R) -> impl FnOnce() -> R {
    let mask = own_mask_word();
    // What deferral has blocked, or may block before the thread starts. Some may be uninstalled by
    // then.
    let added = actions::managed() | Words::of_this_thread().added.load(Relaxed);
    move || {
        change_mask(libc::SIG_UNBLOCK, (added | actions::managed()) & !mask);
        f()
    }
}
