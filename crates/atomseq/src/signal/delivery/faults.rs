//! Faults: they pass straight through. One inside a clone is reported where the sequence itself
//! would have had it, and a rollforward that only faults is given up in the end (M94 2.3.1, 2.3.2).

use core::ffi::c_int;
use core::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use super::super::statistics::COUNTS;
use super::actions::{self, Action};
use super::nested::Frame;
use super::rollforward::{abandon_rollforward, leave};
use super::run::{self, Delivery};
use super::words::Words;
use super::{Arrived, Interrupted, controls, pass_on};
use crate::clock;
use crate::sequence::table;

/// In nanoseconds.
static LIMIT: AtomicU64 = AtomicU64::new(100_000_000);

/// Sets how long a rollforward may keep faulting before it is given up; 100 ms at first, for the
/// whole process.
///
/// A clone has at most 32 instructions and no backward branch, so all that can keep it from ending
/// is that one of its instructions faults, its fault is handled, and it faults again. Time is
/// looked at when a fault is handled, so a rollforward without a fault pays nothing. When the time
/// since its first fault is over, the rollforward is given up: the signal's handler runs with
/// [`Interrupted::Inside`], the sequence goes on where it was,
/// [`Statistics::abandoned`](super::super::Statistics::abandoned) counts it, and the first one of a
/// process is reported on standard error.
///
/// What this cannot see: a thread that the kernel keeps waiting inside one fault (for a page from a
/// dead file server, or from a `userfaultfd` that does not answer). That thread runs no code at
/// all.
pub fn set_rollforward_limit(limit: Duration) {
    let nanoseconds = u64::try_from(limit.as_nanos()).unwrap_or(u64::MAX);
    // Relaxed: a number on its own.
    LIMIT.store(nanoseconds, Ordering::Relaxed);
}

/// Passes a fault to its handler.
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
    let pc = context.program_counter();
    let is_mapped =
        Words::of_this_thread().rollforward.is_under_way() && !controls::is_off(controls::MAPPING);
    let clone = table::find_clone(pc).filter(|_| is_mapped);
    let original = clone.and_then(|row| row.original(pc));
    match frame.before().zip(original) {
        // SAFETY: the caller's promise.
        Some((outer, original)) => unsafe {
            deliver_in_clone(action, &delivery, frame, outer, original);
        },
        // SAFETY: the caller's promise.
        None => unsafe { deliver_outside(action, &mut delivery, frame) },
    }
}

/// A fault in the clone that the delivery `outer` runs; `original` is where the sequence would have
/// had it.
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
    if is_over_limit(outer) {
        // The sequence goes on in the original. The pending signal is handled first.
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
        // As if the sequence went on: the clone does, and what the handler did to the mask is for
        // later.
        rollforward.set_mask(context.mask());
        context.set_program_counter(pc);
        context.set_stack_pointer(stack_pointer);
        context.set_mask(mask);
        return;
    }
    // The sequence is left, and the signal is delivered where the thread goes.
    if is_under_way {
        abandon_rollforward();
    }
    go_back(frame, interrupted);
}

/// The record of a fault at `pc` as the sequence itself would have had it, at `original`. Of a trap
/// or an instruction that failed, `si_addr` is the instruction's address; of another fault it is
/// the data's.
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

/// A fault that is not in a clone.
///
/// # Safety
/// As [`deliver`].
unsafe fn deliver_outside(action: &'static Action, delivery: &mut Delivery, frame: &Frame) {
    let pc = delivery.original_pc;
    // Before the handler, which may let handlers of others in: these must not jump out of the
    // look-up.
    let row = table::find(pc);
    if frame.is_inside() || delivery.in_handler_inside {
        delivery.interrupted = Interrupted::Inside;
    }
    // SAFETY: the caller's promise.
    unsafe { run(action, delivery, frame) };
    // What a handler does in the middle of a restartable sequence, the sequence sees if it starts
    // again. Not on a trap: a debugger that steps through it would never come to its end.
    let is_untouched = delivery.context.program_counter() == pc;
    let may_restart =
        is_untouched && delivery.signal != libc::SIGTRAP && !controls::is_off(controls::RESTART);
    if let Some(row) = row.filter(|row| may_restart && row.clone.is_none()) {
        delivery.context.set_program_counter(row.start);
        COUNTS.restarts.add();
    }
}

/// Runs the handler of a fault; at its first instruction, those of signals that wait for the
/// delivery that has the fault. They would wait for ever if this handler jumped away, and are told
/// what it is told.
///
/// # Safety
/// As [`deliver`].
unsafe fn run(action: &'static Action, delivery: &Delivery, frame: &Frame) {
    // SAFETY: the caller's promise.
    let waiting = |mask| unsafe { run_waiting(delivery, frame, mask) };
    // SAFETY: the caller's promise.
    unsafe { run::run_of(frame, action, delivery, waiting) };
}

/// Runs the handlers of what waits, as if it had interrupted code with `mask`: the first
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
                // Noted because of the fault's handler.
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
                None => unsafe { pass_on(entry, signal, &info, fault.context, mask) },
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

/// Counts a rollforward that was given up, and reports the first one. `original` is where the
/// sequence goes on.
pub fn report_abandoned(signal: c_int, original: usize) {
    if COUNTS.abandoned.add() == 0 {
        run::say(format_args!(
            "atomseq: the rollforward of the sequence at {original:#x} kept faulting for over {} ms and was abandoned; \
             signal {signal} is handled in the middle of it\n",
            LIMIT.load(Ordering::Relaxed) / 1_000_000,
        ));
    }
}
