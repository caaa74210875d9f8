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
//! Everything except `install.rs`, `cover.rs`, `lock.rs` and `fork.rs` runs in handlers: it must
//! not allocate, lock, or change `errno`.

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

#[cfg(feature = "unstable-internals")]
pub use actions::is_unmaskable;
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
    Context, Disposition, bit, change_mask, disposition, own_process, replace_disposition,
    replace_disposition_if, send_to_this_thread,
};
use crate::sequence::table;
use actions::{Action, BLOCKED_ON_ENTRY, DEFAULT, FAULT_SET, FAULTS, NEVER_BLOCKED};
use nested::Frame;
use run::Delivery;
use words::Words;

// The functions that the kernel calls on every signal that is managed or adopted: one or more for
// each signal (`actions::ENTRIES`).
crate::arch::signal_entries!(
    call dispatch, then dispatch_waiting, block BLOCKED_ON_ENTRY, ask copies::below
);

/// Delivers a signal.
///
/// A handler may run on a small alternate stack. Without optimisation, every local of a function
/// occupies its own stack slot, also after its last use. So work that needs large locals is done in
/// separate functions, which have returned before the handler is called.
///
/// # Safety
/// `frame` is a delivery that an entry on this thread has made. Its signal, record and context are
/// those that the kernel passed to a handler on this thread: either to the entry, or to a handler
/// that has called the entry with them.
unsafe extern "C" fn dispatch(frame: *const Frame) {
    // SAFETY: the caller's promise.
    let frame = unsafe { &*frame };
    let (signal, info, _) = frame.arguments();
    let words = Words::of_this_thread();
    words.forget_earlier_end();
    // SAFETY: the caller's promise.
    unsafe {
        match words.is_saved(signal) {
            true => dispatch_with_saved(frame),
            false => dispatch_with(frame, info),
        }
    }
}

/// As [`dispatch_with`], with the record that the thread has saved for the signal, if `frame` is
/// the delivery that it was saved for.
///
/// # Safety
/// As [`dispatch`].
#[inline(never)]
unsafe fn dispatch_with_saved(frame: &Frame) {
    let (signal, info, _) = frame.arguments();
    let record = Words::of_this_thread().take_saved(signal, info);
    // SAFETY: the caller's promise.
    unsafe { dispatch_with(frame, record.as_ref().unwrap_or(info)) };
}

