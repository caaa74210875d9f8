//! The threads of a trial: many small histories, one after the other, each of a fresh structure.

use std::fmt;
use std::sync::atomic::{AtomicBool, AtomicPtr, AtomicUsize, Ordering};
use std::time::{Duration, Instant};
use std::{mem, panic, ptr, thread};

use fastrand::Rng;
use verify_support::number_from_env;

use crate::alone::{Alone, now_doing, one_more};
use crate::checker::{NotLinearizable, linearize};
use crate::interrupt::{self, COUNTS, Timer, act, among, wait_until};
use crate::record::{Record, Subject, THREADS, operation};
use crate::stops::Places;

/// The parameters of a trial.
#[derive(Clone, Copy, Debug)]
pub struct Trial {
    /// The number of threads that use the structure.
    pub threads: usize,
    /// The number of calls of each thread; its handlers make at most half as many.
    pub calls: usize,
    /// The number of histories of that many threads.
    pub histories: usize,
    /// The number of histories of a single thread.
    pub nested: usize,
    /// The seed of all choices.
    pub seed: u64,
    /// The period of each thread's timer, if threads are interrupted by timers.
    pub timer: Option<Duration>,
    /// The number of structures of which each kind of call is followed to find places to stop at.
    pub followed: usize,
}

impl Trial {
    /// This number of histories of one thread, and a fiftieth of it of several threads. The
    /// environment variable `ATOMSEQ_HISTORIES` overrides the number.
    pub fn of(histories: usize) -> Trial {
        let stops = cfg!(all(atomseq_sections, target_arch = "x86_64"));
        let nested = number_from_env("ATOMSEQ_HISTORIES", histories);
        Trial {
            threads: 3,
            calls: 4,
            // Without stops, only threads make calls concurrent.
            histories: nested / if stops { 50 } else { 5 },
            nested,
            seed: fastrand::u64(..),
            timer: Some(Duration::from_micros(150)),
            followed: 2,
        }
    }
}

/// What happened in a trial.
#[derive(Clone, Copy, Debug, Default)]
pub struct Report {
    /// Histories that an order explains.
    pub histories: usize,
    /// Calls in these histories.
    pub calls: usize,
    /// Calls that were concurrent with another.
    pub concurrent: usize,
    /// Concurrent calls in histories of several threads.
    pub among_threads: usize,
    /// Histories in which a thread met a breakpoint.
    pub stopped: usize,
    /// Stops in all.
    pub stops: u64,
    /// Handlers that acted inside threads of the trial.
    pub interruptions: u64,
    /// Calls that handlers made.
    pub calls_in_handlers: u64,
    /// How often a handler saw all others finish.
    pub outlasted: u64,
    /// The largest number of positions that the checker visited in one history.
    pub states: usize,
    /// The duration of the histories of one thread, and of those of several threads.
    pub took: [Duration; 2],
}

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Report {
            histories,
            calls,
            concurrent,
            among_threads,
            stopped,
            stops,
            interruptions,
            calls_in_handlers,
            outlasted,
            states,
            took: [nested, threads],
        } = self;
        write!(
            f,
            "{histories} histories, {calls} calls, {concurrent} of them concurrent, {among_threads} among threads; {stops} stops at chosen instructions, in \
             {stopped} histories; {interruptions} interruptions by handlers that yield, sleep, wait or call; {calls_in_handlers} calls by handlers; all others finished \
             during {outlasted} interruptions; {states} states at most for one history; of one thread in {nested:.1?}, of several in {threads:.1?}"
        )
    }
}

/// How many times a thread looks before it sleeps: for what happens soon, or about as long as a
/// sleeper takes to wake up.
const SOON: u32 = 200;
const MUSTER: u32 = 4_000;

struct Hall<S: Subject> {
    /// The current history.
    record: AtomicPtr<Record<S>>,
    /// Its number.
    round: AtomicUsize,
    arrived: AtomicUsize,
    finished: AtomicUsize,
    over: AtomicBool,
}

impl<S: Subject> Hall<S> {
    /// Waits, looking this many times before it sleeps. Returns `false` if the trial ended instead.
    fn wait(&self, looks: u32, until: impl Fn() -> bool) -> bool {
        wait_until(looks, || until() || self.over.load(Ordering::Relaxed));
        until()
    }

    /// Makes a thread's calls together with all other threads. Returns `false` if it waited for
    /// them in vain.
    fn attend(&self, thread: usize, threads: usize) -> bool {
        // AcqRel: pairs with the other threads' arrivals. All begin at the same time if each has a
        // CPU.
        self.arrived.fetch_add(1, Ordering::AcqRel);
        if !self.wait(MUSTER, || self.arrived.load(Ordering::Acquire) == threads) {
            return false;
        }
        // SAFETY: the director keeps the record until all threads have finished.
        let record = unsafe { &*self.record.load(Ordering::Acquire) };
        among(record, thread, || {
            // SAFETY: this thread's own lane.
            while unsafe { record.call(thread) } {}
        });
        // Release: pairs with the director's acquire.
        self.finished.fetch_add(1, Ordering::Release);
        true
    }
}

