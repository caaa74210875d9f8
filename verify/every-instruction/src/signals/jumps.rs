//! A handler that does not use the library leaves by `siglongjmp`, having arrived at each
//! instruction of a delivery.
//!
//! ```text
//! target ─ sequence  a b │                                                                         │ end
//!    ^     delivery      └ entry … look-up … rollforward … decision … handler … way back to the thread ┘
//!    └──── jump ─────────────┴─────────────── each of these instructions ──────────────────┘
//! ```
//!
//! Afterwards the library's state of the thread must hold nothing of that delivery: signals are
//! handled immediately, nothing is written to the stack that the delivery used, masks are as
//! before, and tables that are replaced later are unmapped.

use std::ffi::c_int;
use std::ops::Range;
use std::ptr;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering::SeqCst};

use atomseq::signal::{self, Event, Interrupted, Options};
use verify_support::jump;
use verify_support::signals::{change_mask, install_plainly, install_with, is_blocked, raise};

use super::Findings;
use super::nested::{entry, trace_delivery};
use super::stepper::{self, Stop};

/// The managed signal whose deliveries are left.
const FIRST: c_int = libc::SIGUSR1;
/// A managed signal that nothing blocks.
const PROBE: c_int = libc::SIGILL;
/// Signals of others, whose handlers jump: one that is blocked where the library requires it, and
/// two that are not.
const LEAVING: [c_int; 3] = [libc::SIGURG, libc::SIGABRT, libc::SIGBUS];

/// How often the library's handlers ran with the correct report of what they interrupted, and how
/// often they were reported to be inside.
static HANDLED: AtomicUsize = AtomicUsize::new(0);
static INSIDE: AtomicUsize = AtomicUsize::new(0);
static PROBED: AtomicUsize = AtomicUsize::new(0);
static JUMPS: AtomicUsize = AtomicUsize::new(0);
/// Whether there is a target to jump to.
static HAS_TARGET: AtomicBool = AtomicBool::new(false);

extern "C" fn leave(_: c_int, _: *mut libc::siginfo_t, _: *mut libc::c_void) {
    JUMPS.fetch_add(1, SeqCst);
    if HAS_TARGET.swap(false, SeqCst) {
        // SAFETY: the target waits, and the frames in between have nothing to drop.
        unsafe { jump::back() }
    }
}

fn handle(event: &mut Event<'_>) {
    let count = match (event.interrupted(), event.signal()) {
        (Interrupted::Inside, _) => &INSIDE,
        (_, FIRST) => &HANDLED,
        _ => &PROBED,
    };
    count.fetch_add(1, SeqCst);
}

/// The bytes of alternate stack that a handler declares to need.
const NEEDED: usize = 1 << 14;

/// Installs all handlers, those of others first; on the thread's alternate stack if so wanted.
pub fn install(is_on_alternate_stack: bool) {
    let (flags, options) = match is_on_alternate_stack {
        true => (libc::SA_ONSTACK, Options::new().on_alternate_stack(NEEDED)),
        false => (0, Options::new()),
    };
    if is_on_alternate_stack {
        let bytes = 1 << 18;
        let stack = libc::stack_t {
            ss_sp: Vec::leak(vec![0u8; bytes]).as_mut_ptr().cast(),
            ss_flags: 0,
            ss_size: bytes,
        };
        // SAFETY: memory that is never freed.
        assert_eq!(unsafe { libc::sigaltstack(&stack, ptr::null_mut()) }, 0);
    }
    for signal in LEAVING {
        install_plainly(signal, leave, flags, &[]);
    }
    install_with(FIRST, handle, options);
    install_with(PROBE, handle, Options::new());
    stepper::install();
}

/// Code with a sequence that a signal interrupts.
#[derive(Clone, Copy)]
pub struct Work {
    /// For messages.
    pub name: &'static str,
    /// The code.
    pub call: extern "C" fn(),
    /// Whether it runs inside a mask.
    pub in_mask: bool,
    /// Prepares it.
    pub prepare: fn(),
    /// Returns whether the sequence was completed, or not begun.
    pub is_whole: fn() -> bool,
}

/// A part of a delivery.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Part {
    /// Up to the handler, or to the delivery's end if no handler is called.
    ToHandler,
    /// The handler and the rest of the delivery.
    FromHandler,
}

/// Jumps out of deliveries, and records the violations found.
pub struct Jumps {
    /// What it has found.
    pub found: Findings,
    is_in_threads: bool,
}

impl Jumps {
    /// Returns jumps out of this program's deliveries; the handlers are installed already. If
    /// `is_in_threads`, each run has a thread of its own: nothing that a run leaves behind keeps
    /// the next one from its places.
    pub fn new(is_in_threads: bool) -> Jumps {
        Jumps {
            found: Findings::of_this_program(),
            is_in_threads,
        }
    }

    /// Lets a signal interrupt the code in the middle of its first sequence, and a handler of
    /// others jump out of the delivery of that signal at each of its instructions: up to its own
    /// handler, or from there on. (Debug builds leave out the code that the library calls, which is
    /// long.)
    pub fn check(&mut self, work: Work, part: Part) {
        (work.prepare)();
        let row = self
            .found
            .first_row(|| perform(work))
            .expect("the code reaches a sequence");
        let interruption = Stop {
            from: row.boundaries[2],
            at: row.boundaries[2],
            send: vec![FIRST],
        };
        let function = |address| {
            let function = self.found.program.function_at(address);
            function.expect("every instruction lies in a function").0
        };
        let handler = handle as *const () as usize;
        // The code may have returned to its caller when its next instruction is met.
        let back = [function(row.start), function(perform as *const () as usize)];
        let [work_itself, caller] = back.clone();
        match part {
            Part::ToHandler => {
                let ends = [handler..handler + 1, work_itself, caller];
                self.check_from(work, &interruption, entry(FIRST), &ends);
            }
            Part::FromHandler => self.check_from(work, &interruption, handler, &back),
        }
    }

