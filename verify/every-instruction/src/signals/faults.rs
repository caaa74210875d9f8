//! Lets signals that cannot be blocked arrive at each instruction of a fault's delivery, and of the
//! return from it.
//!
//! ```text
//! sequence  a │ fault                                                                   │ b c
//! delivery    └ entry … note … handler, which mends … withdraw the note … rt_sigreturn ─┘
//!               └──────────────────── each of these instructions ───────────────────┘
//! ```
//!
//! While only `a` is done, the handler of each of these signals learns that it runs inside; or the
//! library first runs the sequence to its end.

use std::ffi::c_int;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering::SeqCst};
use std::time::Duration;

use atomseq::signal::{self, Event, Interrupted, Options};
use verify_support::pages::Page;
use verify_support::signals::{install, install_plainly, install_with, is_blocked, kernel_mask};

use super::Findings;
use super::deliver::FIRST;
use super::nested::{entry, trace_deliveries};
use super::stepper::{self, Stop};

/// The fault's signal.
const FAULT: c_int = libc::SIGSEGV;

/// The signals that arrive: all that cannot be blocked, except the fault's and the stepper's.
const SENT: [c_int; 5] = [
    libc::SIGABRT,
    libc::SIGBUS,
    libc::SIGFPE,
    libc::SIGILL,
    libc::SIGSYS,
];

static PAGE: OnceLock<Page> = OnceLock::new();
/// The number of faults that the handler is still to leave unrepaired.
static NOT_MENDED: AtomicUsize = AtomicUsize::new(0);
/// How often the handlers of the arriving signals have run, and how often that of the first signal.
static ARRIVED: AtomicUsize = AtomicUsize::new(0);
static HANDLED: AtomicUsize = AtomicUsize::new(0);
/// The violations that such a handler found.
static IS_TORN: AtomicBool = AtomicBool::new(false);
static IS_CLOSED: AtomicBool = AtomicBool::new(false);

fn page() -> &'static Page {
    PAGE.get_or_init(Page::new)
}

/// Returns the three words of the sequence; the second one lies on the faulting page.
fn words() -> *mut usize {
    page().words(1)
}

fn is_torn() -> bool {
    // SAFETY: three words that handlers may read at any time.
    let words: [usize; 3] = unsafe { words().cast::<[usize; 3]>().read_volatile() };
    ![[0; 3], [1; 3]].contains(&words)
}

fn mend() {
    let left = NOT_MENDED.load(SeqCst);
    match left.checked_sub(1) {
        Some(left) => NOT_MENDED.store(left, SeqCst),
        None => page().release(),
    }
}

fn on_fault(_: &mut Event<'_>) {
    mend();
}

extern "C" fn on_fault_of_others(_: c_int, _: *mut libc::siginfo_t, _: *mut libc::c_void) {
    mend();
}

fn note(event: &mut Event<'_>, count: &AtomicUsize) {
    count.fetch_add(1, SeqCst);
    if is_torn() && event.interrupted() != Interrupted::Inside {
        IS_TORN.store(true, SeqCst);
    }
    if is_blocked(FAULT) {
        IS_CLOSED.store(true, SeqCst);
    }
}

fn on_first(event: &mut Event<'_>) {
    note(event, &HANDLED);
}

fn on_unmaskable(event: &mut Event<'_>) {
    note(event, &ARRIVED);
}

/// The kind of the fault's handler.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum By {
    /// Not installed through the library, which adopts it.
    Others,
    /// Installed through the library.
    Library,
    /// Installed through the library; leaves the fault's own signal unblocked.
    NoDefer,
}

/// A fault at whose delivery signals arrive.
#[derive(Clone, Copy)]
pub struct Case {
    /// For messages.
    pub name: &'static str,
    /// The kind of its handler.
    pub by: By,
    /// Whether the fault is in the clone that the first signal's delivery runs.
    pub is_in_clone: bool,
    /// Whether the clone's run is abandoned.
    pub is_given_up: bool,
    /// Whether the sequence runs in a mask.
    pub is_masked: bool,
    /// The code that faults.
    pub call: fn(usize),
}