/// Ends the trial when a thread leaves it, also by a panic: the other threads stop waiting.
struct Leave<'a>(&'a AtomicBool);

impl Drop for Leave<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

/// The number of structures among whose calls is each kind of call.
const FOR_KINDS: usize = 40;

/// Finds the instructions that the calls of some short histories execute.
pub fn places<S: Subject>(
    trial: Trial,
    make: &mut impl FnMut(&mut Rng) -> (S, S::Model),
) -> Places {
    let operation = operation::<S>();
    let entry = operation as *const () as usize;
    now_doing(format!(
        "looking for places to stop at, seed {}",
        trial.seed
    ));
    let mut rng = Rng::with_seed(trial.seed);
    let mut places = Places::default();
    let mut kinds = Vec::new();
    for structure in 0..FOR_KINDS + trial.followed {
        let (subject, _) = make(&mut rng);
        let mut memory = S::Memory::default();
        let mut number = 0;
        // Of this kind, if there is such a call now.
        let mut operate = |kind: Option<mem::Discriminant<_>>| {
            number += 1;
            // Calls of both lanes, where lanes differ.
            let value = ((number % 2 + 1) << 16) + number;
            let mut choose = || subject.choose(&mut rng, &memory, value);
            let is_wanted = |call: &_| kind.is_none_or(|kind| mem::discriminant(call) == kind);
            let wanted = (0..100).find_map(|_| choose().filter(is_wanted));
            let call = wanted.or_else(choose)?;
            std::hint::black_box(operation(&subject, &call, &mut memory));
            Some(mem::discriminant(&call))
        };
        if structure < FOR_KINDS {
            for kind in (0..12).filter_map(|_| operate(None)) {
                if !kinds.contains(&kind) {
                    kinds.push(kind);
                }
            }
            continue;
        }
        // Calls of a structure in use.
        (0..4).for_each(|_| _ = operate(None));
        for kind in [None; 4].into_iter().chain(kinds.iter().copied().map(Some)) {
            places.add(entry, || _ = operate(kind));
            one_more();
        }
    }
    places
}

/// Runs a trial; `make` makes each structure and its model's first state.
///
/// # Errors
///
/// The first history that no order explains, and how it was made.
///
/// # Panics
///
/// If a call panics on any of the threads.
pub fn run<S: Subject>(
    trial: Trial,
    places: &Places,
    mut make: impl FnMut(&mut Rng) -> (S, S::Model),
) -> Result<Report, (NotLinearizable, String)> {
    assert!((2..=THREADS).contains(&trial.threads));
    now_doing(format!("seed {}", trial.seed));
    let count = || {
        [&COUNTS.interruptions, &COUNTS.calls, &COUNTS.outlasted]
            .map(|count| count.load(Ordering::Relaxed))
    };
    let before = count();
    let hall = Hall {
        record: AtomicPtr::new(ptr::null_mut()),
        round: AtomicUsize::new(0),
        arrived: AtomicUsize::new(0),
        finished: AtomicUsize::new(0),
        over: AtomicBool::new(false),
    };
    let mut rng = Rng::with_seed(trial.seed);
    let mut report = Report::default();
    places.ready();
    let start = Instant::now();
    let nested = if places.is_empty() { 0 } else { trial.nested };
    let timer = trial.timer.map(Timer::start);
    let result = (0..nested)
        .try_for_each(|number| one_nested(trial, places, &mut rng, &mut make, number, &mut report));
    drop(timer);
    report.took[0] = start.elapsed();
    // The other threads start only now: waiting threads would take CPU time from the one that
    // works.
    let result = result.and_then(|()| {
        thread::scope(|scope| {
            let hall = &hall;
            let leave = Leave(&hall.over);
            let work = |thread| {
                move || {
                    let _leave = Leave(&hall.over);
                    let _timer = trial.timer.map(|period| {
                        Timer::start(period + Duration::from_micros(17 * thread as u64))
                    });
                    let mut round = 0;
                    // Acquire: pairs with the director's release.
                    while hall.wait(SOON, || hall.round.load(Ordering::Acquire) > round)
                        && hall.attend(thread, trial.threads)
                    {
                        round += 1;
                    }
                }
            };
            let workers: Vec<_> = (1..trial.threads)
                .map(|thread| scope.spawn(work(thread)))
                .collect();
            let _timer = trial.timer.map(Timer::start);
            let result = (0..trial.histories).try_for_each(|number| {
                let (rng, report) = (&mut rng, &mut report);
                match one(hall, trial, places, rng, &mut make, number, report) {
                    Some(judged) => judged.map_err(Some),
                    None => Err(None),
                }
            });
            drop(leave);
            for worker in workers {
                if let Err(panicked) = worker.join() {
                    panic::resume_unwind(panicked);
                }
            }
            result.map_err(|wrong| wrong.expect("a worker panicked"))
        })
    });
    report.took[1] = start.elapsed() - report.took[0];
    let after = count();
    [
        report.interruptions,
        report.calls_in_handlers,
        report.outlasted,
    ] = std::array::from_fn(|index| after[index] - before[index]);
    result.map(|()| report)
}