    fn check_from(&mut self, work: Work, interruption: &Stop, from: usize, ends: &[Range<usize>]) {
        (work.prepare)();
        let masked = work.in_mask.then(signal::mask);
        let places = trace_delivery(interruption, from, ends, || perform(work));
        drop(masked);
        // SAFETY: two bytes of this program's text.
        let is_system_call = |at: usize| unsafe { (at as *const [u8; 2]).read() } == [0x0f, 0x05];
        let blocks = places
            .iter()
            .position(|&at| self.is_in_entry(at) && is_system_call(at));
        for (index, at) in places.into_iter().enumerate() {
            let is_ours = self.found.is_ours(at);
            if !is_ours && cfg!(debug_assertions) {
                continue;
            }
            self.found.places += 1;
            let from = if is_ours { at } else { from };
            for (number, signal) in LEAVING.into_iter().enumerate() {
                if is_ours || index % LEAVING.len() == number {
                    let send = vec![signal];
                    let stops = [interruption.clone(), Stop { from, at, send }];
                    let is_unblocked = blocks.is_some_and(|blocks| index <= blocks);
                    match self.is_in_threads {
                        true => std::thread::scope(|scope| {
                            scope.spawn(|| self.run(work, &stops, is_unblocked));
                        }),
                        false => self.run(work, &stops, is_unblocked),
                    }
                }
            }
        }
    }

    fn is_in_entry(&self, at: usize) -> bool {
        self.found.program.function_at(at) == self.found.program.function_at(entry(FIRST))
    }

    /// `is_unblocked`: at the second stop, the delivery has not blocked the signals of others yet.
    fn run(&mut self, work: Work, stops: &[Stop; 2], is_unblocked: bool) {
        (work.prepare)();
        for count in [&HANDLED, &INSIDE, &PROBED, &JUMPS] {
            count.store(0, SeqCst);
        }
        let masked = work.in_mask.then(signal::mask);
        let ((), met) = stepper::run(stops, || {
            HAS_TARGET.store(true, SeqCst);
            jump::with_target(work.call);
            HAS_TARGET.store(false, SeqCst);
        });
        let (jumps, is_whole) = (JUMPS.load(SeqCst), (work.is_whole)());
        let overwritten = probe();
        let (probed, in_mask) = (PROBED.load(SeqCst), HANDLED.load(SeqCst));
        drop(masked);
        let after_mask = HANDLED.load(SeqCst);
        raise(FIRST);
        let Stop { at, ref send, .. } = stops[1];
        // The other signal replaces one whose delivery has done nothing yet. That one is lost with
        // it, as it would be if the kernel had called both handlers.
        let may_be_lost = match send[0] == LEAVING[0] {
            true => is_unblocked,
            false => self.is_in_entry(at),
        };
        let wrong = [
            (met == 2 && jumps == 1, "the handler has not jumped"),
            // The handler of a signal that is not blocked yet has, in effect, interrupted the
            // sequence itself.
            (
                is_whole || send[0] == LEAVING[0] && is_unblocked,
                "the sequence is half done",
            ),
            (overwritten == 0, "a live array was overwritten"),
            (probed == 1, "a signal that nothing blocks was not handled"),
            (
                !work.in_mask || may_be_lost || in_mask == 0 && after_mask == 1,
                "the deferred signal was not handled when the mask ended",
            ),
            (
                HANDLED.load(SeqCst) == after_mask + 1,
                "the next signal was not handled",
            ),
            (
                INSIDE.load(SeqCst) == 0,
                "a handler was reported to be inside",
            ),
            (
                !signal::is_masked() && ![FIRST, PROBE].into_iter().any(is_blocked),
                "the mask is another one",
            ),
        ];
        let run = format!("{}, its delivery left by {}", work.name, send[0]);
        self.found.record(&run, at, &wrong);
        // Prepares the next run, in case this one has left signals blocked.
        change_mask(libc::SIG_SETMASK, &[]);
    }

    /// Replaces the tables of sequences, each of which takes a page: unused ones are unmapped.
    pub fn check_tables(&mut self) {
        const TIMES: usize = 256;
        let mapped = || {
            let pages = std::fs::read_to_string("/proc/self/statm").expect("a process has pages");
            let first = pages.split(' ').next().expect("several numbers");
            first.parse::<usize>().expect("a number")
        };
        let before = mapped();
        for _ in 0..TIMES {
            // The finding it reports is the stepper's handler.
            let _ = signal::audit();
        }
        let more = mapped().saturating_sub(before);
        if more >= TIMES / 2 {
            let text = format!("{more} more pages are mapped after {TIMES} audits");
            self.found.violations.push(text);
        }
    }
}

#[inline(never)]
fn perform(work: Work) {
    (work.call)();
    std::hint::black_box(&work);
}

/// Handles a signal over a live array, where the frames of signals were before; returns the number
/// of its words that are no longer zero.
#[inline(never)]
fn probe() -> usize {
    let mut words = [0u64; 1 << 13];
    std::hint::black_box(&mut words);
    raise(PROBE);
    let words = std::hint::black_box(&words);
    words.iter().filter(|word| **word != 0).count()
}
