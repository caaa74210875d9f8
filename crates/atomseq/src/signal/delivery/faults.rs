//! Delivers faults, which cannot wait. A fault inside a clone is reported at the sequence's own
//! instruction, and a rollforward that keeps faulting is abandoned (M94 2.3.1, 2.3.2).

use core::ffi::c_int;
use core::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use super::super::statistics::COUNTS;
use super::actions::{self, Action};
use super::nested::Frame;
use super::rollforward::{abandon_rollforward, leave};
use super::run::{self, Delivery};
use super::words::Words;
use super::{Arrived, Interrupted, controls, happens_again, pass_on};
use crate::clock;
use crate::sequence::table;

/// How long a rollforward may keep faulting, in nanoseconds.
static LIMIT: AtomicU64 = AtomicU64::new(100_000_000);

/// Sets how long a rollforward may keep faulting before it is abandoned. The limit applies to the
/// whole process; it is 100 ms at start.
///
/// A clone has at most 32 instructions and no backward branch. So it fails to end only if one of
/// its instructions faults, the fault is handled, and the instruction faults again. The clock is
/// read when a fault is handled, so a rollforward without a fault pays nothing. Traps do not count,
/// because they do not repeat: single steps, for example. When the limit has passed since the first
/// fault, the rollforward is abandoned:
///
/// * the signal's handler runs with [`Interrupted::Inside`];
/// * the sequence continues at the faulting instruction;
/// * [`Statistics::abandoned`](super::super::Statistics::abandoned) counts it, and the first one of
///   a process is reported on standard error.
///
/// The limit does not cover a thread that the kernel keeps waiting inside one fault, for a page
/// from a dead file server or a `userfaultfd` that does not answer. That thread executes no code.
pub fn set_rollforward_limit(limit: Duration) {
    let nanoseconds = u64::try_from(limit.as_nanos()).unwrap_or(u64::MAX);
    // Relaxed: a number on its own.
    LIMIT.store(nanoseconds, Ordering::Relaxed);
}

/// Delivers a fault to its handler.
///
/// # Safety
/// As [`dispatch`](super::dispatch), of which `arrived` and `frame` are.
pub unsafe fn deliver(action: &'static Action, arrived: &Arrived, frame: &Frame) {
    let context = arrived.own;
    let mut delivery = Delivery {
        signal: arrived.signal,
        info: arrived.info,
        context,
        original_pc: context.program_counter(),
        interrupted: Interrupted::Plain,
        in_handler_inside: arrived.in_handler_inside,
        mask: arrived.mask,
        blocked: arrived.blocked,
    };
    match frame.before().zip(original_of(context.program_counter())) {
        // SAFETY: the caller's promise.
        Some((outer, original)) => unsafe {
            deliver_in_clone(action, &delivery, frame, outer, original);
        },
        // SAFETY: the caller's promise.
        None => unsafe { deliver_outside(action, &mut delivery, frame) },
    }
}

/// Returns the instruction of the sequence that corresponds to `pc` in the clone that runs; `None`
/// if no clone runs, or `pc` is in none.
#[inline(never)]
fn original_of(pc: usize) -> Option<usize> {
    if !Words::of_this_thread().rollforward.is_under_way() || controls::is_off(controls::MAPPING) {
        return None;
    }
    table::find_clone(pc)?.original(pc)
}

/// Delivers a fault in the clone that the delivery `outer` runs. `original` is the corresponding
/// instruction of the sequence.
///
/// # Safety
/// As [`deliver`].
unsafe fn deliver_in_clone(
    action: &'static Action,
    delivery: &Delivery,
    frame: &Frame,
    outer: &Frame,
    original: usize,
) {
    COUNTS.faults.add();
    let rollforward = &Words::of_this_thread().rollforward;
    let (context, interrupted) = (delivery.context, outer.context());
    // The clone runs on the stack of the handler that it interrupted the thread for.
    let (pc, stack_pointer, mask) = (
        context.program_counter(),
        context.stack_pointer(),
        context.mask(),
    );
    context.set_stack_pointer(interrupted.stack_pointer());
    context.set_program_counter(original);
    context.set_mask(rollforward.mask());
    let go_back = |frame: &Frame, interrupted| match controls::is_off(controls::OUTER_HANDLER) {
        true => frame.skip_before(),
        false => leave(interrupted, context, stack_pointer, mask),
    };
    if happens_again(delivery.signal) && is_over_limit(outer) {
        // The thread continues in the sequence itself. The pending signal is handled first.
        return go_back(frame, interrupted);
    }
    let number = rollforward.number();
    let info = as_of_sequence(delivery.info, pc, original);
    let delivery = Delivery {
        info: &info,
        original_pc: original,
        interrupted: Interrupted::Inside,
        ..*delivery
    };
    // SAFETY: the caller's promise.
    unsafe { run(action, &delivery, frame) };
    let is_under_way = rollforward.is_under_way() && rollforward.number() == number;
    if is_under_way && context.program_counter() == original {
        // The clone continues. The handler's changes to the mask take effect after its end, and
        // single steps that it has begun go on.
        rollforward.set_mask(context.mask());
        interrupted.copy_trap_flag(context);
        context.set_program_counter(pc);
        context.set_stack_pointer(stack_pointer);
        context.set_mask(mask);
        return;
    }
    // The handler has left the sequence. The signal is delivered where the thread continues.
    if is_under_way {
        abandon_rollforward();
    }
    go_back(frame, interrupted);
}