/// Delivers the signal of `frame`, whose record is `info`.
///
/// # Safety
/// As [`dispatch`].
unsafe fn dispatch_with(frame: &Frame, info: &libc::siginfo_t) {
    let (own, (signal, _, entry)) = (frame.context(), frame.arguments());
    let (before, found) = (own.mask(), frame.mask());
    let is_watched = !controls::is_off(controls::NESTED);
    let mut arrived = Arrived::of(frame, info, is_watched);
    let is_passing = passing::passing_on(own).is_some_and(|entries| entries & 1 << entry != 0);
    let action = actions::live_of_entry(signal, entry).filter(|_| !is_passing);
    let outer = frame.before().filter(|_| is_watched);
    let in_delivery = outer.is_some() || frame.context() != own;
    match (action, outer) {
        // SAFETY: the caller's promise.
        (Some(action), _) if arrived.is_fault() => unsafe {
            faults::deliver(action, &arrived, frame);
        },
        // A handler of other code has called that delivery's entry with fewer signals blocked.
        _ if in_delivery && arrived.can_wait() => mask::hold_back(signal, info, own),
        (_, Some(outer)) if !arrived.is_fault() => outer.keep(entry, signal, info),
        // SAFETY: the caller's promise.
        (Some(action), _) => unsafe { deliver(action, &arrived, frame) },
        // SAFETY: the caller's promise.
        (None, _) => unsafe { dispatch_without_handler(&arrived, frame, entry) },
    }
    // SAFETY: the caller's promise.
    let added = unsafe { finish(&mut arrived, frame, before, outer.is_some()) };
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

/// Delivers a signal whose entry has no handler: to what the entry stands for, as if the kernel had
/// called that.
///
/// # Safety
/// As [`dispatch`].
unsafe fn dispatch_without_handler(arrived: &Arrived, frame: &Frame, entry: usize) {
    let own = arrived.own;
    frame.end(own);
    frame.decided();
    // SAFETY: the caller's promise.
    while unsafe { deliver_waiting(arrived, frame, arrived.mask, None) } {
        // `deliver_waiting` may have begun it again.
        frame.decided();
    }
    let is_direct = frame.is_called_by_kernel(own);
    let (signal, info) = (arrived.signal, arrived.info);
    // SAFETY: the caller's promise.
    unsafe { pass_on(entry, signal, info, own, arrived.mask, is_direct) };
}

/// Ends a delivery whose handler has run, and delivers the signals that wait for it. `before` is
/// the mask that its context held at first. Returns what the delivery has added to that.
///
/// # Safety
/// As [`dispatch`].
unsafe fn finish(arrived: &mut Arrived, frame: &Frame, before: u64, is_nested: bool) -> u64 {
    let own = arrived.own;
    if arrived.is_fault() && is_nested && !is_refused_call(arrived.signal, arrived.info) {
        // The handler may have unblocked signals. They must not arrive once the thread's words
        // point at the outer delivery again.
        change_mask(libc::SIG_BLOCK, actions::undecided_mask());
    }
    frame.end(own);
    // For example, signals that wait for the end of a mask stay blocked.
    let added = own.mask() & !before;
    arrived.mask |= added;
    if arrived.is_fault() {
        // The handler has run, which may have changed what is blocked.
        arrived.blocked_faults = FAULT_SET & !frame.context().mask();
    }
    // SAFETY: the caller's promise.
    unsafe { deliver_waiting(arrived, frame, arrived.mask, None) };
    while !frame.is_called_by_kernel(own) && frame.has_ended() {
        // SAFETY: the caller's promise.
        unsafe { deliver_waiting(arrived, frame, arrived.mask, None) };
    }
    added
}

/// Delivers signals that have arrived between [`dispatch`]'s last check for waiting signals and the
/// entry's own.
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
    // A handler that has returned to a delivery may have unblocked signals.
    change_mask(libc::SIG_BLOCK, actions::undecided_mask());
    // SAFETY: the caller's promise.
    unsafe { deliver_waiting(&arrived, frame, mask, None) };
}

/// The masks of a delivery that has not decided yet.
///
/// The context does not always hold the mask of the interrupted code: in `sigsuspend`, `ppoll` and
/// similar calls it holds the one that they restore. The mask that the entry has found is the right
/// one, but includes what the kernel has added. So signals that the kernel may have added are taken
/// from the context, and all others from the mask that the entry has found.
struct Masks {
    /// The mask of the interrupted code, or of the handler that has called the entry.
    to_add_to: u64,
    /// The thread's mask in the kernel now, if it is known.
    now: Option<u64>,
    /// Fault signals that are blocked now and were not blocked in the interrupted sequence, if
    /// there is one.
    faults: u64,
}

