//! Breakpoints: `int3` over the first byte of an instruction, taken away by the handler of the
//! signal it raises.
//!
//! ```text
//! thread    … mov ─ int3             handler: byte back, interfere, return ─ abort address …
//! kernel              └ signal; the section is armed: instruction pointer = abort address
//! ```
//!
//! In a section, the kernel has moved the thread to the abort address by the time the handler runs:
//! the interruption is real, and the handler learns which breakpoint it was from that address,
//! since at most one stop of a window is set at a time. Outside, the instruction pointer is one
//! byte behind the breakpoint.
//!
//! A breakpoint while signals are blocked would end the process. So stops are set in phases: the
//! next one begins where a stretch with signals blocked ends (see [`super::blocked`]).
//!
//! One thread at a time, the one that called [`run`], meets breakpoints.

use std::cell::Cell;
use std::ffi::{c_int, c_void};
use std::ops::Range;
use std::ptr;
use std::sync::atomic::{AtomicPtr, Ordering};

use super::blocked;
use super::breakpoints::{self, Table};
use super::steps::STEP;

/// General registers of the interrupted thread, indexed by `libc::REG_…`.
pub type Registers = [i64; 23];

/// What a stop is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// Only the interruption.
    Pass,
    /// The same, every time that it restarts a sequence.
    Always,
    /// The interference.
    Act,
    /// The call that blocks signals: a signal becomes pending there, and its delivery begins the
    /// next phase.
    Block,
}

/// A place to stop at, once.
#[derive(Debug)]
pub struct Stop {
    address: usize,
    abort: Option<usize>,
    kind: Kind,
    phase: usize,
    met: Cell<Option<Met>>,
}

/// How a stop was met.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Met {
    /// How many stops were met before.
    pub order: usize,
    /// Whether the kernel had moved the thread to the abort address.
    pub aborted: bool,
}

impl Stop {
    /// Interrupts at `address`, in or behind the window whose abort address is `abort`.
    pub fn in_window(address: usize, abort: usize, kind: Kind) -> Stop {
        Stop {
            abort: Some(abort),
            ..Stop::at(address, kind, 0)
        }
    }

    /// Interrupts at `address`, outside of windows, in the given phase.
    pub fn at(address: usize, kind: Kind, phase: usize) -> Stop {
        Stop {
            address,
            abort: None,
            kind,
            phase,
            met: Cell::new(None),
        }
    }

    /// How it was met in the last run.
    pub fn met(&self) -> Option<Met> {
        self.met.get()
    }

    /// Was it to act, and did not?
    pub fn missed_act(&self) -> bool {
        self.kind == Kind::Act && self.met().is_none()
    }
}

type Action<'a> = &'a mut dyn FnMut(&Registers);

struct Run<'a> {
    /// The thread that meets the breakpoints.
    thread: libc::pthread_t,
    stops: &'a [Stop],
    table: Table,
    count: Cell<usize>,
    phase: Cell<usize>,
    passed: Cell<Option<usize>>,
    action: Cell<Option<Action<'a>>>,
}

/// The run under way, for the handler.
static RUN: AtomicPtr<c_void> = AtomicPtr::new(ptr::null_mut());

/// Calls `body` with a breakpoint at every stop. The stops' text must be [unlocked](unlock).
///
/// `action` runs inside the signal handler of the first stop met that acts.
pub fn run<R>(stops: &[Stop], action: &mut dyn FnMut(&Registers), body: impl FnOnce() -> R) -> R {
    for signal in [libc::SIGTRAP, blocked::SIGNAL] {
        blocked::handle(signal, breakpoints::entry(on_signal));
    }
    let run = Run {
        thread: this_thread(),
        stops,
        table: Table::of(stops.iter().map(|stop| stop.address)),
        count: Cell::new(0),
        phase: Cell::new(0),
        passed: Cell::new(None),
        action: Cell::new(Some(action)),
    };
    RUN.store((&raw const run).cast_mut().cast(), Ordering::SeqCst);
    run.set_phase();
    run.table.plant();
    let result = body();
    run.table.lift();
    RUN.store(ptr::null_mut(), Ordering::SeqCst);
    result
}

impl Run<'_> {
    fn set_phase(&self) {
        for (index, stop) in self.stops.iter().enumerate() {
            if stop.phase == self.phase.get() {
                self.table.set(index, true);
            }
        }
    }
}

fn this_thread() -> libc::pthread_t {
    // SAFETY: asks for a number.
    unsafe { libc::pthread_self() }
}

/// Makes code writable.
pub fn unlock(range: Range<usize>) {
    // SAFETY: asks for a number.
    let page = unsafe { libc::sysconf(libc::_SC_PAGESIZE) } as usize;
    let start = range.start & !(page - 1);
    let protection = libc::PROT_READ | libc::PROT_WRITE | libc::PROT_EXEC;
    // SAFETY: the pages belong to this program's text and stay readable and executable.
    let result = unsafe { libc::mprotect(start as *mut _, range.end - start, protection) };
    assert_eq!(result, 0, "{}", std::io::Error::last_os_error());
}

/// Runs with all breakpoints lifted.
extern "C" fn on_signal(signal: c_int, _: *mut libc::siginfo_t, context: *mut c_void) {
    let run = RUN.load(Ordering::SeqCst);
    assert!(!run.is_null(), "an unknown breakpoint");
    // SAFETY: `run` waits on this thread's stack until RUN is null again.
    let run = unsafe { &*run.cast::<Run<'_>>() };
    assert_eq!(
        run.thread,
        this_thread(),
        "another thread has met a breakpoint"
    );
    if signal == blocked::SIGNAL {
        run.phase.set(run.phase.get() + 1);
        run.set_phase();
    } else {
        // SAFETY: the kernel passes the interrupted thread's context to an SA_SIGINFO handler.
        on_trap(run, unsafe { &mut *context.cast() });
    }
}

fn on_trap(run: &Run<'_>, context: &mut libc::ucontext_t) {
    if let Some(passed) = run.passed.take() {
        run.table.set(passed, true);
        context.uc_mcontext.gregs[libc::REG_EFL as usize] &= !STEP;
        return;
    }
    let registers = &mut context.uc_mcontext.gregs;
    let pointer = registers[libc::REG_RIP as usize] as usize;
    // The kernel reports where the thread will continue, not where it was: an abort address belongs
    // to one window, and at most one stop of a window is set.
    let index = (0..run.stops.len()).find(|index| {
        let stop = &run.stops[*index];
        let here = stop.abort == Some(pointer) || stop.address + 1 == pointer;
        here && run.table.is_set(*index)
    });
    let index = index.expect("an unknown breakpoint");
    let stop = &run.stops[index];
    let aborted = stop.abort == Some(pointer);
    if !aborted {
        registers[libc::REG_RIP as usize] = stop.address as i64;
    }
    if stop.kind == Kind::Block && !blocked::is_blocking(context) {
        // Another system call from the same place: let it pass, and set the breakpoint again behind
        // it.
        run.table.set(index, false);
        run.passed.set(Some(index));
        context.uc_mcontext.gregs[libc::REG_EFL as usize] |= STEP;
        return;
    }
    run.table.set(index, aborted && stop.kind == Kind::Always);
    let order = run.count.replace(run.count.get() + 1);
    stop.met.set(Some(Met { order, aborted }));
    match stop.kind {
        Kind::Pass | Kind::Always => {}
        Kind::Act => {
            if let Some(action) = run.action.take() {
                action(&context.uc_mcontext.gregs);
            }
        }
        Kind::Block => blocked::block(context),
    }
}
