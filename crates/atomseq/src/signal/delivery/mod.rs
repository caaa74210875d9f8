//! Delivery where sequences are protected: Linux on x86-64 and AArch64.
//!
//! ```text
//! kernel ─> entry ─┬─ fault ──────────────> faults.rs   where the sequence would have had it
//!                  ├─ in another delivery ─> nested.rs  waits until that one has decided
//!                  ├─ inside a mask ──────> mask.rs     blocked; queued again, or kept (keep.rs): delivered when the mask ends
//!                  ├─ in a rolling one ───> rollforward.rs   its clone runs to its end ─┐
//!                  ├─ in a restarting one ─ to its start ───────────────────────────────┤
//!                  └─ elsewhere ────────────────────────────────────────────────────────┴─> run.rs: the handler
//! ```
//!
//! All of it but `install.rs`, `cover.rs`, `lock.rs` and `fork.rs` runs in handlers: no allocation,
//! no lock, no `errno`.

mod actions;
pub mod controls;
mod copies;
mod cover;
mod faults;
mod fork;
mod install;
mod keep;
mod lock;
mod mask;
mod nested;
mod passing;
mod rollforward;
mod run;
mod words;

pub use actions::{Previous, has_handler as is_managed};
pub use cover::{audit, repair};
pub use faults::set_rollforward_limit;
pub use install::{install, uninstall};
pub use mask::{end_mask, inheriting, is_masked, own_mask, start_mask, with_kernel_mask};
pub use rollforward::{abandon_rollforward, original_pc, siglongjmp};

use core::ffi::c_int;

use super::statistics::COUNTS;
use super::{Chained, Interrupted};
use crate::platform::{
    Context, Disposition, bit, change_mask, disposition, replace_disposition,
    replace_disposition_if,
};
use crate::sequence::table;
use actions::{Action, BLOCKED_ON_ENTRY, FAULT_SET, FAULTS, NEVER_BLOCKED};
use nested::Frame;
use run::Delivery;
use words::Words;

// What the kernel calls on every signal that is managed or adopted; one of them a signal, or more
// (`actions::ENTRIES`).
crate::arch::signal_entries!(
    call dispatch, then dispatch_waiting, block BLOCKED_ON_ENTRY, ask copies::below
);

/// Acts on a signal.
///
/// # Safety
/// `frame` is the delivery that an entry has made. What is in it is a handler's that runs on this
/// thread: the kernel has called the entry, or a handler that passes on what it got.
unsafe extern "C" fn dispatch(frame: *const Frame) {
    // SAFETY: the caller's promise.
    let frame = unsafe { &*frame };
    let (own, (signal, info, entry)) = (frame.context(), frame.arguments());
    let words = Words::of_this_thread();
    words.forget_earlier_end();
    let record = words.take_saved(signal, info);
    let info = record.as_ref().unwrap_or(info);
    let (before, found) = (own.mask(), frame.mask());
    let is_watched = !controls::is_off(controls::NESTED);
    let over = is_watched.then(|| frame.come_first());
    let masks = Masks::of(frame, own, over.as_ref());
    let mut arrived = Arrived {
        signal,
        info,
        own,
        mask: masks.to_add_to,
        blocked: masks.now,
        blocked_faults: masks.faults,
        in_handler_inside: words.inside.holds(own),
        is_over_fault: over.is_some_and(|over| over.has_fault),
    };
    let is_passing = passing::passing_on(own).is_some_and(|entries| entries & 1 << entry != 0);
    let action = actions::live_of_entry(signal, entry).filter(|_| !is_passing);
    let outer = frame.before().filter(|_| is_watched);
    let in_delivery = outer.is_some() || frame.context() != own;
    match (action, outer) {
        // SAFETY: the caller's promise.
        (Some(action), _) if arrived.is_fault() => unsafe {
            faults::deliver(action, &arrived, frame);
        },
        // A handler of others has called that delivery's entry, with less blocked.
        _ if in_delivery && arrived.can_wait() => mask::hold_back(signal, info, own),
        (_, Some(outer)) if !arrived.is_fault() => outer.keep(entry, signal, info),
        // SAFETY: the caller's promise.
        (Some(action), _) => unsafe { deliver(action, &arrived, frame) },
        // As if the kernel had called what the entry stands for.
        // SAFETY: the caller's promise.
        (None, _) => unsafe {
            frame.end(own);
            frame.decided();
            while deliver_waiting(&arrived, frame, arrived.mask, None) {
                // That may have begun it once more.
                frame.decided();
            }
            pass_on(entry, signal, info, own, arrived.mask);
        },
    }
    if arrived.is_fault() && outer.is_some() && !is_refused_call(signal, info) {
        // The handler may have let others in. They must not come when the thread's words point at
        // that delivery again.
        change_mask(libc::SIG_BLOCK, actions::undecided_mask());
    }
    frame.end(own);
    // What waits for the end of a mask, for one, stays blocked.
    let added = own.mask() & !before;
    arrived.mask |= added;
    if arrived.is_fault() {
        // The handler has run, which may have changed what is blocked.
        arrived.blocked_faults = FAULT_SET & !frame.context().mask();
    }
    // SAFETY: the caller's promise.
    unsafe { deliver_waiting(&arrived, frame, arrived.mask, None) };
    while !frame.is_called_by_kernel(own) && frame.has_ended() {
        // SAFETY: as above.
        unsafe { deliver_waiting(&arrived, frame, arrived.mask, None) };
    }
    if action.is_some() && !in_delivery && !arrived.is_fault() {
        // SAFETY: the caller's promise.
        let run_waiting = || unsafe { deliver_waiting(&arrived, frame, arrived.mask, None) };
        // SAFETY: the caller's promise.
        unsafe { keep::run_after_handler(own, run_waiting) };
    }
    if let Some(mask) = found.filter(|_| !frame.is_called_by_kernel(own)) {
        change_mask(libc::SIG_SETMASK, mask | added);
    }
}