/// Runs one history. Returns `None` if a worker has left.
fn one<S: Subject>(
    hall: &Hall<S>,
    trial: Trial,
    places: &Places,
    rng: &mut Rng,
    make: &mut impl FnMut(&mut Rng) -> (S, S::Model),
    number: usize,
    report: &mut Report,
) -> Option<Result<(), (NotLinearizable, String)>> {
    let (subject, before) = make(rng);
    let record = Box::into_raw(Box::new(Record::new(
        subject,
        before,
        trial.threads,
        trial.calls,
        rng.u64(..),
    )));
    let place = (!places.is_empty()).then(|| rng.usize(..places.len()));
    hall.record.store(record, Ordering::Relaxed);
    hall.arrived.store(0, Ordering::Relaxed);
    hall.finished.store(0, Ordering::Relaxed);
    let stop = place.and_then(|place| places.plant(place, act));
    // Release: pairs with the acquire of the workers that wait for the next round.
    hall.round.fetch_add(1, Ordering::Release);
    let attended = hall.attend(0, trial.threads);
    // Acquire: pairs with the release of the workers that have finished.
    let all = || hall.finished.load(Ordering::Acquire) == trial.threads;
    if !attended || !hall.wait(SOON, all) {
        // The record is leaked: other threads may still use it.
        return None;
    }
    let met = stop.is_some_and(|stop| stop.lift());
    let place = || match place.filter(|_| met) {
        Some(place) => places.describe(place),
        None => "nowhere".to_string(),
    };
    let before = report.concurrent;
    // SAFETY: made above, and all have finished.
    let record = *unsafe { Box::from_raw(record) };
    let judged = judge(record, u64::from(met), report, || {
        let seed = trial.seed;
        format!(
            "history {number} of threads, seed {seed}, stopped: {}",
            place()
        )
    });
    report.among_threads += report.concurrent - before;
    Some(judged)
}

fn one_nested<S: Subject>(
    trial: Trial,
    places: &Places,
    rng: &mut Rng,
    make: &mut impl FnMut(&mut Rng) -> (S, S::Model),
    number: usize,
    report: &mut Report,
) -> Result<(), (NotLinearizable, String)> {
    let (subject, before) = make(rng);
    let record = Record::new(subject, before, trial.threads, trial.calls, rng.u64(..));
    let stops = interrupt::run(&record, trial.threads, places, rng.u64(..));
    judge(record, stops, report, || {
        format!("history {number} of one thread, seed {}", trial.seed)
    })
}

fn judge<S: Subject>(
    record: Record<S>,
    stops: u64,
    report: &mut Report,
    how: impl FnOnce() -> String,
) -> Result<(), (NotLinearizable, String)> {
    let (_, history) = record.finish();
    one_more();
    report.histories += 1;
    report.stopped += usize::from(stops > 0);
    report.stops += stops;
    report.calls += history.calls();
    report.concurrent += history.concurrent();
    match linearize(&history) {
        Ok(found) => {
            report.states = report.states.max(found.states);
            Ok(())
        }
        Err(error) => Err((error, how())),
    }
}

/// Runs a trial with breakpoints and prints its report.
///
/// # Panics
///
/// If no order explains one of its histories.
pub fn must_pass<S: Subject>(
    name: &str,
    trial: Trial,
    mut make: impl FnMut(&mut Rng) -> (S, S::Model),
) -> Report {
    let _alone = Alone::in_trial(name);
    let places = places(trial, &mut make);
    match run(trial, &places, make) {
        Ok(report) => {
            println!("{name}: {} places to stop at; {report}", places.len());
            report
        }
        Err((error, how)) => panic!("{name}, {how}: {error}"),
    }
}

/// Runs a trial until a history is found that no order explains.
///
/// # Panics
///
/// If there is no such history.
pub fn must_fail<S: Subject>(
    name: &str,
    trial: Trial,
    mut make: impl FnMut(&mut Rng) -> (S, S::Model),
) {
    let _alone = Alone::in_trial(name);
    let places = places(trial, &mut make);
    match run(trial, &places, make) {
        Ok(report) => panic!("{name} is wrong, and was not detected: {report}"),
        Err((error, how)) => println!("{name}: detected in {how}, after {} states", error.states),
    }
}
