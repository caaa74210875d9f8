//! Stops a thread at chosen instructions, and lets signals arrive exactly there.
//!
//! A breakpoint stops the thread near the instruction; from there the trap flag in the saved
//! context makes it run one instruction at a time:
//!
//! ```text
//! thread   … int3 ─ mov ─ add ─ mov …          handler of SIGTRAP: byte back, trap flag on
//!               └─────┴─────┴─ trap flag           here? send the signals, trap flag off
//!                             └ the signals arrive: their saved program counter is this instruction
//! ```
//!
//! The handler blocks every signal, so the signals that it sends stay pending until it returns, and
//! then arrive before the thread runs another instruction. That makes a stop exact: the saved
//! program counter that the library's handler receives is the chosen instruction, and not a later
//! one.
//!
//! The first stop is a breakpoint because single-stepping from the start would be slow and
//! intrusive: each step is a signal, and a step inside an rseq section would abort it. Only one
//! thread at a time is stopped.

use std::cell::{Cell, RefCell};
use std::ffi::{c_int, c_void};
use std::ops::Range;
use std::ptr;
use std::sync::atomic::{AtomicPtr, Ordering};

use verify_support::code::steps::{STEP, clear_trap_flag, set_trap_flag};
use verify_support::signals::install_alone;
use verify_support::threads;

/// The largest number of instructions recorded or stepped over.
const MAX: usize = 1 << 16;

/// Where to stop, and which signals arrive there.
#[derive(Clone, Debug)]
pub struct Stop {
    /// Where the breakpoint is.
    pub from: usize,
    /// The instruction before which the signals arrive; reached from `from` by single-stepping.
    pub at: usize,
    /// The signals.
    pub send: Vec<c_int>,
}

struct Run<'a> {
    stops: &'a [Stop],
    /// The code at which the record ends.
    ends: &'a [Range<usize>],
    has_ended: Cell<bool>,
    /// The number of stops met.
    met: Cell<usize>,
    /// The address of the planted breakpoint, and the byte that it replaced.
    planted: Cell<Option<(usize, u8)>>,
    steps: Cell<usize>,
    /// The addresses of all instructions, if a record is wanted. Its capacity never grows, because
    /// a handler writes to it.
    record: Option<RefCell<Vec<usize>>>,
    /// Without stops: the number of the instruction before which signals arrive, and the signals.
    arrivals: Option<(usize, &'a [c_int])>,
}

static RUN: AtomicPtr<c_void> = AtomicPtr::new(ptr::null_mut());

/// Calls `body`, which meets the stops one after the other; returns its result and the number of
/// stops met. The text must be [unlocked](verify_support::code::trap::unlock).
pub fn run<R>(stops: &[Stop], body: impl FnOnce() -> R) -> (R, usize) {
    let run = Run::new(stops, None);
    RUN.store((&raw const run).cast_mut().cast(), Ordering::SeqCst);
    run.plant();
    let result = body();
    run.lift();
    RUN.store(ptr::null_mut(), Ordering::SeqCst);
    (result, run.met.get())
}

/// Calls `body`, which meets the stops one after the other. Returns the address of each instruction
/// that it executes from then on, up to the first one that lies in one of `ends`.
pub fn trace_after(stops: &[Stop], ends: &[Range<usize>], body: impl FnOnce()) -> Vec<usize> {
    let run = Run {
        ends,
        ..Run::new(stops, Some(RefCell::new(Vec::with_capacity(MAX))))
    };
    RUN.store((&raw const run).cast_mut().cast(), Ordering::SeqCst);
    run.plant();
    body();
    run.lift();
    RUN.store(ptr::null_mut(), Ordering::SeqCst);
    assert_eq!(run.met.get(), stops.len(), "every stop is met");
    let record = run.record.map(RefCell::into_inner);
    record.unwrap_or_default()
}

/// Calls `body`, and lets `signals` arrive before the instruction with this number. Returns `false`
/// if `body` executes fewer.
pub fn at_step(step: usize, signals: &[c_int], body: impl FnOnce()) -> bool {
    let run = Run {
        arrivals: Some((step, signals)),
        ..Run::new(&[], None)
    };
    RUN.store((&raw const run).cast_mut().cast(), Ordering::SeqCst);
    set_trap_flag();
    body();
    clear_trap_flag();
    RUN.store(ptr::null_mut(), Ordering::SeqCst);
    run.met.get() == 1
}

/// Calls `body`, and returns the address of each instruction that it executes, in order.
pub fn trace(body: impl FnOnce()) -> Vec<usize> {
    let run = Run::new(&[], Some(RefCell::new(Vec::with_capacity(MAX))));
    RUN.store((&raw const run).cast_mut().cast(), Ordering::SeqCst);
    set_trap_flag();
    body();
    clear_trap_flag();
    RUN.store(ptr::null_mut(), Ordering::SeqCst);
    let record = run.record.map(RefCell::into_inner);
    record.unwrap_or_default()
}

