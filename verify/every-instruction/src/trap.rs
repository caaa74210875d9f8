//! Breakpoints: `int3` over the first byte of an instruction, taken away by the handler of the signal it raises.
//!
//! ```text
//! thread    … mov ─ int3             handler: byte back, interfere, return ─ abort address …
//! kernel              └ signal; the section is armed: instruction pointer = abort address
//! ```
//!
//! One thread at a time, the one that called [`run`], meets breakpoints.

use std::cell::Cell;
use std::ffi::{c_int, c_void};
use std::ops::Range;
use std::ptr;
use std::sync::Once;
use std::sync::atomic::{AtomicPtr, Ordering};

const INT3: u8 = 0xcc;

/// General registers of the interrupted thread, indexed by `libc::REG_…`.
pub type Registers = [i64; 23];

/// A place to stop at, once.
#[derive(Debug)]
pub struct Stop {
    address: usize,
    abort: usize,
    acts: bool,
    original: u8,
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
    /// Interrupts at `address`, in or behind the window whose abort address is `abort`; `acts`: and interferes.
    pub fn new(address: usize, abort: usize, acts: bool) -> Stop {
        Stop {
            address,
            abort,
            acts,
            original: 0,
            met: Cell::new(None),
        }
    }

    /// How it was met in the last run.
    pub fn met(&self) -> Option<Met> {
        self.met.get()
    }
}

type Action<'a> = &'a mut dyn FnMut(&Registers);

struct Run<'a> {
    stops: &'a [Stop],
    count: Cell<usize>,
    action: Cell<Option<Action<'a>>>,
}

/// The run under way, for the handler.
static RUN: AtomicPtr<c_void> = AtomicPtr::new(ptr::null_mut());

/// Calls `body` with a breakpoint at every stop. The stops' text must be [unlocked](unlock).
///
/// `action` runs inside the signal handler of the first stop met that acts.
pub fn run<R>(
    stops: &mut [Stop],
    action: &mut dyn FnMut(&Registers),
    body: impl FnOnce() -> R,
) -> R {
    install();
    for stop in stops.iter_mut() {
        stop.met.set(None);
        // SAFETY: the start of an instruction in unlocked text; this thread alone runs it.
        stop.original = unsafe { swap(stop.address, INT3) };
    }
    let run = Run {
        stops,
        count: Cell::new(0),
        action: Cell::new(Some(action)),
    };
    RUN.store((&raw const run).cast_mut().cast(), Ordering::SeqCst);
    let result = body();
    RUN.store(ptr::null_mut(), Ordering::SeqCst);
    for stop in run.stops.iter().filter(|stop| stop.met().is_none()) {
        // SAFETY: as above; puts back what was there.
        unsafe { swap(stop.address, stop.original) };
    }
    result
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

/// # Safety
/// The byte is unlocked, and no other thread runs it meanwhile.
unsafe fn swap(address: usize, byte: u8) -> u8 {
    let place = address as *mut u8;
    // SAFETY: the caller's promise. Volatile: the processor reads it as code.
    unsafe {
        let before = place.read_volatile();
        place.write_volatile(byte);
        before
    }
}

fn install() {
    static ONCE: Once = Once::new();
    ONCE.call_once(|| {
        // SAFETY: zero is a valid action; its fields are set below.
        let mut action: libc::sigaction = unsafe { std::mem::zeroed() };
        action.sa_sigaction = on_trap as *const () as usize;
        // An interfering operation may itself meet a stop.
        action.sa_flags = libc::SA_SIGINFO | libc::SA_NODEFER;
        // SAFETY: the handler has the signature that SA_SIGINFO asks for.
        let result = unsafe { libc::sigaction(libc::SIGTRAP, &action, ptr::null_mut()) };
        assert_eq!(result, 0, "{}", std::io::Error::last_os_error());
    });
}

extern "C" fn on_trap(_: c_int, _: *mut libc::siginfo_t, context: *mut c_void) {
    let run = RUN.load(Ordering::SeqCst);
    assert!(!run.is_null(), "a breakpoint nobody set");
    // SAFETY: `run` waits on this thread's stack until RUN is null again.
    let run = unsafe { &*run.cast::<Run<'_>>() };
    // SAFETY: the kernel passes the interrupted thread's context to an SA_SIGINFO handler.
    let context = unsafe { &mut *context.cast::<libc::ucontext_t>() };
    let registers = &mut context.uc_mcontext.gregs;
    let pointer = registers[libc::REG_RIP as usize] as usize;
    // The kernel tells where the thread will continue, not where it was: an abort address belongs to one window,
    // and at most one stop of a window is set.
    let stop = run.stops.iter().find(|stop| {
        stop.met().is_none() && (pointer == stop.abort || pointer == stop.address + 1)
    });
    let stop = stop.expect("a breakpoint nobody set");
    // SAFETY: unlocked by the caller of `run`; puts back what was there.
    unsafe { swap(stop.address, stop.original) };
    let aborted = pointer == stop.abort;
    if !aborted {
        registers[libc::REG_RIP as usize] = stop.address as i64;
    }
    let order = run.count.replace(run.count.get() + 1);
    stop.met.set(Some(Met { order, aborted }));
    if stop.acts {
        if let Some(action) = run.action.take() {
            action(registers);
        }
    }
}