/// Delivers what has arrived between the last look of [`dispatch`] and the entry's own.
///
/// # Safety
/// `frame` is the delivery of an entry that the kernel has called, and that has been dispatched.
unsafe extern "C" fn dispatch_waiting(frame: *const Frame) {
    // SAFETY: the caller's promise.
    let frame = unsafe { &*frame };
    let (signal, info, _) = frame.arguments();
    // SAFETY: the caller's promise.
    let own = unsafe { frame.context_of_kernel() };
    let context = frame.context();
    let mask = frame.mask().unwrap_or(0) | context.mask();
    let arrived = Arrived {
        signal,
        info,
        own,
        mask,
        blocked: None,
        blocked_faults: FAULT_SET & !context.mask(),
        in_handler_inside: Words::of_this_thread().inside.holds(own),
        is_over_fault: frame.over(own).has_fault,
    };
    // A handler that has returned to a delivery may have let others in.
    change_mask(libc::SIG_BLOCK, actions::undecided_mask());
    // SAFETY: the caller's promise.
    unsafe { deliver_waiting(&arrived, frame, mask, None) };
}

/// The masks of a delivery that has not decided yet.
///
/// The context does not always say which mask the interrupted code had: in `sigsuspend`, `ppoll`
/// and their like it is the one that they put back. The mask that the entry has found is right
/// everywhere, but holds what the kernel has added. So each signal that the kernel may have added
/// is looked up in the context, and the others in that mask.
struct Masks {
    /// That of the interrupted code, or of the handler that has called the entry.
    to_add_to: u64,
    /// The kernel's now, if it is known.
    now: Option<u64>,
    /// Signals of faults that are blocked, and were not in the sequence that was interrupted, if it
    /// was one.
    faults: u64,
}

