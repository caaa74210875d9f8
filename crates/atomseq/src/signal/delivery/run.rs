//! Runs a handler after its delivery has decided how the interrupted code continues.

use core::ffi::c_int;
use core::sync::atomic::Ordering::{self, Relaxed};

use super::super::event::{Event, Handler, Interrupted};
use super::super::stack::while_handling;
use super::super::statistics::COUNTS;
use super::actions::{self, Action, By};
use super::nested::Frame;
use super::passing::while_passing_on;
use super::words::Words;
use crate::arch::syscall;
use crate::platform::{Context, change_mask};

/// One delivery.
#[derive(Clone, Copy)]
pub struct Delivery<'a> {
    pub signal: c_int,
    pub info: &'a libc::siginfo_t,
    pub context: Context,
    pub original_pc: usize,
    pub interrupted: Interrupted,
    /// Whether it interrupts a handler that is in the middle of a sequence.
    pub in_handler_inside: bool,
    /// The mask to which the action's is added.
    pub mask: u64,
    /// The kernel's mask now, if it is known.
    pub blocked: Option<u64>,
}

/// Runs the handler under the mask that it asked for. The thread's words must point at no delivery.
///
/// # Safety
/// The caller runs in a handler, and `delivery` holds what the kernel passed to it. The context of
/// the interrupted code is valid.
pub unsafe fn run(action: &'static Action, delivery: &Delivery) {
    let words = Words::of_this_thread();
    // A handler that jumps away would leave the delivery in the words, and later signals would wait
    // for it indefinitely.
    debug_assert!(words.delivery.load(Relaxed) == 0 || words.rollforward.is_under_way());
    // SAFETY: the caller's promise.
    unsafe { run_with(None, action, delivery, |_| false) };
}

/// As [`run`], for the signal of the delivery `frame`, which has decided with this.
///
/// From then on, arriving signals no longer wait for `frame`. So `waiting` is called once. It runs
/// the handlers of the signals that have waited, as if they interrupted code with the mask that it
/// gets, and returns whether there were any.
///
/// Over a half-done sequence, one of two is set at every instruction: the thread's delivery, for
/// which signals wait, or the note that a handler is inside.
///
/// ```text
/// delivery ─ set the mask ─ note ─ decided ─ handler ─ block others ─ delivery ─ withdraw the note ─ … the entry's end
///                                └─ others report that they are inside ─┘
/// ```
///
/// # Safety
/// As [`run`].
pub unsafe fn run_of(
    frame: &Frame,
    action: &'static Action,
    delivery: &Delivery,
    waiting: impl FnOnce(u64) -> bool,
) {
    // SAFETY: the caller's promise.
    unsafe { run_with(Some(frame), action, delivery, waiting) };
}

/// # Safety
/// As [`run`].
unsafe fn run_with(
    frame: Option<&Frame>,
    action: &'static Action,
    delivery: &Delivery,
    waiting: impl FnOnce(u64) -> bool,
) {
    if action.options.once && !is_first(action, delivery) {
        if let Some(frame) = frame {
            frame.decided_unless_inside();
        }
        let is_direct = frame.is_some_and(|frame| frame.is_called_by_kernel(delivery.context));
        return super::act_by_default(delivery.signal, delivery.info, is_direct);
    }
    let Delivery {
        signal,
        mask,
        interrupted,
        ..
    } = *delivery;
    // A system call might raise the signal again, so none is made to block more signals.
    let is_as_it_was = super::is_refused_call(signal, delivery.info);
    let half_done = match is_as_it_was {
        true => Interrupted::Plain,
        false => interrupted,
    };
    let wanted = action.mask_while_running(signal, mask, half_done);
    let words = Words::of_this_thread();
    let mut blocked = delivery.blocked;
    let is_noted = interrupted == Interrupted::Inside && !delivery.in_handler_inside;
    // A handler that interrupts what follows must not find a fault signal blocked that this handler
    // admits.
    let lets_faults_in = blocked.is_none_or(|blocked| blocked & actions::FAULT_SET & !wanted != 0);
    if frame.is_some() && (is_noted || lets_faults_in) && !is_as_it_was {
        // A handler of other code must not jump away while the thread's words point at the
        // delivery.
        let closed = wanted | actions::undecided_mask();
        if blocked != Some(closed) {
            change_mask(libc::SIG_SETMASK, closed);
        }
        blocked = Some(closed);
    }
    let noted = is_noted.then(|| words.inside.note(delivery.context, wanted & !mask));
    if let Some(frame) = frame {
        frame.decided();
    }
    if waiting(wanted) {
        blocked = None;
    }
    let aside = words.set_aside();
    if blocked != Some(wanted) {
        change_mask(libc::SIG_SETMASK, wanted);
    }
    match action.by {
        By::Handler(handler) => call(handler, action, delivery),
        By::Adopted => {
            // As in `pass_on`: the handler may pass the signal on to the entry that called it.
            let entries = actions::entries_of(signal, action);
            let context = delivery.context;
            // SAFETY: the caller's promise; only functions are adopted.
            while_passing_on(context, entries, || unsafe {
                action
                    .previous
                    .call_passed_on(signal, delivery.info, context.as_ptr());
            });
        }
    }
    if let Some(before) = noted {
        if !is_as_it_was {
            // The handler may have unblocked other signals.
            change_mask(libc::SIG_BLOCK, actions::undecided_mask());
        }
        if let Some(frame) = frame {
            frame.begin();
        }
        words.inside.restore(before);
    }
    if let Some(aside) = aside {
        words.put_back(&aside, delivery.context);
    }
}

