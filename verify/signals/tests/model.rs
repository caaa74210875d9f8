//! Random sequences of what a program and its libraries do with handlers, compared with a model of
//! `sigaction`. Each sequence runs in a process of its own.
//!
//! The model has no masks, entries or adoption. A disposition is empty, a library's function, or
//! one of atomseq's handlers; a saved and restored disposition means what it meant before. The
//! model differs from `sigaction` where the documentation does: a removed handler that is restored
//! means the one below it, and a one-shot handler, once used, is the default action, whatever is
//! installed later.
#![cfg(atomseq_sections)]

use std::sync::atomic::{AtomicUsize, Ordering::SeqCst};

use atomseq::internals::signal_controls as controls;
use atomseq::signal::{self, Event, Fault, Options, mask};
use verify_signals::{clear_log, log, logged};
use verify_support::processes::{exit_code, fork, in_fresh_process, start_child};
use verify_support::signals::{Three, install_plainly, install_with, raise};
use verify_support::{number_from_env, this_test};

/// Two signals that are ignored by default, and a fault's.
const SIGNALS: [i32; 3] = [libc::SIGURG, libc::SIGWINCH, libc::SIGFPE];
/// The signal that no mask defers.
const FAULT: usize = 2;
/// The number of libraries. The last one does not pass signals on.
const LIBRARIES: usize = 4;

#[derive(Clone, Copy, Debug)]
enum Step {
    Install {
        at: usize,
        handler: usize,
        once: bool,
    },
    Uninstall {
        at: usize,
    },
    Library {
        at: usize,
        number: usize,
    },
    PutBack {
        at: usize,
        number: usize,
    },
    Ignore {
        at: usize,
    },
    Raise {
        at: usize,
    },
    Masked {
        raised: [usize; 3],
    },
    Repair,
}

/// A disposition in the model.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Does {
    Nothing,
    Library(usize),
    /// An index into `Signal::ours`.
    Ours(usize),
}

#[derive(Clone, Copy, Debug)]
enum Kind {
    /// Handlers with an odd number chain.
    Handler {
        handler: usize,
        once: bool,
    },
    Adopted,
}

/// One of atomseq's places in the chain.
#[derive(Clone, Copy, Debug)]
struct Ours {
    kind: Kind,
    below: Does,
    is_retired: bool,
    is_used_up: bool,
}

#[derive(Clone, Debug)]
struct Signal {
    now: Does,
    ours: Vec<Ours>,
    newest: usize,
    saved: [Option<Does>; LIBRARIES],
}

impl Signal {
    fn live(&self) -> Option<usize> {
        let is_live = |ours: &Ours| !ours.is_retired && matches!(ours.kind, Kind::Handler { .. });
        self.ours.get(self.newest).filter(|ours| is_live(ours))?;
        Some(self.newest)
    }

    /// Installs one of atomseq's handlers over the current disposition. Over an empty disposition,
    /// or the one that it was over before, it is the same handler as before.
    fn put_over(&mut self, kind: Kind) {
        let below = self.now;
        let is_same = self.ours.get(self.newest).is_some_and(|newest| {
            let is_over_it = newest.is_retired && newest.below == below;
            (below == Does::Nothing || is_over_it) && !newest.is_used_up
        });
        if !is_same {
            self.newest = self.ours.len();
            self.ours.push(Ours {
                kind,
                below,
                is_retired: false,
                is_used_up: false,
            });
        }
        self.ours[self.newest] = Ours {
            kind,
            below,
            is_retired: false,
            is_used_up: false,
        };
        self.now = Does::Ours(self.newest);
    }

    fn cover(&mut self, at: usize) {
        if self.live().is_some() {
            return;
        }
        if let Does::Ours(number) = self.now {
            match self.ours[number].is_retired {
                true => self.now = self.ours[number].below,
                false => self.newest = number,
            }
        }
        if let (FAULT, Does::Library(_)) = (at, self.now) {
            self.put_over(Kind::Adopted);
        }
    }

