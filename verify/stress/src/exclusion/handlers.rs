//! Threads with a lock each, which their own signal handlers want, too: a timer's and those of
//! signals that a sibling sends.
//!
//! Where a lock has a home, a thread that the scheduler moves away from it visits it in every
//! acquisition from then on. A visit takes three system calls and an interrupt of another CPU, so
//! it takes about as long as a timer's period, and the handlers visit as well. How many
//! acquisitions are visits is therefore said here: none, or every other one of few.
//!
//! A handler ends before whom it interrupted goes on, so one that gives the lock back would never
//! be in the way, and even a test-and-set in two halves would pass. So handlers keep the lock at
//! times, and whoever finds it kept goes on with it.

use std::cell::Cell;
use std::ptr;
use std::sync::Once;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread;
use std::time::Instant;

use atomseq::signal::{self, Event};
use lock_api::RawMutex;

use super::one_cpu::stay_on;
use super::section::Section;
use super::watch::{self, Progress};
use super::{Figures, goes_on};
use crate::storm::senders::{self, SENT, TIMER, Timer, Victim, queued};
use crate::storm::trial::{PERIOD, POST};
use crate::torment;

/// How many threads work.
const THREADS: usize = 3;

/// A thread's lock, and what its handlers count.
struct Stage<R> {
    lock: lock_api::Mutex<R, Section>,
    /// The lock is held by nobody who runs; whoever makes this false has it.
    kept: AtomicBool,
    by_handlers: AtomicU64,
    wrong: AtomicU64,
}

/// A handler keeps the lock once in so many times.
const KEEPS: u64 = 3;

impl<R: RawMutex> Stage<R> {
    /// Takes the lock, or what a handler has kept of it, and adds; `None` if somebody has it, else
    /// whether all was well.
    #[inline(always)]
    fn enter(&self, keep: bool) -> Option<bool> {
        match self.lock.try_lock() {
            Some(section) => {
                // Relaxed, here and below: one thread and its handlers.
                let well = section.add_at_once() && !self.kept.load(Ordering::Relaxed);
                match keep {
                    // Last: another handler may have it at once.
                    true => {
                        std::mem::forget(section);
                        self.kept.store(true, Ordering::Release);
                    }
                    false => drop(section),
                }
                Some(well)
            }
            None if self.kept.swap(false, Ordering::Acquire) => {
                // SAFETY: whoever kept it has the right to, and passed it on.
                let well = unsafe { (*self.lock.data_ptr()).add_at_once() };
                // SAFETY: as above; no guard is left.
                unsafe { self.lock.force_unlock() };
                Some(well)
            }
            None => None,
        }
    }

    /// What a handler does: it must not wait for whom it has interrupted.
    fn interrupt(&self) {
        // One thread's handlers, of which one may interrupt the other: an addition. Relaxed:
        // figures.
        let number = self.by_handlers.load(Ordering::Relaxed);
        if let Some(well) = self.enter(number.is_multiple_of(KEEPS)) {
            self.by_handlers.fetch_add(1, Ordering::Relaxed);
            self.wrong.fetch_add(u64::from(!well), Ordering::Relaxed);
        }
    }
}

/// What a handler needs: a stage of its thread, and what to do with it.
#[derive(Clone, Copy)]
struct Visit {
    stage: *const (),
    interrupt: unsafe fn(*const ()),
}

unsafe fn nothing(_: *const ()) {}

unsafe fn interrupt<R: RawMutex>(stage: *const ()) {
    // SAFETY: the caller has it from `VISIT`, which says nothing else than the truth.
    unsafe { &*stage.cast::<Stage<R>>() }.interrupt();
}

thread_local! {
    /// Set up by the compiler, so that a handler may read it.
    static VISIT: Cell<Visit> = const {
        Cell::new(Visit { stage: ptr::null(), interrupt: nothing })
    };
}

static INSTALLED: Once = Once::new();
static DELIVERED: AtomicU64 = AtomicU64::new(0);

fn on_event(event: &mut Event<'_>) {
    if event.signal() == queued() {
        POST.receive(event.value() as u64);
    }
    DELIVERED.fetch_add(1, Ordering::Relaxed);
    let Visit { stage, interrupt } = VISIT.get();
    // SAFETY: set by this thread for as long as the stage lives; what is called is that stage's.
    unsafe { interrupt(stage) };
}