/// Returns the record that a fault at `pc` would have had at `original`, in the sequence itself.
/// For a trap or a failed instruction, `si_addr` is the instruction's address; for another fault it
/// is the address of the data.
fn as_of_sequence(info: &libc::siginfo_t, pc: usize, original: usize) -> libc::siginfo_t {
    let mut info = *info;
    let is_of_instruction = matches!(info.si_signo, libc::SIGTRAP | libc::SIGILL | libc::SIGFPE);
    // SAFETY: a fault's record holds an address.
    if is_of_instruction && unsafe { info.si_addr() }.addr() == pc {
        /// On every 64-bit target, in words.
        const SI_ADDR: usize = 2;
        let words: *mut usize = (&raw mut info).cast();
        // SAFETY: inside the record, which is aligned to words.
        unsafe { words.add(SI_ADDR).write(original) };
    }
    info
}

/// Delivers a fault that is not in a clone.
///
/// # Safety
/// As [`deliver`].
unsafe fn deliver_outside(action: &'static Action, delivery: &mut Delivery, frame: &Frame) {
    let pc = delivery.original_pc;
    // Before the handler, which may unblock signals: handlers of other code must not jump out of
    // the look-up.
    let restarted_at = restarting_start(pc);
    if frame.is_inside() || delivery.in_handler_inside {
        delivery.interrupted = Interrupted::Inside;
    }
    // SAFETY: the caller's promise.
    unsafe { run(action, delivery, frame) };
    // A restarted sequence observes what the handler has done in its middle. Not after a trap:
    // stepping through the sequence would never reach its end.
    let is_untouched = delivery.context.program_counter() == pc;
    let may_restart =
        is_untouched && delivery.signal != libc::SIGTRAP && !controls::is_off(controls::RESTART);
    if let Some(start) = restarted_at.filter(|_| may_restart) {
        delivery.context.set_program_counter(start);
        COUNTS.restarts.add();
    }
}

/// The beginning of the restarting sequence that `pc` is inside of.
#[inline(never)]
fn restarting_start(pc: usize) -> Option<usize> {
    let row = table::find(pc)?;
    row.clone.is_none().then_some(row.start)
}

/// Runs the handler of a fault and, at its first instruction, the handlers of signals that wait for
/// the faulting delivery. They would wait indefinitely if this handler jumped away. They report the
/// same interruption as this handler.
///
/// # Safety
/// As [`deliver`].
unsafe fn run(action: &'static Action, delivery: &Delivery, frame: &Frame) {
    // SAFETY: the caller's promise.
    let waiting = |mask| unsafe { run_waiting(delivery, frame, mask) };
    // SAFETY: the caller's promise.
    unsafe { run::run_of(frame, action, delivery, waiting) };
}

/// Runs the handlers of waiting signals as if they interrupted code with `mask`: the first
/// instruction of the fault's handler. Returns whether there were any.
///
/// # Safety
/// As [`deliver`].
unsafe fn run_waiting(fault: &Delivery, frame: &Frame, mask: u64) -> bool {
    let mut has_run = false;
    for waited_for in core::iter::successors(Some(frame), |frame| frame.before()) {
        while let Some((entry, signal, info)) = waited_for.take() {
            has_run = true;
            let waited = Delivery {
                signal,
                info: &info,
                // The fault's handler has set the note.
                in_handler_inside: fault.in_handler_inside
                    || fault.interrupted == Interrupted::Inside,
                mask,
                blocked: None,
                ..*fault
            };
            match actions::live_of_entry(signal, entry) {
                // SAFETY: the caller's promise.
                Some(action) => unsafe { run::run(action, &waited) },
                // SAFETY: the caller's promise.
                None => unsafe { pass_on(entry, signal, &info, fault.context, mask, false) },
            }
        }
    }
    has_run
}

fn is_over_limit(delivery: &Frame) -> bool {
    let faulting = delivery.faulting_for(clock::now());
    // Relaxed: a number on its own.
    faulting > LIMIT.load(Ordering::Relaxed) && !controls::is_off(controls::WATCHDOG)
}

/// Counts an abandoned rollforward, and reports the first one. `original` is where the sequence
/// continues.
pub fn report_abandoned(signal: c_int, original: usize) {
    if COUNTS.abandoned.add() == 0 {
        run::say(format_args!(
            "atomseq: the rollforward of the sequence at {original:#x} kept faulting for over {} ms and was abandoned; \
             signal {signal} is handled in the middle of it\n",
            LIMIT.load(Ordering::Relaxed) / 1_000_000,
        ));
    }
}