    /// A signal arrives; `defers` says whether one of atomseq's handlers would defer it. Returns
    /// whether it was deferred.
    fn arrive(&mut self, does: Does, at: usize, defers: bool, log: &mut Vec<usize>) -> bool {
        match does {
            Does::Nothing => false,
            Does::Library(number) => {
                log.push(of_library(at, number));
                let next = self.saved[number].unwrap_or(Does::Nothing);
                number + 1 != LIBRARIES && self.arrive(next, at, defers, log)
            }
            Does::Ours(number) => {
                let Ours {
                    kind,
                    below,
                    is_retired,
                    ..
                } = self.ours[number];
                let Kind::Handler { handler, once } = kind else {
                    return self.arrive(below, at, defers, log);
                };
                if is_retired {
                    return self.arrive(below, at, defers, log);
                }
                if defers && at != FAULT {
                    return true;
                }
                if once {
                    self.ours[number].is_retired = true;
                    self.ours[number].is_used_up = true;
                    self.ours[number].below = Does::Nothing;
                    if self.now == Does::Ours(number) {
                        self.now = Does::Nothing;
                    }
                }
                log.push(of_handler(at, handler));
                handler % 2 == 1 && self.arrive(below, at, defers, log)
            }
        }
    }
}

fn of_library(at: usize, number: usize) -> usize {
    1000 + 100 * at + number
}

fn of_handler(at: usize, handler: usize) -> usize {
    100 * at + handler
}

struct Model([Signal; 3]);

impl Model {
    fn new() -> Model {
        Model([const { None::<Signal> }; 3].map(|_| Signal {
            now: Does::Nothing,
            ours: Vec::new(),
            newest: 0,
            saved: [None; LIBRARIES],
        }))
    }

    fn cover(&mut self) {
        for (at, signal) in self.0.iter_mut().enumerate() {
            signal.cover(at);
        }
    }

    fn managed(&self) -> Vec<usize> {
        (0..FAULT)
            .filter(|&at| self.0[at].live().is_some())
            .collect()
    }

    fn arrive(&mut self, at: usize, defers: bool, log: &mut Vec<usize>) -> bool {
        let now = self.0[at].now;
        self.0[at].arrive(now, at, defers, log)
    }
}

/// The handlers that the libraries have displaced.
static FOUND: [[AtomicUsize; LIBRARIES]; 3] =
    [const { [const { AtomicUsize::new(0) }; LIBRARIES] }; 3];

fn place_of(signal: i32) -> usize {
    SIGNALS
        .iter()
        .position(|&one| one == signal)
        .expect("one of them")
}

extern "C" fn library<const N: usize>(
    signal: i32,
    info: *mut libc::siginfo_t,
    context: *mut libc::c_void,
) {
    let at = place_of(signal);
    log(of_library(at, N));
    let found = FOUND[at][N].load(SeqCst);
    if N + 1 != LIBRARIES && found > libc::SIG_IGN {
        // SAFETY: a handler of three arguments, called as the kernel would.
        unsafe { std::mem::transmute::<usize, Three>(found)(signal, info, context) };
    }
}

const FUNCTIONS: [Three; LIBRARIES] = [library::<0>, library::<1>, library::<2>, library::<3>];

fn handler<const N: usize>(event: &mut Event<'_>) {
    log(of_handler(place_of(event.signal()), N));
    if N % 2 == 1 {
        event.chain();
    }
}

const HANDLERS: [signal::Handler; 4] = [handler::<0>, handler::<1>, handler::<2>, handler::<3>];

/// Takes steps, in this process and in the model.
struct Run {
    model: Model,
    found: [[Option<libc::sigaction>; LIBRARIES]; 3],
}

impl Run {
    fn new() -> Run {
        for signal in SIGNALS {
            ignore(signal);
        }
        Run {
            model: Model::new(),
            found: [[None; LIBRARIES]; 3],
        }
    }

