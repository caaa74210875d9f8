//! The signals of a run: ticks, and the report of an overflow.

use core::ffi::{c_int, c_void};
use core::mem::MaybeUninit;
use core::ptr;
use std::io;
use std::sync::{Once, OnceLock};
use std::time::Duration;

use atomseq::signal::{self, AlternateStack, Event, Interrupted, Options};

use super::scheduler::{expect_scheduler, scheduler};
use super::{Error, MIN_SLICE, generator};
use crate::arch::Preemption;
use crate::runtime;

/// What `yield_preempted` may take of the stack, in bytes: its frames, and those of the scheduler,
/// which are larger without optimisation.
const FRAMES: usize = if cfg!(debug_assertions) { 2048 } else { 1024 };

/// The bytes of the alternate stack that the handlers use, beside those of deliveries.
const HANDLER: usize = 4096;

/// Returns how coroutines with these stacks are preempted.
pub(super) fn prepare(slice: Duration, stack: usize) -> Result<Preemption, Error> {
    static PREEMPTION: OnceLock<Option<Preemption>> = OnceLock::new();
    if slice < MIN_SLICE {
        return Err(Error::SliceTooShort(slice));
    }
    // SAFETY: one thread at a time, always for the same function.
    let preemption = PREEMPTION.get_or_init(|| unsafe { Preemption::new(yield_preempted, FRAMES) });
    let preemption = preemption.ok_or(Error::NoPreemption)?;
    let needs = 2 * preemption.room();
    if stack < needs {
        let size = stack;
        return Err(Error::StackTooSmall { size, needs });
    }
    Ok(preemption)
}

/// The ticks of the calling thread, for as long as this lives.
pub(super) struct Ticks {
    timer: libc::timer_t,
    /// The process that the timer belongs to: the child of a fork does not inherit it.
    process: u32,
    signal: c_int,
    /// Whether the caller had blocked the signal.
    was_blocked: bool,
}

impl Ticks {
    pub fn start(slice: Duration, signal: c_int) -> Result<Ticks, Error> {
        // A tick by one of them could interrupt a handler.
        if crate::NEVER_BLOCKED.contains(&signal) {
            return Err(Error::Signal(signal::Error::Reserved(signal)));
        }
        let claims = crate::claim_signals();
        // Without that handler, runtimes would preempt no thread.
        if runtime::has_handler(signal) {
            return Err(Error::SignalTaken(signal));
        }
        let options = Options::new().on_alternate_stack(HANDLER);
        // SAFETY: the handler reads what belongs to its thread, and changes the context as
        // `preemptible` allows.
        unsafe { signal::install_with(signal, tick, options) }.map_err(Error::Signal)?;
        drop(claims);
        let mut timer = MaybeUninit::uninit();
        // SAFETY: plain old data.
        let mut event: libc::sigevent = unsafe { core::mem::zeroed() };
        event.sigev_notify = libc::SIGEV_THREAD_ID;
        event.sigev_signo = signal;
        // SAFETY: asks for the thread's number, then creates a timer that `drop` deletes.
        let result = unsafe {
            event.sigev_notify_thread_id = libc::gettid();
            libc::timer_create(libc::CLOCK_MONOTONIC, &mut event, timer.as_mut_ptr())
        };
        if result != 0 {
            return Err(Error::Timer(io::Error::last_os_error()));
        }
        // SAFETY: created above.
        let timer = unsafe { timer.assume_init() };
        let process = std::process::id();
        let ticks = Ticks {
            timer,
            process,
            signal,
            was_blocked: runtime::change_mask(libc::SIG_UNBLOCK, signal),
        };
        let every = libc::timespec {
            tv_sec: slice.as_secs().try_into().unwrap_or(libc::time_t::MAX),
            tv_nsec: slice.subsec_nanos().into(),
        };
        let times = libc::itimerspec {
            it_interval: every,
            it_value: every,
        };
        // SAFETY: the timer above.
        match unsafe { libc::timer_settime(ticks.timer, 0, &times, ptr::null_mut()) } {
            0 => Ok(ticks),
            _ => Err(Error::Timer(io::Error::last_os_error())),
        }
    }
}

impl Drop for Ticks {
    fn drop(&mut self) {
        if self.process == std::process::id() {
            // SAFETY: the timer of `start`. A tick that is under way finds a scheduler, or none.
            unsafe { libc::timer_delete(self.timer) };
        }
        if self.was_blocked {
            runtime::change_mask(libc::SIG_BLOCK, self.signal);
        }
    }
}

/// The handler of ticks.
fn tick(event: &mut Event<'_>) {
    let Some((scheduler, preemption)) =
        scheduler().and_then(|scheduler| Some((scheduler, scheduler.preemption?)))
    else {
        return;
    };
    let may_preempt = event.interrupted() != Interrupted::Inside && scheduler.may_preempt();
    // SAFETY: the context of a signal that has interrupted the running coroutine, whose stack ends
    // at the limit. The caller of `preemptible` has promised that its code may be interrupted so.
    if !(may_preempt && unsafe { preemption.redirect(event.context(), scheduler.limit()) }) {
        scheduler.note_tick();
    }
}

/// What a preempted coroutine calls.
unsafe extern "C" fn yield_preempted() {
    expect_scheduler().yield_preempted();
}

