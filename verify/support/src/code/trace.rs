//! Which instructions an operation runs while signals are open, found by running it one instruction
//! at a time.
//!
//! ```text
//! breakpoint at the function's entry ─ trap flag on ─ one signal an instruction: record it ─ … ─ return address: off
//!                                                       └ a call that blocks signals: done by the handler, flag off,
//!                                                         and on again with the signal that is delivered at the end
//! ```
//!
//! The trap flag raises a signal after each instruction. It stays off while signals are blocked,
//! where that signal would end the process, and comes on again with the first signal delivered
//! afterwards. A step aborts a section, so a stepped operation takes the way around its sections.
//! [`Way`] describes on which way an operation is followed.

use std::cell::{Cell, RefCell};
use std::collections::HashSet;
use std::ffi::{c_int, c_void};
use std::ops::Range;
use std::ptr;
use std::sync::atomic::{AtomicPtr, AtomicU64, Ordering};

use super::blocked;
use super::breakpoints::Table;
use super::steps::{STEP, call_vdso, vdso};
use super::trap;

/// An operation is followed for at most so many instructions.
const MAX: usize = 1 << 20;

/// How many steps this process has taken: a long way makes progress, one that hangs does not.
static STEPS: AtomicU64 = AtomicU64::new(0);

/// How many steps this process has taken in operations that were followed.
pub fn steps() -> u64 {
    STEPS.load(Ordering::Relaxed)
}

/// A stretch with signals open.
#[derive(Clone, Debug, Default)]
pub struct Phase {
    /// The addresses of its instructions, each once.
    pub addresses: Vec<usize>,
    /// The system call that ends it by blocking signals.
    pub block: Option<usize>,
}

/// The way on which an operation is followed, from the first call of a function to its return.
#[derive(Clone, Copy, Debug)]
pub struct Way {
    /// The function.
    pub entry: usize,
    /// It begins only where sections have been interrupted, one after the other, each at this
    /// instruction of it.
    pub interrupted: [Option<usize>; 2],
    /// One instruction at a time, which interrupts every section that comes: otherwise nothing more
    /// happens.
    pub stepped: bool,
}

/// An instruction, and what is called there.
type At = (usize, fn());

struct Trace {
    /// The code to record.
    text: Range<usize>,
    /// The code that is not stepped through.
    vdso: Range<usize>,
    way: Way,
    /// What happens at which instruction, once.
    at: Cell<Option<At>>,
    record: bool,
    /// The entry, where sections are interrupted, and that instruction.
    addresses: [usize; 4],
    breakpoints: Table,
    /// Where the operation returns to, once it has begun.
    back: Cell<usize>,
    /// Is the way under way?
    begun: Cell<bool>,
    /// Steps taken.
    taken: Cell<usize>,
    /// Never grows: the handler may interrupt the allocator.
    steps: RefCell<Vec<Step>>,
}

#[derive(Clone, Copy)]
enum Step {
    At(usize),
    Block(usize),
}

/// Indices of [`Trace::breakpoints`].
const ENTRY: usize = 0;
const INTERRUPTED: usize = 1;
const AT: usize = 3;

static TRACE: AtomicPtr<c_void> = AtomicPtr::new(ptr::null_mut());

/// Calls `body`, and records what runs of `text` from the first call of the function at `entry` to
/// its return.
pub fn trace(text: Range<usize>, entry: usize, body: impl FnOnce()) -> Vec<Phase> {
    let way = Way {
        entry,
        interrupted: [None; 2],
        stepped: true,
    };
    let (back, phases) = follow(text, way, None, body);
    assert_ne!(back, 0, "the operation was not called");
    phases
}

/// The same on this way, which begins only if the section is come by.
pub fn trace_on(text: Range<usize>, way: Way, body: impl FnOnce()) -> Vec<Phase> {
    follow(text, way, None, body).1
}

/// Calls `body`, and `met` in a signal handler where the way comes by the instruction at an address
/// for the first time, with signals open. If `met` ends the thread, [`forget`] must be called
/// before the next trace.
pub fn meet(way: Way, address: usize, met: fn(), body: impl FnOnce()) {
    follow(0..0, way, Some((address, met)), body);
}

/// Forgets the trace of a thread that has exited in it.
pub fn forget() {
    TRACE.store(ptr::null_mut(), Ordering::SeqCst);
    Table::of([]).plant();
}

fn follow(
    text: Range<usize>,
    way: Way,
    at: Option<At>,
    body: impl FnOnce(),
) -> (usize, Vec<Phase>) {
    blocked::handle(libc::SIGTRAP, on_step);
    blocked::handle(blocked::SIGNAL, on_open);
    let addresses = [
        way.entry,
        way.interrupted[0].unwrap_or(way.entry),
        way.interrupted[1].unwrap_or(way.entry),
        at.map_or(way.entry, |(address, _)| address),
    ];
    for address in addresses {
        trap::unlock(address..address + 1);
    }
    let record = at.is_none();
    let trace = Trace {
        text,
        vdso: vdso(),
        way,
        at: Cell::new(at),
        record,
        addresses,
        breakpoints: Table::of(addresses),
        back: Cell::new(0),
        begun: Cell::new(false),
        taken: Cell::new(0),
        steps: RefCell::new(Vec::with_capacity(if record { MAX } else { 0 })),
    };
    TRACE.store((&raw const trace).cast_mut().cast(), Ordering::SeqCst);
    trace.breakpoints.set(ENTRY, true);
    trace.breakpoints.plant();
    body();
    trace.breakpoints.lift();
    TRACE.store(ptr::null_mut(), Ordering::SeqCst);
    let phases = phases(&trace.steps.borrow());
    (trace.back.get(), phases)
}

