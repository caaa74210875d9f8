//! The signals that interrupt, and their handlers, which run the current run's actions.

use std::cell::Cell;
use std::ffi::{c_int, c_void};
use std::ops::{Add, Sub};
use std::ptr;
use std::sync::atomic::{AtomicPtr, Ordering};

use atomseq::signal::{self, Event, Options};

use super::stepper;
use verify_support::signals::install_short;

/// The managed signal that interrupts an operation.
pub const FIRST: c_int = libc::SIGUSR1;
/// Another managed signal, which the first one's handler unblocks.
pub const SECOND: c_int = libc::SIGUSR2;
/// A signal whose handler does not use the library.
pub const FOREIGN: c_int = libc::SIGURG;

/// The actions of the three signals' handlers, each performed once.
type Actions<'a> = [Cell<Option<&'a mut dyn FnMut()>>; 3];

/// The actions of the current run.
static ACTIONS: AtomicPtr<c_void> = AtomicPtr::new(ptr::null_mut());

/// Counts of the library's actions.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    /// Sequences that were restarted.
    pub restarts: u64,
    /// Sequences that were rolled forward.
    pub rollforwards: u64,
}

impl Counts {
    /// Returns the counts since the process began; zeros where the library does not handle the
    /// signals.
    pub fn now(managed: bool) -> Counts {
        if !managed {
            return Counts::default();
        }
        let statistics = signal::statistics();
        Counts {
            restarts: statistics.restarts,
            rollforwards: statistics.rollforwards,
        }
    }
}

impl Add for Counts {
    type Output = Counts;
    fn add(self, other: Counts) -> Counts {
        Counts {
            restarts: self.restarts + other.restarts,
            rollforwards: self.rollforwards + other.rollforwards,
        }
    }
}

impl Sub for Counts {
    type Output = Counts;
    fn sub(self, other: Counts) -> Counts {
        Counts {
            restarts: self.restarts - other.restarts,
            rollforwards: self.rollforwards - other.rollforwards,
        }
    }
}

/// Calls `body`, during which the three signals' handlers perform these actions, each once.
pub fn with<R>(actions: [&mut dyn FnMut(); 3], body: impl FnOnce() -> R) -> R {
    let actions: Actions<'_> = actions.map(|action| Cell::new(Some(action)));
    ACTIONS.store((&raw const actions).cast_mut().cast(), Ordering::SeqCst);
    let result = body();
    ACTIONS.store(ptr::null_mut(), Ordering::SeqCst);
    result
}

fn act(signal: c_int) {
    let actions = ACTIONS.load(Ordering::SeqCst);
    if actions.is_null() {
        // Not by a panic: where SIGABRT is handled, that would not end the process.
        eprintln!("signal {signal}, which this test did not send");
        std::process::exit(1);
    }
    // SAFETY: `with` stays on this thread's stack until the pointer is null again; the real
    // lifetime is shorter than `'static`.
    let actions = unsafe { &*actions.cast::<Actions<'static>>() };
    let index = match signal {
        FIRST => 0,
        FOREIGN => 2,
        // The second signal, and those that replace it.
        _ => 1,
    };
    if let Some(action) = actions[index].take() {
        action();
    }
}

fn on_event(event: &mut Event<'_>) {
    act(event.signal());
}

extern "C" fn on_signal(signal: c_int) {
    act(signal);
}

/// Installs handlers through the library: the first signal's unblocks the second one.
pub fn install_managed() {
    install_short(FOREIGN, on_signal, 0);
    // SAFETY: the interferences are operations that are allowed in handlers; the rest writes to
    // memory allocated before. Only a test that has found a violation panics.
    unsafe {
        signal::install_with(FIRST, on_event, Options::new().nesting()).expect("a signal of ours");
        signal::install(SECOND, on_event).expect("a signal of ours");
    }
    stepper::install();
}

/// Signals that cannot be blocked, other than the stepper's own: they replace the second one.
pub const UNMASKABLE: [c_int; 6] = [
    libc::SIGABRT,
    libc::SIGBUS,
    libc::SIGFPE,
    libc::SIGILL,
    libc::SIGSEGV,
    libc::SIGSYS,
];

/// Installs handlers through the library, for the first signal and those that cannot be blocked.
pub fn install_unmaskable() {
    for signal in [FIRST].into_iter().chain(UNMASKABLE) {
        // SAFETY: the handler only runs interferences that are allowed in handlers, as in
        // `install_managed`.
        unsafe { signal::install(signal, on_event).expect("a signal of ours") };
    }
    stepper::install();
}

/// Returns the address of the handler that the library calls.
pub fn handler() -> usize {
    on_event as *const () as usize
}

/// Installs handlers without the library: its protection is switched off.
pub fn install_unmanaged() {
    [FIRST, SECOND, FOREIGN]
        .into_iter()
        .for_each(|signal| install_short(signal, on_signal, 0));
    stepper::install();
}