/// Installs all handlers but the library's of the fault.
pub fn install_handlers() {
    install_plainly(FAULT, on_fault_of_others, 0, &[]);
    install(FIRST, on_first);
    // A handler that is adopted over an adopted one gets an entry of its own.
    install_plainly(FAULT, on_fault_of_others, 0, &[]);
    signal::repair();
    for signal in SENT {
        install(signal, on_unmaskable);
    }
}

/// Interrupts the delivery of a fault at each instruction of the library, and of the code that
/// it calls, by one of the signals in turn. (Debug builds leave out the called code, which is
/// long.) Faults handled by others come first: the library keeps the disposition that it
/// adopted.
pub fn check(found: &mut Findings, case: Case) {
    match case.by {
        By::Others => {}
        By::Library => install(FAULT, on_fault),
        By::NoDefer => install_with(FAULT, on_fault, Options::new().no_defer()),
    }
    stepper::install();
    let from = entry(FAULT);
    assert_ne!(from, entry(FIRST), "each has an entry of its own");
    let mut stops = Vec::new();
    // Instructions that only a first delivery executes do not appear in later ones.
    arm(case);
    (case.call)(words() as usize);
    let row = found.first_row(|| (case.call)(words() as usize));
    if case.is_in_clone {
        let at = row
            .as_ref()
            .expect("the code reaches a sequence")
            .boundaries[1];
        stops.push(Stop {
            from: at,
            at,
            send: vec![FIRST],
        });
    }
    let code = row.map_or(case.call as usize, |row| row.start);
    let (function, _) = found.program.function_at(code).expect("it has a name");
    arm(case);
    let masked = case.is_masked.then(signal::mask);
    let places = trace_deliveries(&stops, from, &[function], || (case.call)(words() as usize));
    drop(masked);
    for (index, at) in places.into_iter().enumerate() {
        let is_ours = found.is_ours(at);
        if !is_ours && cfg!(debug_assertions) {
            continue;
        }
        found.places += 1;
        let signal = SENT[index % SENT.len()];
        let mut stops = stops.clone();
        // The first signal's delivery executes the same instructions before.
        if is_ours && at != from {
            stops.push(Stop {
                from,
                at: from,
                send: Vec::new(),
            });
        }
        stops.push(Stop {
            from: if is_ours { at } else { from },
            at,
            send: vec![signal],
        });
        run(found, case, &stops);
    }
}

fn run(found: &mut Findings, case: Case, stops: &[Stop]) {
    for count in [&ARRIVED, &HANDLED] {
        count.store(0, SeqCst);
    }
    for is_wrong in [&IS_TORN, &IS_CLOSED] {
        is_wrong.store(false, SeqCst);
    }
    arm(case);
    let before = kernel_mask();
    let masked = case.is_masked.then(signal::mask);
    let ((), met) = stepper::run(stops, || (case.call)(words() as usize));
    drop(masked);
    let wrong = [
        (met == stops.len(), "it was not met"),
        (ARRIVED.load(SeqCst) == 1, "its handler has not run once"),
        (
            HANDLED.load(SeqCst) == usize::from(case.is_in_clone),
            "the first signal was not handled once",
        ),
        (
            !IS_TORN.load(SeqCst),
            "the sequence is incomplete, and a handler does not learn it",
        ),
        (
            case.by != By::NoDefer || case.is_in_clone || !IS_CLOSED.load(SeqCst),
            "a fault of the handler would kill",
        ),
        (!is_torn(), "the sequence was not run to its end"),
        (kernel_mask() == before, "the mask is another one"),
    ];
    let Stop { at, ref send, .. } = stops[stops.len() - 1];
    let run = format!("{}, its delivery interrupted by {}", case.name, send[0]);
    found.record(&run, at, &wrong);
}

/// Prepares the words and the page.
fn arm(case: Case) {
    let limit = match case.is_given_up {
        true => Duration::ZERO,
        false => Duration::from_secs(10),
    };
    signal::set_rollforward_limit(limit);
    // The clone's second fault exceeds the limit.
    NOT_MENDED.store(usize::from(case.is_given_up), SeqCst);
    page().release();
    // SAFETY: three words of the page.
    unsafe { words().write_bytes(0, 3) };
    page().interrupt_store(0);
}