impl Masks {
    /// Determines the masks of `frame`. `own` is the context that it began with; `over` are the
    /// deliveries that it precedes.
    fn of(frame: &Frame, own: Context, over: Option<&nested::Over>) -> Masks {
        let (signal, _, entry) = frame.arguments();
        let Some(found) = frame.mask() else {
            // The entry has blocked nothing, and a system call to find the mask may not be
            // possible. So this assumes that the kernel has blocked no more than it must.
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
        // Whatever has blocked them: other code may have changed our disposition, or may call the
        // entry from a handler. A sequence makes no system call, so its context holds its mask.
        let faults = found & FAULT_SET & !context.mask();
        let before = match frame.before().and_then(Frame::mask) {
            _ if controls::is_off(controls::FOUND_MASK) => own.mask() | added,
            // The outer delivery has blocked signals already. This is the mask that it has found,
            // and what was blocked since.
            Some(outers) => outers | found & !own.mask(),
            None => over.and_then(|over| over.mask).unwrap_or(found),
        };
        // The signal itself was not blocked, since it has arrived. The context may contain it
        // nevertheless.
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

/// A signal as the kernel has passed it.
struct Arrived<'a> {
    signal: c_int,
    info: &'a libc::siginfo_t,
    /// The context of the interrupted code, which may be another delivery's.
    own: Context,
    /// The mask to which the handler's is added.
    mask: u64,
    /// The kernel's mask until the delivery has decided, if it is known.
    blocked: Option<u64>,
    /// Fault signals that are blocked until then, unless a clone runs, and that were not blocked in
    /// the interrupted sequence.
    blocked_faults: u64,
    /// Whether it interrupts a handler that is in the middle of a sequence.
    in_handler_inside: bool,
    /// Whether it precedes a fault's delivery that is not yet registered in the thread's words.
    is_over_fault: bool,
}

impl<'a> Arrived<'a> {
    /// Collects what `frame` has begun with. If `is_watched`, moves it before deliveries that are
    /// not yet registered in the thread's words.
    fn of(frame: &Frame, info: &'a libc::siginfo_t, is_watched: bool) -> Arrived<'a> {
        let (own, (signal, ..)) = (frame.context(), frame.arguments());
        let over = is_watched.then(|| frame.come_first());
        let masks = Masks::of(frame, own, over.as_ref());
        Arrived {
            signal,
            info,
            own,
            mask: masks.to_add_to,
            blocked: masks.now,
            blocked_faults: masks.faults,
            in_handler_inside: Words::of_this_thread().inside.holds(own),
            is_over_fault: over.is_some_and(|over| over.has_fault),
        }
    }

    /// Returns whether the interrupted instruction has raised it.
    fn is_fault(&self) -> bool {
        is_raised_by_fault(self.signal, self.info)
    }

    fn can_wait(&self) -> bool {
        bit(self.signal) & NEVER_BLOCKED == 0
    }
}

/// Decides how the interrupted code continues, and runs the handler. Before that, runs the handlers
/// of signals that have arrived meanwhile and could not be blocked.
///
/// # Safety
/// As [`dispatch`].
unsafe fn deliver(action: &'static Action, arrived: &Arrived, frame: &Frame) {
    let words = Words::of_this_thread();
    if words.rollforward.is_under_way() && !arrived.in_handler_inside {
        // The handler of a fault has jumped out of the rollforward.
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
    // They interrupt this signal's handler at its first instruction. SAFETY: the caller's promise.
    let waiting = |mask| unsafe { deliver_waiting(arrived, frame, mask, Some(interrupted)) };
    // SAFETY: the caller's promise.
    unsafe { run::run_of(frame, action, &delivery, waiting) };
}

/// Runs the handlers of the signals that wait for `frame`, as if they had interrupted code that has
/// `mask`. `decided` is what the handler of its own signal will report as interrupted, if `frame`
/// has decided and that handler is about to run. Returns whether there were any; if so, the
/// thread's mask in the kernel has changed.
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
            // It was unblocked for a clone. The code that continues when this returns has it
            // blocked, for example a handler that has called the entry.
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
            unsafe { pass_on(entry, signal, &info, context, mask, false) };
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
                // The last handler may have blocked any signal.
                true => FAULT_SET & !context.mask(),
                false => arrived.blocked_faults,
            },
            ..*arrived
        };
        // What prevents the sequence from being run to its end still does, and the note that a
        // handler is inside is set.
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

/// Restarts the interrupted sequence or runs it to its end, if there is one, or defers the signal.
/// Returns what the handler will report as interrupted; `None` if the signal must not be delivered
/// now.
///
/// # Safety
/// As [`dispatch`]; signals that arrive wait for this delivery.
unsafe fn decide(arrived: &Arrived, context: Context) -> Option<Interrupted> {
    let words = Words::of_this_thread();
    if arrived.is_over_fault && table::find(context.program_counter()).is_some() {
        // The sequence would fault again, with that fault's signal blocked.
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
    // The handler of a signal that no mask holds back may run before the thread continues.
    if actions::handles_unmaskable() {
        // SAFETY: the caller's promise.
        unsafe { complete(arrived, context) }?;
    }
    mask::defer(arrived.signal, arrived.info, context);
    None
}

/// Restarts the sequence that the interrupted code is in, or runs it to its end. Returns `None` if
/// the signal must not be delivered now, for example because it was deferred.
///
/// # Safety
/// As [`decide`].
unsafe fn complete(arrived: &Arrived, context: Context) -> Option<Interrupted> {
    let is_under_way = Words::of_this_thread().rollforward.is_under_way();
    let Some(row) = table::find(context.program_counter()) else {
        return Some(Interrupted::Plain);
    };
    Some(match row.clone {
        // In the handler of a fault in a clone.
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
            // A fault of the clone would end the process if its signal were blocked: because that
            // signal was sent and is being delivered, or by a handler's `sa_mask`.
            if arrived.blocked_faults != 0 && !controls::is_off(controls::OPENING) {
                change_mask(libc::SIG_UNBLOCK, arrived.blocked_faults);
            }
            // SAFETY: the caller's promise; the entry's mask blocks managed signals.
            unsafe { rollforward::run(arrived.signal, arrived.info, context, &row, &clone)? }
        }
    })
}

/// Passes a signal that has no handler here any more on to what the entry stands for, as if the
/// kernel had called that over code that has `mask`. `is_direct`: the kernel has called the entry.
///
/// The entry may stand for a handler that passes signals on to this very entry, because it read the
/// disposition while the entry was installed over it: see `passing`.
///
/// # Safety
/// As [`dispatch`].
unsafe fn pass_on(
    entry: usize,
    signal: c_int,
    info: &libc::siginfo_t,
    context: Context,
    mask: u64,
    is_direct: bool,
) {
    let retired = actions::of_entry(signal, entry);
    let rest = retired.map_or(&DEFAULT, Action::rest_to_call);
    let is_itself = passing::passing_on(context).is_some_and(|entries| entries & 1 << entry != 0);
    // The default action waits until the signal is unblocked. Another signal of this number does so
    // too, unless the handler admits it.
    let below = rest.disposition();
    let lets_itself_in = below.is_function() && below.has(libc::SA_NODEFER) && !is_itself;
    let own = if lets_itself_in { 0 } else { bit(signal) };
    change_mask(libc::SIG_SETMASK, mask | own | actions::covering_mask());
    if is_itself {
        // An adopted handler has called its own entry. Nothing is known to lie below it.
        if actions::live_of_entry(signal, entry).is_some() {
            act_by_default(signal, info, false);
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
        // No program can ignore a fault: the kernel ends it.
        Chained::Ignored if !is_raised_by_fault(signal, info) => {}
        Chained::Ignored | Chained::Default => act_by_default(signal, info, is_direct),
    }
}

const _: () = assert!(actions::ENTRIES < usize::BITS as usize);

/// Returns whether an instruction has raised the signal.
pub fn is_raised_by_fault(signal: c_int, info: &libc::siginfo_t) -> bool {
    /// A tag did not match at some earlier instruction (AArch64).
    const SEGV_MTEAERR: c_int = 8;
    // The kernel reports these two asynchronously, wherever the thread is.
    let is_late = matches!(
        (signal, info.si_code),
        (libc::SIGBUS, libc::BUS_MCEERR_AO) | (libc::SIGSEGV, SEGV_MTEAERR)
    );
    FAULTS.contains(&signal) && info.si_code > 0 && !is_late
}

/// Returns whether a refused system call has raised the signal, in a sandbox or an emulation. Each
/// further system call may do so too, and end the process while the signal is blocked.
fn is_refused_call(signal: c_int, info: &libc::siginfo_t) -> bool {
    signal == libc::SIGSYS && is_raised_by_fault(signal, info)
}

/// Returns whether a fault of this signal happens again when its handler returns. After a trap the
/// thread continues behind the instruction, and a refused system call is not repeated.
fn happens_again(signal: c_int) -> bool {
    !matches!(signal, libc::SIGTRAP | libc::SIGSYS)
}

/// Signals whose default action does nothing on delivery. (`SIGCONT` continues the process when it
/// is sent.)
const IGNORED_BY_DEFAULT: u64 =
    bit(libc::SIGCHLD) | bit(libc::SIGCONT) | bit(libc::SIGURG) | bit(libc::SIGWINCH);

/// Stop signals, but for `SIGSTOP`, which has no handler.
const STOPPING: u64 = bit(libc::SIGTSTP) | bit(libc::SIGTTIN) | bit(libc::SIGTTOU);

/// Makes the kernel carry out the default action of a signal whose handler runs and asks for it:
/// when the handler returns, or at once for a stop signal.
pub fn carry_out_default(signal: c_int, info: &libc::siginfo_t) {
    let is_fault = is_raised_by_fault(signal, info);
    // Of the first process of a PID namespace the kernel discards every signal without a handler,
    // unless an instruction raises it.
    if IGNORED_BY_DEFAULT & bit(signal) != 0 || !is_fault && own_process() == 1 {
        return;
    }
    if STOPPING & bit(signal) != 0 {
        // Refused only by a sandbox, which lets the thread stop no process.
        let _ = send_to_this_thread(libc::SIGSTOP);
        return;
    }
    let is_repeated = is_fault && happens_again(signal);
    if !is_repeated {
        // A handler that lets its own signal in returns before the signal is delivered, too.
        change_mask(libc::SIG_BLOCK, bit(signal));
    }
    // SAFETY: the disposition contains no function. The kernel has no reason to refuse it, and a
    // refusal cannot be handled here.
    let _ = unsafe { replace_disposition(signal, &Disposition::DEFAULT) };
    if !is_repeated && !mask::queue_again(signal, info) {
        COUNTS.lost_signals.add();
    }
}

/// Makes the kernel carry out the default action of `signal`: when the handler returns, for a fault
/// that happens again; for other signals as soon as they are unblocked.
///
/// The default disposition is only set where the action ends or stops the process. Where the action
/// does nothing, the disposition stays.
///
/// A handler of other code that has called the entry stays installed: it has handled the signal,
/// and queueing that again would call it without end. The exception is a fault, which would
/// otherwise alternate between the two handlers.
///
/// `is_direct`: the kernel has called an entry that had no handler then. If another thread has
/// installed one since, that handler gets the signal. This cannot repeat without end, because an
/// entry that this handler calls is not called by the kernel.
fn act_by_default(signal: c_int, info: &libc::siginfo_t, is_direct: bool) {
    let default = &Disposition::DEFAULT;
    if is_raised_by_fault(signal, info) {
        // SAFETY: the disposition contains no function. The kernel has no reason to refuse it, and
        // a refusal cannot be handled here.
        let _ = unsafe { replace_disposition(signal, default) };
        if !happens_again(signal) {
            mask::queue_again(signal, info);
        }
        return;
    }
    if IGNORED_BY_DEFAULT & bit(signal) != 0 {
        return;
    }
    // SAFETY: the default disposition contains no function.
    let _ = unsafe {
        replace_disposition_if(signal, default, |now| {
            // The entry that is installed now decides: another thread may be installing a handler.
            let called = cover::entry_of(now);
            called.is_some_and(|entry| actions::live_of_entry(signal, entry).is_none())
                && actions::action(signal).is_none()
        })
    };
    let is_to_be_queued = disposition(signal)
        .is_ok_and(|now| !now.is_function() || is_direct && cover::leads_to_action(signal, &now));
    if is_to_be_queued && !mask::queue_again(signal, info) {
        COUNTS.lost_signals.add();
    }
}