fn phases(steps: &[Step]) -> Vec<Phase> {
    let mut phases = vec![Phase::default()];
    let mut seen = HashSet::new();
    for step in steps {
        let phase = phases.last_mut().expect("there is always one");
        match *step {
            Step::At(address) => {
                if seen.insert(address) {
                    phase.addresses.push(address);
                }
            }
            Step::Block(address) => {
                phase.block = Some(address);
                phases.push(Phase::default());
                seen.clear();
            }
        }
    }
    phases
}

extern "C" fn on_step(_: c_int, _: *mut libc::siginfo_t, context: *mut c_void) {
    let trace = current();
    // SAFETY: the kernel passes the interrupted thread's context to an SA_SIGINFO handler.
    let context = unsafe { &mut *context.cast::<libc::ucontext_t>() };
    if trace.begun.get() && trace.way.stepped {
        trace.step(context);
        return;
    }
    trace.breakpoints.lift();
    let pointer = &mut context.uc_mcontext.gregs[libc::REG_RIP as usize];
    let met = (0..=AT).find(|index| trace.breakpoints.is_set(*index));
    let met = met.expect("an unknown breakpoint");
    trace.breakpoints.set(met, false);
    let address = trace.addresses[met];
    // Otherwise the kernel has moved the thread to its section's abort address.
    if *pointer as usize == address + 1 {
        *pointer = address as i64;
    }
    match met {
        ENTRY => {
            // SAFETY: on entry, the return address is on top of the stack.
            let back =
                unsafe { *(context.uc_mcontext.gregs[libc::REG_RSP as usize] as *const usize) };
            trace.back.set(back);
            trace.interrupt(0, context);
        }
        AT => trace.come_by(address),
        index => trace.interrupt(index - INTERRUPTED + 1, context),
    }
}

impl Trace {
    fn plant(&self, index: usize) {
        self.breakpoints.set(index, true);
        self.breakpoints.plant();
    }

    /// So many sections have been interrupted.
    fn interrupt(&self, sections: usize, context: &mut libc::ucontext_t) {
        match self.way.interrupted.get(sections) {
            Some(Some(_)) => self.plant(INTERRUPTED + sections),
            _ => self.begin(context),
        }
    }

    /// The way begins here.
    fn begin(&self, context: &mut libc::ucontext_t) {
        self.begun.set(true);
        if self.way.stepped {
            context.uc_mcontext.gregs[libc::REG_EFL as usize] |= STEP;
            self.step(context);
        } else if !self.record {
            self.plant(AT);
        }
    }

    /// Does what is to be done if the thread is at the instruction for it.
    fn come_by(&self, address: usize) {
        if let Some((_, met)) = self.at.get().filter(|(at, _)| *at == address) {
            self.at.set(None);
            met();
        }
    }

    fn count(&self) {
        STEPS.fetch_add(1, Ordering::Relaxed);
        let taken = self.taken.replace(self.taken.get() + 1);
        assert!(taken < MAX, "the operation takes too long to follow");
    }

    fn step(&self, context: &mut libc::ucontext_t) {
        self.count();
        let registers = &mut context.uc_mcontext.gregs;
        let is_call = |address| self.vdso.contains(&address);
        if is_call(registers[libc::REG_RIP as usize] as usize) {
            // SAFETY: the step before was outside, so this one is a function's first, called by the
            // C library.
            unsafe { call_vdso(registers) };
        }
        let pointer = registers[libc::REG_RIP as usize] as usize;
        if pointer == self.back.get() {
            registers[libc::REG_EFL as usize] &= !STEP;
            return;
        }
        let blocking = blocked::is_blocking(context);
        self.come_by(pointer);
        if self.record && (self.text.contains(&pointer) || blocking) {
            self.steps.borrow_mut().push(match blocking {
                true => Step::Block(pointer),
                false => Step::At(pointer),
            });
        }
        if blocking {
            blocked::block(context);
            context.uc_mcontext.gregs[libc::REG_EFL as usize] &= !STEP;
        }
    }
}

extern "C" fn on_open(_: c_int, _: *mut libc::siginfo_t, context: *mut c_void) {
    let trace = current();
    // SAFETY: as in `on_step`.
    let context = unsafe { &mut *context.cast::<libc::ucontext_t>() };
    context.uc_mcontext.gregs[libc::REG_EFL as usize] |= STEP;
    trace.count();
    // The instruction after the call that opened signals.
    let pointer = context.uc_mcontext.gregs[libc::REG_RIP as usize] as usize;
    trace.come_by(pointer);
    if trace.record && trace.text.contains(&pointer) {
        trace.steps.borrow_mut().push(Step::At(pointer));
    }
}

fn current<'a>() -> &'a Trace {
    let trace = TRACE.load(Ordering::SeqCst);
    assert!(!trace.is_null(), "a step without a trace");
    // SAFETY: `follow` waits on this thread's stack until TRACE is null again.
    unsafe { &*trace.cast::<Trace>() }
}