impl Masks {
    /// `own` is the context that `frame` began with; `over` are those that it comes before.
    fn of(frame: &Frame, own: Context, over: Option<&nested::Over>) -> Masks {
        let (signal, _, entry) = frame.arguments();
        let Some(found) = frame.mask() else {
            // Nothing was blocked. As if the kernel had blocked no more than it has to: a call to
            // change that may not be possible.
            let added = actions::kernel_mask_of(signal, entry);
            let now = own.mask() | added;
            return Masks {
                to_add_to: own.mask(),
                now: Some(now),
                faults: added & !own.mask() & FAULT_SET,
            };
        };
        let added = actions::installed_mask(signal) | over.map_or(0, |over| over.blocked);
        let now = found | actions::blocked_on_entry();
        let context = frame.context();
        // Whatever has blocked them: others may have changed our disposition, or call the entry
        // from a handler. The context of a sequence holds its mask, since it makes no system call.
        let faults = found & FAULT_SET & !context.mask();
        let before = match frame.before().and_then(Frame::mask) {
            _ if controls::is_off(controls::FOUND_MASK) => own.mask() | added,
            // Another delivery has blocked signals already. Beside what that has found, there is
            // what was blocked since.
            Some(outers) => outers | found & !own.mask(),
            None => over.and_then(|over| over.mask).unwrap_or(found),
        };
        // The signal itself was not blocked, since it has arrived; the context may hold it all the
        // same.
        let of_context = context.mask() & !bit(signal) & added;
        let to_add_to = before & !added | of_context;
        frame.set_mask(to_add_to & !faults);
        Masks {
            to_add_to,
            now: Some(now).filter(|_| context == own),
            faults,
        }
    }
}

/// A signal, as the kernel has passed it.
struct Arrived<'a> {
    signal: c_int,
    info: &'a libc::siginfo_t,
    /// The context of what was interrupted, were it another delivery's code.
    own: Context,
    /// The mask to which the handler's is added.
    mask: u64,
    /// The kernel's mask until the delivery has decided, if it is known.
    blocked: Option<u64>,
    /// Faults' signals that are blocked until then, unless a clone runs, and were not in the
    /// interrupted sequence.
    blocked_faults: u64,
    /// Does it interrupt a handler that is in the middle of a sequence?
    in_handler_inside: bool,
    /// Does it come before a fault's delivery, of which nothing is known yet?
    is_over_fault: bool,
}

impl Arrived<'_> {
    /// Is it raised by the instruction that it has interrupted?
    fn is_fault(&self) -> bool {
        is_raised_by_fault(self.signal, self.info)
    }

    fn can_wait(&self) -> bool {
        bit(self.signal) & NEVER_BLOCKED == 0
    }
}

/// Decides how the interrupted code goes on, and runs the handler; before that, those of signals
/// that have arrived meanwhile and could not be blocked.
///
/// # Safety
/// As [`dispatch`].
unsafe fn deliver(action: &'static Action, arrived: &Arrived, frame: &Frame) {
    let words = Words::of_this_thread();
    if words.rollforward.is_under_way() && !arrived.in_handler_inside {
        // A fault's handler has jumped out of it.
        abandon_rollforward();
    }
    let context = frame.context();
    let original_pc = context.program_counter();
    // SAFETY: the caller's promise.
    let Some(interrupted) = (unsafe { decide(arrived, context) }) else {
        return frame.decided_unless_inside();
    };
    let delivery = Delivery {
        signal: arrived.signal,
        info: arrived.info,
        context,
        original_pc,
        interrupted,
        in_handler_inside: arrived.in_handler_inside,
        mask: arrived.mask,
        blocked: arrived.blocked.filter(|_| arrived.blocked_faults == 0),
    };
    // They interrupt this signal's handler at its first instruction.
    // SAFETY: the caller's promise.
    let waiting = |mask| unsafe { deliver_waiting(arrived, frame, mask, Some(interrupted)) };
    // SAFETY: the caller's promise.
    unsafe { run::run_of(frame, action, &delivery, waiting) };
}

