//! The breakpoint, and the places for it.

use std::collections::BTreeSet;
use std::ffi::{c_int, c_void};
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU8, AtomicUsize, Ordering};

use verify_support::code::table::{self, Program};
use verify_support::code::{blocked, trace, trap};

use crate::interrupt::with_errno_kept;

const INT3: u8 = 0xcc;

/// The address of the breakpoint; 0: there is none.
static PLANTED: AtomicUsize = AtomicUsize::new(0);
/// Its last address: a thread may have hit it while another removed it.
static LAST: AtomicUsize = AtomicUsize::new(0);
/// The byte that it replaced.
static ORIGINAL: AtomicU8 = AtomicU8::new(0);
/// The function that the thread which hits it calls: a `fn()`.
static MET: AtomicUsize = AtomicUsize::new(0);

/// Instructions to stop at.
#[derive(Clone, Debug, Default)]
pub struct Places {
    seen: BTreeSet<usize>,
    order: Vec<usize>,
}

impl Places {
    /// Adds the instructions of atomseq, and of the function at `entry`, that `operation` executes
    /// when it calls that function.
    pub fn add(&mut self, entry: usize, mut operation: impl FnMut()) {
        let program = program();
        // The sections first: single steps abort them.
        operation();
        let windows = program.windows(table::SECTION);
        let starts: Vec<trap::Stop> = windows
            .iter()
            .map(|window| window.at_start(trap::Kind::Pass))
            .collect();
        trap::run(&starts, &mut |_| (), &mut operation);
        let mut addresses = BTreeSet::new();
        for (window, start) in windows.iter().zip(&starts) {
            if start.met().is_some() {
                addresses.extend(window.boundaries.iter().copied());
            }
        }
        // Single steps abort every section: with this limit the path that does without is found
        // soon.
        atomseq::set_restart_limit(1);
        let phases = trace::trace(program.text(), entry, &mut operation);
        atomseq::set_restart_limit(atomseq::sequence::DEFAULT_RESTART_LIMIT);
        for phase in phases {
            addresses.extend(phase.addresses);
        }
        addresses
            .retain(|address| self.seen.insert(*address) && may_stop_at(program, entry, *address));
        self.order.extend(addresses);
    }

    /// Prepares this process for stops.
    pub fn ready(&self) {
        if !self.is_empty() {
            blocked::handle(libc::SIGTRAP, on_trap);
        }
    }

    /// Returns the number of places.
    pub fn len(&self) -> usize {
        self.order.len()
    }

    /// Returns whether there are no places.
    pub fn is_empty(&self) -> bool {
        self.order.is_empty()
    }

    /// Makes the first thread that reaches the place call `met`, in a signal handler. Returns
    /// `None` if there are no places or a breakpoint is planted already. The process must be
    /// [ready](Places::ready).
    pub fn plant(&self, index: usize, met: fn()) -> Option<Stop> {
        let address = *self.order.get(index)?;
        if PLANTED.load(Ordering::SeqCst) != 0 {
            return None;
        }
        MET.store(met as usize, Ordering::SeqCst);
        LAST.store(address, Ordering::SeqCst);
        ORIGINAL.store(byte(address).load(Ordering::SeqCst), Ordering::SeqCst);
        PLANTED.store(address, Ordering::SeqCst);
        byte(address).store(INT3, Ordering::SeqCst);
        Some(Stop(()))
    }

    /// Describes the place, for messages.
    pub fn describe(&self, index: usize) -> String {
        program().place(self.order[index])
    }
}

/// A planted breakpoint. Only one exists at a time.
#[derive(Debug)]
pub struct Stop(());

impl Stop {
    /// Removes the breakpoint unless a thread has. Returns `true` if it was hit.
    pub fn lift(self) -> bool {
        let met = PLANTED.load(Ordering::SeqCst) == 0;
        drop(self);
        met
    }
}

impl Drop for Stop {
    fn drop(&mut self) {
        take_away();
    }
}

/// Removes the breakpoint. Returns `true` if this call removed it.
///
/// The byte is restored first. Otherwise a thread interrupted in between would leave a breakpoint
/// that no variable records, and other threads, or its own handlers, would hit it indefinitely.
#[inline(always)]
fn take_away() -> bool {
    let address = PLANTED.load(Ordering::SeqCst);
    if address == 0 {
        return false;
    }
    byte(address).store(ORIGINAL.load(Ordering::SeqCst), Ordering::SeqCst);
    PLANTED
        .compare_exchange(address, 0, Ordering::SeqCst, Ordering::SeqCst)
        .is_ok()
}

/// Returns a byte of this program's text, which is writable.
#[inline(always)]
fn byte<'a>(address: usize) -> &'a AtomicU8 {
    // SAFETY: `Places::of` has made the text writable; a thread that executes it fetches either
    // byte.
    unsafe { AtomicU8::from_ptr(address as *mut u8) }
}

extern "C" fn on_trap(_: c_int, _: *mut libc::siginfo_t, context: *mut c_void) {
    let first = take_away();
    // SAFETY: the kernel passes the interrupted thread's context to an SA_SIGINFO handler.
    let context = unsafe { &mut *context.cast::<libc::ucontext_t>() };
    let pointer = &mut context.uc_mcontext.gregs[libc::REG_RIP as usize];
    // Otherwise the kernel has moved the thread to its section's abort address.
    if *pointer as usize == LAST.load(Ordering::SeqCst) + 1 {
        *pointer -= 1;
    }
    if first {
        // SAFETY: `plant` stored a function of this type.
        let met: fn() = unsafe { std::mem::transmute(MET.load(Ordering::SeqCst)) };
        with_errno_kept(met);
    }
}

/// Returns this program, with its text made writable.
pub(crate) fn program() -> &'static Program {
    static PROGRAM: OnceLock<Program> = OnceLock::new();
    PROGRAM.get_or_init(|| {
        let program = Program::this();
        trap::unlock(program.text());
        program
    })
}

/// Returns whether the instruction is outside of functions that the handler itself may use.
pub(super) fn may_stop_at(program: &Program, entry: usize, address: usize) -> bool {
    program
        .function_at(address)
        .is_some_and(|(function, name)| function.contains(&entry) || is_tested(name))
}

/// Returns whether a function is of atomseq or of a structure that is wrong on purpose.
fn is_tested(name: &str) -> bool {
    let own = [
        "<atomseq::",
        "atomseq::",
        "<verify_history::broken",
        "verify_history::broken",
    ];
    own.iter().any(|own| name.starts_with(own))
}