/// Where a thread runs.
#[derive(Clone, Copy)]
enum Place {
    Anywhere,
    /// On one CPU.
    Home,
    /// On two CPUs by turns, and in the middle of what a handler has kept, too.
    Both,
}

/// So many operations a thread that has two CPUs stays on one.
const STAYS: u64 = 8;

/// Takes locks so many times.
pub fn run<R: RawMutex>(operations: u64) -> Figures {
    run_in::<R>(operations, Place::Anywhere)
}

/// The same, each thread on one CPU, where its lock is at home.
pub fn run_at_home<R: RawMutex>(operations: u64) -> Figures {
    run_in::<R>(operations, Place::Home)
}

/// The same by threads that move: every other acquisition visits a lock whose home stays where it
/// is.
pub fn run_moving<R: RawMutex>(operations: u64) -> Figures {
    run_in::<R>(operations, Place::Both)
}

fn run_in<R: RawMutex>(operations: u64, place: Place) -> Figures {
    INSTALLED.call_once(|| {
        for number in [TIMER, SENT, queued()] {
            // SAFETY: the handler takes a lock that this thread and its handlers share, and never
            // waits for it.
            let installed = unsafe { signal::install(number, on_event) };
            installed.expect("a signal that nobody else manages");
        }
    });
    let delivered = DELIVERED.load(Ordering::Relaxed);
    let start = Instant::now();
    let progress: Vec<Progress> = (0..THREADS).map(|_| Progress::default()).collect();
    let victims: Vec<Victim> = (0..THREADS).map(|_| Victim::default()).collect();
    let calm = AtomicBool::new(false);
    let share = operations.div_ceil(THREADS as u64);
    let figures = thread::scope(|scope| {
        let sending = scope.spawn(|| senders::send_until(&calm, &victims, &POST));
        let cpus = torment::cpus();
        let working = (0..THREADS).map(|thread| {
            let (victim, progress) = (&victims[thread], &progress[thread]);
            let cpus = [thread, thread + 1].map(|thread| cpus[thread % cpus.len()]);
            scope.spawn(move || work::<R>(victim, progress, start, share, place, cpus))
        });
        let figures = watch::join(working.collect(), &progress);
        calm.store(true, Ordering::Relaxed);
        sending.join().expect("the sibling");
        figures
    });
    let sum = |of: fn(&Figures) -> u64| figures.iter().map(of).sum();
    Figures {
        by_threads: sum(|figures| figures.by_threads),
        by_handlers: sum(|figures| figures.by_handlers),
        wrong: sum(|figures| figures.wrong),
        disturbances: DELIVERED.load(Ordering::Relaxed) - delivered,
        time: start.elapsed(),
    }
}

fn work<R: RawMutex>(
    victim: &Victim,
    progress: &Progress,
    start: Instant,
    operations: u64,
    place: Place,
    cpus: [usize; 2],
) -> Figures {
    // Before handlers want the lock: its home is where it is first set.
    if !matches!(place, Place::Anywhere) {
        stay_on(cpus[0]);
    }
    let stage = Stage {
        lock: lock_api::Mutex::<R, Section>::new(Section::default()),
        kept: AtomicBool::new(false),
        by_handlers: AtomicU64::new(0),
        wrong: AtomicU64::new(0),
    };
    let before = VISIT.replace(Visit {
        stage: ptr::from_ref(&stage).cast(),
        interrupt: interrupt::<R>,
    });
    victim.volunteer();
    let timer = Timer::start(TIMER, PERIOD);
    let mut wrong = 0;
    let mut operation = 0;
    while goes_on(start, operation, operations) {
        if matches!(place, Place::Both) && operation.is_multiple_of(STAYS) {
            stay_on(cpus[(operation / STAYS % 2) as usize]);
        }
        // Found held, it is a handler's, and that one has kept it; or another handler has it back
        // by now.
        let well = loop {
            if let Some(well) = stage.enter(false) {
                break well;
            }
        };
        wrong += u64::from(!well);
        operation += 1;
        progress.set(operation);
    }
    drop(timer);
    victim.resign();
    VISIT.set(before);
    let by_handlers = stage.by_handlers.into_inner();
    Figures {
        by_threads: operation,
        by_handlers,
        wrong: wrong
            + stage.wrong.into_inner()
            + stage.lock.into_inner().wrong(operation + by_handlers),
        ..Figures::default()
    }
}