    fn take(&mut self, step: Step) {
        clear_log();
        match step {
            Step::Install { at, handler, once } => {
                let options = if once {
                    Options::new().once()
                } else {
                    Options::new()
                };
                install_with(SIGNALS[at], HANDLERS[handler], options);
                self.model.cover();
                let signal = &mut self.model.0[at];
                let kind = Kind::Handler { handler, once };
                match (signal.live(), signal.now) {
                    (Some(live), now) if now == Does::Ours(live) || now == Does::Nothing => {
                        signal.ours[live].kind = kind;
                        signal.now = Does::Ours(live);
                    }
                    // Of a library that has displaced it: goes over that.
                    (Some(live), Does::Library(_)) => {
                        signal.put_over(kind);
                        signal.ours[live].is_retired = true;
                    }
                    // A used-up one that was put back is the default action.
                    (Some(_), Does::Ours(earlier)) if signal.ours[earlier].is_used_up => {
                        signal.now = Does::Nothing;
                        signal.put_over(kind);
                    }
                    // One that was put back: stands for what is below it.
                    (Some(live), Does::Ours(earlier)) => {
                        signal.ours[earlier].kind = kind;
                        signal.ours[earlier].is_retired = false;
                        signal.ours[live].is_retired = true;
                        signal.newest = earlier;
                    }
                    // An adopted handler of a fault: replaces it.
                    (None, Does::Ours(adopted)) => signal.ours[adopted].kind = kind,
                    _ => signal.put_over(kind),
                }
            }
            Step::Uninstall { at } => {
                let signal = &mut self.model.0[at];
                let live = signal.live().filter(|&live| signal.now == Does::Ours(live));
                assert_eq!(signal::uninstall(SIGNALS[at]).is_ok(), live.is_some());
                if let Some(live) = live {
                    signal.now = signal.ours[live].below;
                    signal.ours[live].is_retired = true;
                    self.model.cover();
                }
            }
            Step::Library { at, number } if self.found[at][number].is_none() => {
                let old = install_plainly(SIGNALS[at], FUNCTIONS[number], 0, &[]);
                FOUND[at][number].store(old.sa_sigaction, SeqCst);
                self.found[at][number] = Some(old);
                let signal = &mut self.model.0[at];
                signal.saved[number] = Some(signal.now);
                signal.now = Does::Library(number);
            }
            Step::Library { .. } => {}
            Step::PutBack { at, number } => {
                let Some(old) = self.found[at][number] else {
                    return;
                };
                // SAFETY: a disposition that was installed before.
                unsafe { libc::sigaction(SIGNALS[at], &old, std::ptr::null_mut()) };
                let signal = &mut self.model.0[at];
                signal.now = signal.saved[number].expect("found and saved together");
            }
            Step::Ignore { at } => {
                ignore(SIGNALS[at]);
                self.model.0[at].now = Does::Nothing;
            }
            Step::Raise { at } => {
                raise(SIGNALS[at]);
                let mut expected = Vec::new();
                self.model.arrive(at, false, &mut expected);
                assert_eq!(logged(), expected);
            }
            Step::Masked { raised } => self.masked(raised),
            Step::Repair => self.repair(),
        }
    }

    /// Raises three signals inside a mask. The deferred ones are handled when it ends, in any
    /// order.
    fn masked(&mut self, raised: [usize; 3]) {
        let guard = mask();
        let (mut expected, mut waiting, mut blocked) = (Vec::new(), Vec::new(), Vec::new());
        for at in raised {
            raise(SIGNALS[at]);
            if blocked.contains(&at) || self.model.arrive(at, true, &mut expected) {
                if blocked.is_empty() {
                    blocked = self.model.managed();
                }
                if !waiting.contains(&at) {
                    waiting.push(at);
                }
            }
        }
        assert_eq!(logged(), expected, "inside the mask");
        clear_log();
        drop(guard);
        let mut later = Vec::new();
        for at in waiting {
            self.model.arrive(at, false, &mut later);
        }
        let mut came = logged();
        came.sort_unstable();
        later.sort_unstable();
        assert_eq!(came, later, "after the mask");
    }