/// Runs the handlers of the signals that wait for `frame`, as if they had interrupted code that has
/// `mask`. `decided` is what its own signal is to be told, if it has decided and that signal's
/// handler is about to run. Returns whether there were any: then the kernel's mask is another one.
///
/// # Safety
/// As [`dispatch`].
unsafe fn deliver_waiting(
    arrived: &Arrived,
    frame: &Frame,
    mask: u64,
    decided: Option<Interrupted>,
) -> bool {
    if !frame.has_waiting() {
        return false;
    }
    let mut has_run = false;
    while let Some((entry, signal, info)) = frame.take() {
        let context = frame.context();
        if arrived.mask & bit(signal) != 0 {
            // It was let in for a clone. What goes on when this returns has it blocked: a handler
            // that has called the entry, for one.
            change_mask(libc::SIG_BLOCK, bit(signal));
            mask::wait_blocked(signal, &info);
            has_run = true;
            continue;
        }
        if has_run {
            // As when the kernel calls an entry.
            change_mask(libc::SIG_BLOCK, actions::undecided_mask());
        }
        let Some(action) = actions::live_of_entry(signal, entry) else {
            frame.decided();
            // SAFETY: the caller's promise.
            unsafe { pass_on(entry, signal, &info, context, mask) };
            has_run = true;
            if decided.is_none() && frame.is_inside() {
                change_mask(libc::SIG_BLOCK, actions::undecided_mask());
                frame.begin();
            }
            continue;
        };
        let original_pc = context.program_counter();
        let waited = Arrived {
            signal,
            info: &info,
            blocked_faults: match has_run {
                // Whatever the last handler had blocked.
                true => FAULT_SET & !context.mask(),
                false => arrived.blocked_faults,
            },
            ..*arrived
        };
        // Whatever keeps the sequence from being run to its end still does; and it is noted that a
        // handler is inside.
        let is_inside = decided == Some(Interrupted::Inside);
        let interrupted = match is_inside {
            true => decided,
            false => {
                frame.begin();
                // SAFETY: the caller's promise.
                unsafe { decide(&waited, context) }
            }
        };
        let Some(interrupted) = interrupted else {
            frame.decided_unless_inside();
            continue;
        };
        let delivery = Delivery {
            signal,
            info: &info,
            context,
            original_pc,
            interrupted,
            in_handler_inside: arrived.in_handler_inside || is_inside,
            mask,
            blocked: None,
        };
        // SAFETY: the caller's promise.
        unsafe { run::run_of(frame, action, &delivery, |_| false) };
        has_run = true;
    }
    has_run
}

/// Sees to the sequence that the interrupted code is in, if it is in one. Returns what the signal
/// is to be told; `None` if it is not to be delivered now.
///
/// # Safety
/// As [`dispatch`]; signals that arrive wait for this delivery.
unsafe fn decide(arrived: &Arrived, context: Context) -> Option<Interrupted> {
    let words = Words::of_this_thread();
    if arrived.is_over_fault && table::find(context.program_counter()).is_some() {
        // It would have the same fault again, whose signal is blocked.
        return Some(Interrupted::Inside);
    }
    let is_masked = words.depth() > 0 && !controls::is_off(controls::DEFERRAL);
    if !(is_masked && arrived.can_wait()) {
        // SAFETY: the caller's promise.
        let interrupted = unsafe { complete(arrived, context) }?;
        return Some(match arrived.in_handler_inside {
            true => Interrupted::Inside,
            false => interrupted,
        });
    }
    // A handler that no mask holds back may come before the thread goes on.
    if actions::handles_unmaskable() {
        // SAFETY: the caller's promise.
        unsafe { complete(arrived, context) }?;
    }
    mask::defer(arrived.signal, arrived.info, context);
    None
}

/// Restarts the sequence that the interrupted code is in, or runs it to its end. `None` if the
/// signal was deferred, for one.
///
/// # Safety
/// As [`decide`].
unsafe fn complete(arrived: &Arrived, context: Context) -> Option<Interrupted> {
    let is_under_way = Words::of_this_thread().rollforward.is_under_way();
    let Some(row) = table::find(context.program_counter()) else {
        return Some(Interrupted::Plain);
    };
    Some(match row.clone {
        // In a fault's handler, which runs in the middle of a clone.
        _ if is_under_way && arrived.can_wait() => {
            mask::hold_back(arrived.signal, arrived.info, context);
            return None;
        }
        None if controls::is_off(controls::RESTART) => Interrupted::Plain,
        None => {
            context.set_program_counter(row.start);
            COUNTS.restarts.add();
            Interrupted::Restarted
        }
        Some(_) if controls::is_off(controls::ROLLFORWARD) => Interrupted::Plain,
        Some(_) if is_under_way => Interrupted::Inside,
        Some(clone) => {
            // A fault that the clone has, and whose signal is blocked, would kill: that of a signal
            // that was sent, or that a handler's `sa_mask` holds.
            if arrived.blocked_faults != 0 && !controls::is_off(controls::OPENING) {
                change_mask(libc::SIG_UNBLOCK, arrived.blocked_faults);
            }
            // SAFETY: the caller's promise; the entry's mask blocks managed signals.
            unsafe { rollforward::run(arrived.signal, arrived.info, context, &row, &clone)? }
        }
    })
}