/// Installs the handler of SIGTRAP without the knowledge of the library, which may manage the
/// signal.
pub fn install() {
    install_alone(libc::SIGTRAP, on_trap, 0);
}

/// Sends a signal to this thread, which receives it as soon as it is not blocked.
pub fn send(signal: c_int) {
    let sent = threads::signal(threads::this_thread(), signal);
    assert!(sent, "{}", std::io::Error::last_os_error());
}

impl<'a> Run<'a> {
    fn new(stops: &'a [Stop], record: Option<RefCell<Vec<usize>>>) -> Run<'a> {
        Run {
            stops,
            ends: &[],
            has_ended: Cell::new(false),
            met: Cell::new(0),
            planted: Cell::new(None),
            steps: Cell::new(0),
            record,
            arrivals: None,
        }
    }

    /// Plants the next stop's breakpoint.
    fn plant(&self) {
        let Some(stop) = self.stops.get(self.met.get()) else {
            return;
        };
        let place = stop.from as *mut u8;
        // SAFETY: a byte of text that the caller has unlocked, and that no other thread runs.
        unsafe {
            self.planted.set(Some((stop.from, place.read_volatile())));
            place.write_volatile(0xcc);
        }
    }

    /// Removes the breakpoint; returns its address.
    fn lift(&self) -> Option<usize> {
        let (address, byte) = self.planted.take()?;
        // SAFETY: restores the byte that `plant` replaced, in text that the caller has unlocked.
        unsafe { (address as *mut u8).write_volatile(byte) };
        Some(address)
    }

    /// Acts at the instruction at `pointer`, which the thread is about to execute. Returns whether
    /// it continues by single-stepping.
    fn arrive(&self, pointer: usize) -> bool {
        let Some(stop) = self.stops.get(self.met.get()) else {
            return self.record(pointer);
        };
        // Not there yet: one more single step, up to a limit.
        if pointer != stop.at {
            self.steps.set(self.steps.get() + 1);
            return self.steps.get() < MAX;
        }
        // The next breakpoint is planted before this stop's signals arrive, because their handlers
        // may run into it.
        self.met.set(self.met.get() + 1);
        self.plant();
        stop.send.iter().for_each(|signal| send(*signal));
        self.met.get() == self.stops.len() && self.record(pointer)
    }

    /// Records an instruction. Returns whether a record is wanted and continues.
    fn record(&self, pointer: usize) -> bool {
        let Some(record) = self.record.as_ref().filter(|_| !self.has_ended.get()) else {
            return false;
        };
        if self.ends.iter().any(|end| end.contains(&pointer)) {
            self.has_ended.set(true);
            return false;
        }
        let mut record = record.borrow_mut();
        assert!(record.len() < MAX, "the operation takes too long to record");
        record.push(pointer);
        true
    }
}

extern "C" fn on_trap(_: c_int, _: *mut libc::siginfo_t, context: *mut c_void) {
    let run = RUN.load(Ordering::SeqCst);
    assert!(!run.is_null(), "a trap outside of a run");
    // SAFETY: `run` stays on this thread's stack until RUN is null again.
    let run = unsafe { &*run.cast::<Run<'_>>() };
    // SAFETY: the kernel passes the interrupted thread's context to an SA_SIGINFO handler.
    let context = unsafe { &mut *context.cast::<libc::ucontext_t>() };
    let registers = &mut context.uc_mcontext.gregs;
    // `at_step`: counts instructions, and sends the signals at the chosen number.
    if let Some((step, signals)) = run.arrivals {
        run.steps.set(run.steps.get() + 1);
        if run.steps.get() == step {
            run.met.set(1);
            signals.iter().for_each(|signal| send(*signal));
            registers[libc::REG_EFL as usize] &= !STEP;
        }
        return;
    }
    if run.stops.is_empty() {
        // A trace; it ends when the thread clears the flag itself.
        run.record(registers[libc::REG_RIP as usize] as usize);
        return;
    }
    // At a breakpoint the program counter is one byte past it. At a single step no breakpoint is
    // planted until the stop was met, so `lift` returns `None`.
    if let Some(address) = run.lift() {
        registers[libc::REG_RIP as usize] = address as i64;
    }
    match run.arrive(registers[libc::REG_RIP as usize] as usize) {
        true => registers[libc::REG_EFL as usize] |= STEP,
        false => registers[libc::REG_EFL as usize] &= !STEP,
    }
}