fn call(handler: Handler, action: &Action, delivery: &Delivery) {
    COUNTS.deliveries.add();
    // SAFETY: this thread's error number.
    let errno = unsafe { libc::__errno_location() };
    // SAFETY: the address is that of this thread's error number.
    let before = unsafe { *errno };
    let bomb = NoPanic(delivery.signal);
    let mut event = Event {
        signal: delivery.signal,
        info: delivery.info,
        context: delivery.context.as_ptr(),
        program_counter: delivery.context.program_counter(),
        original_pc: delivery.original_pc,
        interrupted: delivery.interrupted,
        previous: &action.previous,
    };
    while_handling(|| handler(&mut event));
    core::mem::forget(bomb);
    // SAFETY: the address is that of this thread's error number.
    unsafe { *errno = before };
}

/// Uses up a handler of one signal. Returns whether `delivery` is that signal: a later one meets
/// the default action.
///
/// The entry stays installed, and stands for the default action from now on. A handler cannot
/// remove it: no system call compares and swaps, so the default action could replace what another
/// thread has just installed. What changes handlers removes it under the lock
/// ([`cover::remove_used_up`]).
fn is_first(action: &Action, delivery: &Delivery) -> bool {
    let signal = delivery.signal;
    if !actions::action(signal).is_some_and(|now| core::ptr::eq(now, action)) {
        // Called by a handler that was installed over it: the kernel would reset nothing.
        return matches!(action.by, By::Adopted) || !action.spent.swap(true, Ordering::SeqCst);
    }
    let is_first = !action.spent.swap(true, Ordering::SeqCst);
    action.retired.store(true, Ordering::SeqCst);
    // After that store, so that `cover::remove_used_up` finds the action retired.
    actions::note_used_up(signal);
    actions::manage_no_longer_unless_handled(signal);
    is_first
}

/// Aborts the process when it is dropped: by a panic, or where the C library unwinds an exiting
/// thread. Neither may unwind into the interrupted code.
struct NoPanic(c_int);

impl Drop for NoPanic {
    fn drop(&mut self) {
        let how = match std::thread::panicking() {
            true => "panicked",
            false => "was left by pthread_exit, or by its thread's cancellation",
        };
        say(format_args!(
            "atomseq: the handler of signal {} {how}, which would unwind through the code it interrupted; aborting\n",
            self.0
        ));
        std::process::abort();
    }
}

/// Writes to standard error without a lock, the heap, or `errno`. Cuts the text at 256 bytes.
pub fn say(text: core::fmt::Arguments<'_>) {
    struct Line {
        bytes: [u8; 256],
        length: usize,
    }
    impl core::fmt::Write for Line {
        fn write_str(&mut self, text: &str) -> core::fmt::Result {
            for &byte in text.as_bytes() {
                *self.bytes.get_mut(self.length).ok_or(core::fmt::Error)? = byte;
                self.length += 1;
            }
            Ok(())
        }
    }
    let mut line = Line {
        bytes: [0; 256],
        length: 0,
    };
    // An error means that the line is full.
    let _ = core::fmt::Write::write_fmt(&mut line, text);
    let arguments = [2, line.bytes.as_ptr() as usize, line.length, 0, 0, 0];
    // SAFETY: `length` bytes of the array were written.
    unsafe { syscall(libc::SYS_write, arguments) };
}
