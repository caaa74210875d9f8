//! Which instructions an operation runs while signals are open, found by running it one instruction at a time.
//!
//! The trap flag raises a signal after each instruction. It stays off while signals are blocked, where that signal
//! would end the process, and comes on again with the first signal delivered afterwards.

use std::cell::{Cell, RefCell};
use std::collections::HashSet;
use std::ffi::{c_int, c_void};
use std::ops::Range;
use std::ptr;
use std::sync::atomic::{AtomicPtr, Ordering};

use crate::blocked;
use crate::breakpoints::Table;
use crate::trap::{self, STEP};

/// The most instructions recorded.
const MOST: usize = 1 << 20;

/// A stretch with signals open.
#[derive(Clone, Debug, Default)]
pub struct Phase {
    /// The addresses of its instructions, each once.
    pub addresses: Vec<usize>,
    /// The system call that ends it by blocking signals.
    pub block: Option<usize>,
}

struct Trace {
    /// The code to record.
    text: Range<usize>,
    entry: usize,
    breakpoint: Table,
    /// Where the operation returns to, once it has begun.
    back: Cell<usize>,
    /// Never grows: the handler may interrupt the allocator.
    steps: RefCell<Vec<Step>>,
}

#[derive(Clone, Copy)]
enum Step {
    At(usize),
    Block(usize),
}

static TRACE: AtomicPtr<c_void> = AtomicPtr::new(ptr::null_mut());

/// Calls `body`, and records what runs of `text` from the first call of the function at `entry` to its return.
pub fn trace(text: Range<usize>, entry: usize, body: impl FnOnce()) -> Vec<Phase> {
    blocked::handle(libc::SIGTRAP, on_step);
    blocked::handle(blocked::SIGNAL, on_open);
    trap::unlock(entry..entry + 1);
    let trace = Trace {
        text,
        entry,
        breakpoint: Table::of([entry]),
        back: Cell::new(0),
        steps: RefCell::new(Vec::with_capacity(MOST)),
    };
    TRACE.store((&raw const trace).cast_mut().cast(), Ordering::SeqCst);
    trace.breakpoint.set(0, true);
    trace.breakpoint.plant();
    body();
    TRACE.store(ptr::null_mut(), Ordering::SeqCst);
    assert_ne!(trace.back.get(), 0, "the operation was not called");
    phases(&trace.steps.borrow())
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
    let registers = &mut context.uc_mcontext.gregs;
    if trace.back.get() == 0 {
        // The breakpoint at the entry.
        trace.breakpoint.lift();
        registers[libc::REG_RIP as usize] = trace.entry as i64;
        // SAFETY: on entry, the return address is on top of the stack.
        let back = unsafe { *(registers[libc::REG_RSP as usize] as *const usize) };
        trace.back.set(back);
        registers[libc::REG_EFL as usize] |= STEP;
    }
    let pointer = registers[libc::REG_RIP as usize] as usize;
    if pointer == trace.back.get() {
        registers[libc::REG_EFL as usize] &= !STEP;
        return;
    }
    let blocking = blocked::is_blocking(context);
    if trace.text.contains(&pointer) || blocking {
        let mut steps = trace.steps.borrow_mut();
        assert!(steps.len() < MOST, "the operation takes too long to record");
        steps.push(match blocking {
            true => Step::Block(pointer),
            false => Step::At(pointer),
        });
    }
    if blocking {
        blocked::block(context);
        context.uc_mcontext.gregs[libc::REG_EFL as usize] &= !STEP;
    }
}

extern "C" fn on_open(_: c_int, _: *mut libc::siginfo_t, context: *mut c_void) {
    // SAFETY: as in `on_step`.
    let context = unsafe { &mut *context.cast::<libc::ucontext_t>() };
    context.uc_mcontext.gregs[libc::REG_EFL as usize] |= STEP;
    // The instruction after the call that opened signals.
    let trace = current();
    let pointer = context.uc_mcontext.gregs[libc::REG_RIP as usize] as usize;
    if trace.text.contains(&pointer) {
        trace.steps.borrow_mut().push(Step::At(pointer));
    }
}

fn current<'a>() -> &'a Trace {
    let trace = TRACE.load(Ordering::SeqCst);
    assert!(!trace.is_null(), "a step nobody asked for");
    // SAFETY: `trace` waits on this thread's stack until TRACE is null again.
    unsafe { &*trace.cast::<Trace>() }
}