    /// Repairs: afterwards only managed signals may have a library's handler.
    fn repair(&mut self) {
        let audit = signal::repair();
        if self.model.managed().is_empty() {
            return;
        }
        self.model.cover();
        let left: Vec<i32> = audit.findings().map(|finding| finding.signal).collect();
        assert!(
            audit
                .findings()
                .all(|finding| finding.fault == Fault::Displaced),
            "{audit}"
        );
        let mut expected: Vec<i32> = (0..3)
            .filter(|&at| {
                let signal = &self.model.0[at];
                signal
                    .live()
                    .is_some_and(|live| signal.now != Does::Ours(live))
            })
            .map(|at| SIGNALS[at])
            .collect();
        expected.sort_unstable();
        assert_eq!(left, expected);
    }
}

fn ignore(signal: i32) {
    // SAFETY: no function.
    unsafe { libc::signal(signal, libc::SIG_IGN) };
}

/// Numbers determined by a seed.
struct Random(u64);

impl Random {
    fn below(&mut self, limit: usize) -> usize {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        (self.0 >> 20) as usize % limit
    }

    fn step(&mut self) -> Step {
        let (at, number) = (self.below(3), self.below(LIBRARIES));
        match self.below(16) {
            0..3 => Step::Install {
                at,
                handler: number,
                once: at != FAULT && self.below(4) == 0,
            },
            3..5 => Step::Uninstall { at },
            5..8 => Step::Library { at, number },
            8 => Step::PutBack { at, number },
            9 => Step::Ignore { at },
            10..13 => Step::Raise { at },
            13..15 => Step::Masked {
                raised: [at, self.below(3), self.below(3)],
            },
            _ => Step::Repair,
        }
    }
}

const STEPS: usize = 24;

fn steps(seed: u64) -> Vec<Step> {
    let mut random = Random(seed.wrapping_mul(0x9E37_79B9_7F4A_7C15) | 1);
    (0..STEPS).map(|_| random.step()).collect()
}

/// Takes the steps of a seed in a child; returns whether everything agreed with the model.
fn agrees(seed: u64, is_silent: bool) -> bool {
    let child = start_child(fork, || {
        if is_silent {
            std::panic::set_hook(Box::new(|_| ()));
        }
        let mut run = Run::new();
        steps(seed).into_iter().for_each(|step| run.take(step));
        0
    });
    exit_code(child) == Some(0)
}

/// Returns the number of sequences: `ATOMSEQ_DISPOSITION_SEQUENCES`, or 2,000, or 200 under qemu.
fn sequences() -> u64 {
    let usual = match cfg!(target_arch = "aarch64") {
        true => 200,
        false => 2_000,
    };
    number_from_env("ATOMSEQ_DISPOSITION_SEQUENCES", usual)
}

#[test]
fn handlers_are_called_as_the_model_says() {
    in_fresh_process(this_test!(), || {
        for seed in 1..=sequences() {
            // SAFETY: no sequence takes that long; the process's alarm covers all of them.
            unsafe { libc::alarm(60) };
            assert!(agrees(seed, false), "seed {seed}: {:?}", steps(seed));
        }
    });
}

/// Returns whether one of the first 500 sequences fails without a protection.
fn is_found_without(protection: u32) -> bool {
    // SAFETY: the tests expect what follows.
    unsafe { controls::set(protection) };
    (1..=500).any(|seed| !agrees(seed, true))
}

#[test]
fn control_without_deferral_the_difference_is_found() {
    in_fresh_process(this_test!(), || {
        assert!(is_found_without(controls::DEFERRAL))
    });
}

#[test]
fn control_with_one_entry_the_difference_is_found() {
    in_fresh_process(this_test!(), || {
        assert!(is_found_without(controls::ENTRIES))
    });
}

#[test]
fn control_without_widening_the_difference_is_found() {
    in_fresh_process(this_test!(), || {
        assert!(is_found_without(controls::WIDENING))
    });
}
