//! The user-level mask: how its end delivers waiting signals, and how a signal is deferred.
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
    Context, are_signals_blocked, bit, change_mask, kernel_mask, leave_blocked, mask_to_restore,
    pending, queue_to_this_thread, send_to_this_thread,
};

/// Starts a mask: managed signals are deferred on this thread from now on.
#[inline(always)]
pub fn start_mask() {
    enter_mask();
}

/// Ends a mask. The outermost end delivers what was deferred.
#[inline(always)]
pub fn end_mask() {
    leave_mask(unblock);
}

/// Returns whether this thread is inside a mask.
pub fn is_masked() -> bool {
    Words::of_this_thread().depth() > 0
}

/// Unblocks the waiting signals if the mask that has just ended was the outermost one. Called by
/// the end of a mask when signals wait, or when the mask was one that `with_kernel_mask` has left.
/// (A C function does not unwind, so the end of a mask needs no unwinding code.)
///
/// A handler that is installed here may run before `added` is read: that of a signal which is never
/// blocked, or which was not managed when the others were blocked. It finds `added` empty, because
/// `Words::set_aside` sets its contents aside while the handler runs.
///
/// A handler of other code that the kernel calls may use a mask itself. At that mask's end the
/// count is 0, so the handler takes `added` and unblocks the signals. Its return restores the old
/// mask and blocks them again. So this function unblocks them once more, from the copy in `taken`.
///
/// In no other case is this function reached with nothing in `added` and nothing kept: the highest
/// bit of `depth` is set for one of the two only. The case is missed only if one signal arrived
/// right before the store that ended the mask, and the other right after it. That is why handlers
/// that use masks must be installed through this module.
#[cold]
#[inline(never)]
extern "C" fn unblock() {
    let words = Words::of_this_thread();
    if words.end_left_mask() && !words.has_waiting() {
        return;
    }
    // Under a gate all signals stay blocked. Its end unblocks what is left here.
    if words.depth() > 0 || are_signals_blocked() && !controls::is_off(controls::GATES) {
        return;
    }
    // In this order: a delivery between the two loads clears `taken`; a later one may run the
    // handlers of kept signals.
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

/// Defers a signal until the interrupted code continues with its own mask. For a signal that
/// arrives during a rollforward, which has room for one signal only.
pub fn hold_back(signal: c_int, info: &libc::siginfo_t, context: Context) {
    context.set_mask(context.mask() | actions::managed() | bit(signal));
    wait_blocked(signal, info);
    COUNTS.deferrals.add();
}

/// Makes a signal wait until it is unblocked.
///
/// It waits in the kernel, or in this thread's words if the kernel refuses it. It also waits in the
/// thread's words if the kernel would merge it with a pending signal of its number; the delivery of
/// that one then calls the handler for both.
///
/// The kernel does not say whether the pending signal is thread-directed or process-directed.
/// Beside a process-directed one nothing would be merged, but another thread may take that one, and
/// then nothing ends a wait for the kept signal. So a signal that can be queued is always queued.
pub fn wait_blocked(signal: c_int, info: &libc::siginfo_t) {
    if !waits_in_kernel(signal, info, keep::may_merge(signal, info)) {
        keep::keep(signal, info);
    }
}

/// As [`wait_blocked`], but returns `false` for a signal that this thread must keep. `may_merge`:
/// the kernel would merge it with a pending one of its number.
///
/// Where a sandbox refuses `rt_sigpending`, the thread keeps every signal that a pending one could
/// discard or absorb.
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
/// from the same sender. For that, unlike `kill`, the kernel returns an error when the queue is
/// full.
fn queue_as_of_tgkill(signal: c_int, info: &libc::siginfo_t) -> Result<(), c_int> {
    let mut sent = *info;
    sent.si_code = libc::SI_TKILL;
    queue_with_record(signal, &sent)
}

/// Queues a signal's number after the kernel has refused its record with `errno`. Returns `false`
/// for a signal that this thread must keep: if the kernel does not accept the number either, or if
/// there is no room for its record and `keeps_if_full` returns `true`.
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

/// Queues a signal to this thread, which has it blocked. Returns `false` if the kernel accepts it
/// in no form.
///
/// | the kernel refuses | what is queued instead |
/// |---|---|
/// | the record, because the queue is full (real-time signals only) | the number; the record waits in this thread's words |
/// | `rt_tgsigqueueinfo` as such | `tgkill`; the record waits, too |
pub fn queue_again(signal: c_int, info: &libc::siginfo_t) -> bool {
    match queue_with_record(signal, info) {
        Ok(()) => true,
        Err(errno) => queue_number(signal, info, errno),
    }
}

/// Queues a signal with its record; `Err` holds the error number of a refusal.
fn queue_with_record(signal: c_int, info: &libc::siginfo_t) -> Result<(), c_int> {
    queue_unless(0, signal, info).map(|_| ())
}

/// As [`queue_with_record`], unless a signal in `set` is pending: then queues nothing and returns
/// `false`. Queues nothing either, but returns `true`, if a pending signal supersedes this one.
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

/// Queues a signal's number after the kernel has refused its record with `errno`, and saves the
/// record in this thread's words. Returns whether the kernel has accepted the number.
///
/// The kernel represents the number by a bit, which it clears when it delivers the last queued
/// signal of that number. So this signal may never be delivered on its own. The delivery of that
/// last one then finds the record ([`Words::take_saved`]).
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

/// Queues a signal again that waits in the kernel without its record: the delivery of another one
/// of its number may have cleared the kernel's bit.
///
/// If the bit is still set, nothing is lost or doubled, with one exception: room became free after
/// the kernel had refused the record and before it was given the number. Then both may be
/// delivered.
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

/// Queues a signal to this thread as one of `kill`, without a sender. A full queue does not refuse
/// it: the kernel sets the bit of the number.
fn queue_bare(signal: c_int) -> Result<(), c_int> {
    // SAFETY: plain old data.
    let mut bare: libc::siginfo_t = unsafe { core::mem::zeroed() };
    bare.si_signo = signal;
    bare.si_code = libc::SI_USER;
    queue_to_this_thread(signal, &bare, 0).map(|_| ())
}

/// Implements [`crate::signal::with_kernel_mask`].
pub fn with_kernel_mask<R>(f: impl FnOnce() -> R) -> R {
    struct Restore {
        masks: Masks,
        blocked: u64,
    }
    impl Drop for Restore {
        fn drop(&mut self) {
            let words = Words::of_this_thread();
            words.restore_masks(&self.masks);
            // A call in `f` such as `sigwait` may have taken a signal without a delivery.
            words.forget_taken();
            if are_signals_blocked() {
                // A gate that was closed in `f`, or before, is still held. Its end unblocks these.
                words.add(self.blocked);
                return;
            }
            change_mask(libc::SIG_UNBLOCK, self.blocked);
            // `f` may have dropped the guards that these signals waited for.
            if words.has_waiting() {
                unblock();
            }
        }
    }
    let managed = actions::managed();
    let before = change_mask(libc::SIG_BLOCK, managed);
    // Under a gate every signal is blocked already. If `f` opens the gate, its end must leave the
    // managed signals blocked.
    let is_aware = !controls::is_off(controls::GATES);
    let to_restore = mask_to_restore().filter(|_| is_aware);
    let blocked = managed & !to_restore.unwrap_or(before);
    if to_restore.is_some() {
        leave_blocked(blocked);
    }
    keep::queue_kept();
    let restore = Restore {
        masks: Words::of_this_thread().leave_masks(),
        blocked,
    };
    let result = f();
    drop(restore);
    result
}

/// Returns the kernel's mask, or under a gate the mask that its end restores, without the signals
/// that deferral has blocked.
fn own_mask_word() -> u64 {
    // The mask first: a signal that is deferred between the two loads is then in `added` only.
    let mask = mask_to_restore().unwrap_or_else(kernel_mask);
    mask & !Words::of_this_thread().added.load(Relaxed)
}

/// Implements [`crate::signal::own_mask`].
pub fn own_mask() -> libc::sigset_t {
    let mut set = core::mem::MaybeUninit::uninit();
    // SAFETY: `sigemptyset` initialises the set, which starts with the kernel's 8 bytes.
    unsafe {
        libc::sigemptyset(set.as_mut_ptr());
        set.as_mut_ptr().cast::<u64>().write(own_mask_word());
        set.assume_init()
    }
}

/// Implements [`crate::signal::inheriting`].
pub fn inheriting<R>(f: impl FnOnce() -> R) -> impl FnOnce() -> R {
    let mask = own_mask_word();
    // What deferral has blocked, or may block before the thread starts. Some of it may no longer be
    // managed by then.
    let deferred = actions::managed() | Words::of_this_thread().added.load(Relaxed);
    // A thread that is started under the gate inherits every signal as blocked.
    let by_gate = if are_signals_blocked() { !mask } else { 0 };
    let added = deferred | by_gate;
    move || {
        change_mask(libc::SIG_UNBLOCK, (added | actions::managed()) & !mask);
        f()
    }
}