/// The disposition of `SIGSEGV` that was there before.
static BEFORE: OnceLock<libc::sigaction> = OnceLock::new();

/// Lets faults in guard pages be reported, on this thread for as long as the result lives, which is
/// the stack of the handlers here; or for as long as the thread keeps the alternate stack that it
/// has, if that has room for the report, and if no ticks come on it. That saves six system calls.
/// If the system refuses a stack, an overflow ends the process without a message.
pub(super) fn report_overflows(has_ticks: bool) -> Result<Option<AlternateStack>, signal::Error> {
    install_report();
    let size = alternate_stack_size();
    if !has_ticks && size >= frame() + HANDLER {
        return Ok(None);
    }
    // The handlers of other code keep the room that they had.
    AlternateStack::new(HANDLER.max(size)).map(Some)
}

/// Returns the size of the kernel's frame of a signal, in bytes.
fn frame() -> usize {
    const AT_MINSIGSTKSZ: libc::c_ulong = 51;
    // SAFETY: reads a number that the kernel has passed at program start; 0 if it has not.
    let reported = unsafe { libc::getauxval(AT_MINSIGSTKSZ) } as usize;
    reported.max(libc::MINSIGSTKSZ)
}

/// Installs the handler that reports them, once.
pub(super) fn install_report() {
    static INSTALLED: Once = Once::new();
    INSTALLED.call_once(|| {
        // SAFETY: plain old data; `overflow` does only what a handler may do.
        unsafe {
            let mut before = core::mem::zeroed();
            libc::sigaction(libc::SIGSEGV, ptr::null(), &mut before);
            // It reads this, so it comes first.
            let _ = BEFORE.set(before);
            let mut action: libc::sigaction = core::mem::zeroed();
            action.sa_sigaction = overflow as *const () as usize;
            // The handler before runs as it would without this one. Without one, the signal is not
            // blocked while it is sent again.
            action.sa_mask = before.sa_mask;
            action.sa_flags = match before.sa_sigaction {
                libc::SIG_DFL | libc::SIG_IGN => libc::SA_NODEFER,
                _ => before.sa_flags & (libc::SA_NODEFER | libc::SA_RESTART),
            };
            action.sa_flags |= libc::SA_SIGINFO | libc::SA_ONSTACK;
            libc::sigaction(libc::SIGSEGV, &action, ptr::null_mut());
        }
    });
}

/// Returns the size of the alternate stack that this thread has, in bytes; 0 if it has none.
fn alternate_stack_size() -> usize {
    // SAFETY: plain old data; asks only.
    let (result, stack) = unsafe {
        let mut stack: libc::stack_t = core::mem::zeroed();
        (libc::sigaltstack(ptr::null(), &mut stack), stack)
    };
    match result == 0 && stack.ss_flags & libc::SS_DISABLE == 0 {
        true => stack.ss_size,
        false => 0,
    }
}

/// The handler of faults: reports an overflow, and passes all others on.
///
/// # Safety
///
/// The kernel calls it.
unsafe extern "C" fn overflow(signal: c_int, info: *mut libc::siginfo_t, context: *mut c_void) {
    // SAFETY: the record of a fault.
    let (address, code) = unsafe { ((*info).si_addr() as usize, (*info).si_code) };
    let of_coroutine = || scheduler()?.overflowed(address);
    if code > 0
        && let Some(size) = of_coroutine().or_else(|| generator::overflowed(address))
    {
        report(size);
    }
    let Some(before) = BEFORE.get() else { return };
    match before.sa_sigaction {
        libc::SIG_DFL | libc::SIG_IGN => {
            // SAFETY: the fault happens again, and then ends the process. A signal that was sent
            // does not, so it is sent again.
            unsafe {
                libc::sigaction(signal, before, ptr::null_mut());
                if code <= 0 {
                    libc::raise(signal);
                }
            }
        }
        handler if before.sa_flags & libc::SA_SIGINFO != 0 => {
            // SAFETY: a handler of three arguments, with those of the kernel.
            unsafe {
                let handler: extern "C" fn(c_int, *mut libc::siginfo_t, *mut c_void) =
                    core::mem::transmute(handler);
                handler(signal, info, context);
            }
        }
        handler => {
            // SAFETY: a handler of one argument.
            unsafe {
                let handler: extern "C" fn(c_int) = core::mem::transmute(handler);
                handler(signal);
            }
        }
    }
}

/// Writes a message about a stack of `size` bytes, and ends the process. Allocates nothing.
fn report(size: usize) -> ! {
    let mut digits = [0; 20];
    let mut first = digits.len();
    let mut rest = size;
    while rest > 0 || first == digits.len() {
        first -= 1;
        digits[first] = b'0' + (rest % 10) as u8;
        rest /= 10;
    }
    let parts: [&[u8]; 3] = [
        b"\natomseq-threads: a coroutine has overflowed its stack of ",
        &digits[first..],
        b" bytes; give it a larger one (Builder::stack_size, Generator::with_stack_size)\n",
    ];
    for part in parts {
        // SAFETY: writes a part of the message.
        unsafe { libc::write(2, part.as_ptr().cast(), part.len()) };
    }
    std::process::abort()
}