/// A signal that has no handler here any more: does what the entry stands for, as if the kernel had
/// called that over code that has `mask`.
///
/// That may be a handler which passes signals on to this entry, for it has read the disposition
/// while the entry was installed over it: see `passing`.
///
/// # Safety
/// As [`dispatch`].
unsafe fn pass_on(
    entry: usize,
    signal: c_int,
    info: &libc::siginfo_t,
    context: Context,
    mask: u64,
) {
    let retired = actions::of_entry(signal, entry);
    let rest = Previous(retired.map_or(Disposition::DEFAULT, Action::rest));
    let is_itself = passing::passing_on(context).is_some_and(|entries| entries & 1 << entry != 0);
    // The default action waits until the signal is unblocked, and so does the signal itself, unless
    // its handler lets it in.
    let lets_itself_in = rest.0.is_function() && rest.0.has(libc::SA_NODEFER) && !is_itself;
    let own = if lets_itself_in { 0 } else { bit(signal) };
    change_mask(libc::SIG_SETMASK, mask | own | actions::covering_mask());
    if is_itself {
        // One that is adopted has found itself: nothing is known to lie below it.
        if actions::live_of_entry(signal, entry).is_some() {
            default_action(signal, info);
        }
        return;
    }
    // SAFETY: the caller's promise.
    let call = || unsafe { rest.call(signal, info, context.as_ptr()) };
    let aside = Words::of_this_thread().set_aside();
    let chained = passing::while_passing_on(context, 1 << entry, call);
    if let Some(aside) = aside {
        Words::of_this_thread().put_back(&aside, context);
    }
    match chained {
        Chained::Called => {}
        // No program can ignore a fault: the kernel kills.
        Chained::Ignored if !is_raised_by_fault(signal, info) => {}
        Chained::Ignored | Chained::Default => default_action(signal, info),
    }
}

const _: () = assert!(actions::ENTRIES < usize::BITS as usize);

fn is_raised_by_fault(signal: c_int, info: &libc::siginfo_t) -> bool {
    /// A tag did not match at some earlier instruction (AArch64).
    const SEGV_MTEAERR: c_int = 8;
    // The kernel reports these two to a thread wherever that is.
    let is_late = matches!(
        (signal, info.si_code),
        (libc::SIGBUS, libc::BUS_MCEERR_AO) | (libc::SIGSEGV, SEGV_MTEAERR)
    );
    FAULTS.contains(&signal) && info.si_code > 0 && !is_late
}

/// Has a system call raised it that was not made: in a sandbox, or one that is to be emulated? Each
/// further one may do so, too, and kill while the signal is blocked.
fn is_refused_call(signal: c_int, info: &libc::siginfo_t) -> bool {
    signal == libc::SIGSYS && is_raised_by_fault(signal, info)
}

/// The kernel does with `signal` what it does without a handler. For a fault, which happens again,
/// when the handler returns; for others, as soon as they are unblocked.
///
/// A handler of other code that has called the entry stays, unless a fault would go back and forth
/// between the two: it has handled the signal, and queueing that again would call it without end.
fn default_action(signal: c_int, info: &libc::siginfo_t) {
    let default = &Disposition::DEFAULT;
    if is_raised_by_fault(signal, info) {
        // SAFETY: no function in it. Nothing can be done about a refusal, for which the kernel has
        // no reason.
        let _ = unsafe { replace_disposition(signal, default) };
        return;
    }
    // SAFETY: as above.
    let _ = unsafe {
        replace_disposition_if(signal, default, |now| {
            // Asked of what this entry does: another thread may be installing.
            let called = cover::entry_of(now);
            called.is_some_and(|entry| actions::live_of_entry(signal, entry).is_none())
                && actions::action(signal).is_none()
        })
    };
    let is_left_to_kernel = disposition(signal).is_ok_and(|now| !now.is_function());
    if is_left_to_kernel && !mask::queue_again(signal, info) {
        COUNTS.lost_signals.add();
    }
}
