//! Histories in which a thread exits inside a call, by the system call, at a chosen instruction:
//! none of the work that Rust or the C library do at a thread's exit is done. The other threads
//! continue; the call may have taken effect or not.
//!
//! Instructions are found by scripts: a few calls on a fresh structure, chosen by a number, one of
//! which is followed on each of the [ways]. The thread that is to exit then repeats the same way.
//!
//! [ways]: crate::stops::ways

use std::ffi::c_void;
use std::fmt;
use std::mem::MaybeUninit;
use std::ptr;
use std::sync::atomic::{AtomicBool, Ordering};

use fastrand::Rng;
use verify_support::cpus::{Cpus, move_to};

use crate::alone::{Alone, now_doing, one_more};
use crate::checker::linearize;
use crate::history::History;
use crate::record::{Record, Subject, operation};
use crate::stops::ways::{Place, Places};
use crate::structures::Probe;

/// The number of calls of each script that are followed.
const CALLS: usize = 6;

/// What happened in a trial.
#[derive(Clone, Copy, Debug, Default)]
pub struct Deaths {
    /// Threads that exited inside a call with no other interruption.
    pub plainly: usize,
    /// Threads that exited on slow ways, to which interruptions had led them.
    pub on_slow_ways: usize,
    /// Places that the repeated call did not reach.
    pub missed: usize,
    /// Of the places that were not reached, those in the search for a block of k-CAS descriptors.
    /// What a thread finds there depends on which blocks this process has, and which of them exited
    /// threads have left. Every trial of a place changes that.
    pub in_searches: usize,
    /// Values that audits recovered from exited threads.
    pub recovered: usize,
}

/// The path of the functions that search for a block.
const SEARCHES: &str = "atomseq::dcas::blocks::";

impl Deaths {
    /// Returns the number of threads that exited inside a call.
    pub fn ended(&self) -> usize {
        self.plainly + self.on_slow_ways
    }
}

impl fmt::Display for Deaths {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "{} threads ended, {} of them on slow ways; {} places did not come up again, and {} in \
             searches for descriptors; audits recovered {} values",
            self.ended(),
            self.on_slow_ways,
            self.missed,
            self.in_searches,
            self.recovered
        )
    }
}

/// How thorough a trial is.
#[derive(Clone, Copy, Debug)]
pub struct Thoroughness {
    /// The number of scripts that look for places.
    pub scripts: u64,
    /// One in this number of calls is followed.
    pub calls: usize,
    /// A thread exits at this number of places at most.
    pub places: usize,
    /// One in this number of a section's instructions is aborted, to find the code that follows.
    pub sparse: usize,
}

/// Ends a thread at each place, each time on a fresh structure. Other threads then use the
/// structure, and audits recover what the thread held, if the structure has any. A second run drops
/// it immediately instead.
///
/// # Panics
///
/// If no order explains a history, or if more probes are left than the one that the exited thread
/// held.
pub fn at_each_place<S: Subject, M: FnMut(&mut Rng) -> (S, S::Model)>(
    name: &str,
    thorough: Thoroughness,
    fresh: impl Fn() -> M,
) -> Deaths {
    let _alone = Alone::in_trial(name);
    // All threads inherit this: per-CPU state is then as it was when the place was found.
    move_to(Cpus::allowed().home);
    let seed = fastrand::u64(..);
    let places = places(seed, thorough, &fresh);
    let mut deaths = Deaths::default();
    let mut lost = Probe::alive();
    let mut rng = Rng::with_seed(seed);
    let step = (places.len() / thorough.places).max(1);
    let first = rng.usize(..step);
    let mut recovered = 0;
    for ways in places[first..].iter().step_by(step) {
        let mut end = |place: Place| {
            now_doing(format!("ended at {}, seed {seed}", place.describe()));
            let (met, subject, history) = end_at(seed, place, &fresh);
            one_more();
            if let Err(error) = linearize(&history) {
                panic!(
                    "{name}, ended at {}, seed {seed}: {error}",
                    place.describe()
                );
            }
            recovered += subject.recover();
            drop((subject, history));
            let mut check = |met: bool, when| {
                let alive = Probe::alive();
                assert!(
                    (0..=i64::from(met)).contains(&(alive - lost)),
                    "{name}, ended at {}, {when}, seed {seed}: {} values are lost",
                    place.describe(),
                    alive - lost
                );
                lost = alive;
            };
            check(met, "used by others");
            let (is_met_again, mut record) = until_the_end(seed, place, &fresh);
            record.forget_memories();
            drop(record);
            check(is_met_again, "dropped at once");
            met
        };
        *if end(ways[0].plainly()) {
            &mut deaths.plainly
        } else if ways.iter().any(|place| end(*place)) {
            &mut deaths.on_slow_ways
        } else if ways[0].describe().starts_with(SEARCHES) {
            &mut deaths.in_searches
        } else {
            println!("{name}: not again at {}", ways[0].describe());
            &mut deaths.missed
        } += 1;
    }
    deaths.recovered = recovered;
    println!("{name}: {deaths}; {} places", places.len());
    deaths
}

/// Returns the instructions that scripts reach, and the ways to each.
fn places<S: Subject, M: FnMut(&mut Rng) -> (S, S::Model)>(
    seed: u64,
    thorough: Thoroughness,
    fresh: &impl Fn() -> M,
) -> Vec<Vec<Place>> {
    now_doing(format!("looking for places to end at, seed {seed}"));
    let mut places = Places::none();
    let entry = operation::<S>() as *const () as usize;
    for number in 0..thorough.scripts {
        let first = seed as usize % thorough.calls;
        for call in (first..CALLS).step_by(thorough.calls) {
            places.add(
                entry,
                number,
                call,
                thorough.sparse,
                &mut |number, call, within| {
                    let record = begin(seed, number, fresh);
                    on_a_thread(|| calls(&record, call, within));
                    one_more();
                },
            );
        }
    }
    places.found()
}

/// Begins a script: makes a structure and lets a lane use it.
fn begin<S: Subject, M: FnMut(&mut Rng) -> (S, S::Model)>(
    seed: u64,
    number: u64,
    fresh: &impl Fn() -> M,
) -> Box<Record<S>> {
    let mut rng = Rng::with_seed(seed.wrapping_add(number));
    let (subject, before) = fresh()(&mut rng);
    // It stays in place from the first call on: lanes may hold references into the structure.
    let record = Box::new(Record::new(subject, before, 3, CALLS, rng.u64(..)));
    call(&record, 1, 2);
    record
}

/// Makes the calls of the thread that exits in one of them.
fn calls<S: Subject>(record: &Record<S>, which: usize, within: &mut dyn FnMut(&mut dyn FnMut())) {
    call(record, 0, which);
    within(&mut || call(record, 0, 1));
    call(record, 0, CALLS - which - 1);
}

fn call<S: Subject>(record: &Record<S>, lane: usize, calls: usize) {
    // SAFETY: no other thread uses a lane, because the one that does is waited for.
    (0..calls).for_each(|_| _ = unsafe { record.call(lane) });
}

/// Ends a thread at the place. Returns whether it exited there, and the structure as it left it.
fn until_the_end<S: Subject, M: FnMut(&mut Rng) -> (S, S::Model)>(
    seed: u64,
    place: Place,
    fresh: &impl Fn() -> M,
) -> (bool, Box<Record<S>>) {
    ENDED.store(false, Ordering::SeqCst);
    let record = begin(seed, place.script, fresh);
    on_a_thread(|| {
        calls(&record, place.call, &mut |call| {
            place.meet(end_this_thread, call)
        });
    });
    Place::forget();
    (ENDED.load(Ordering::SeqCst), record)
}

/// Ends a thread at the place. Returns whether it exited there, and the structure and history after
/// the others have used the structure.
fn end_at<S: Subject, M: FnMut(&mut Rng) -> (S, S::Model)>(
    seed: u64,
    place: Place,
    fresh: &impl Fn() -> M,
) -> (bool, S, History<S::Model>) {
    let (is_ended, record) = until_the_end(seed, place, fresh);
    for _ in 0..4 {
        call(&record, 1, 1);
        call(&record, 2, 1);
    }
    let (subject, history) = record.finish();
    (is_ended, subject, history)
}

/// Whether a thread was ended.
static ENDED: AtomicBool = AtomicBool::new(false);

fn end_this_thread() {
    ENDED.store(true, Ordering::SeqCst);
    // SAFETY: ends this thread only. Its starter waits for that, and frees the stack only
    // afterwards.
    unsafe { libc::syscall(libc::SYS_exit, 0) };
}

/// Runs a function on a thread of the C library and waits for its exit, in whatever way it exits.
fn on_a_thread(mut work: impl FnMut()) {
    extern "C" fn body(work: *mut c_void) -> *mut c_void {
        // SAFETY: the address of the reference below, whose owner waits for this thread.
        let work = unsafe { &mut *work.cast::<&mut dyn FnMut()>() };
        work();
        ptr::null_mut()
    }
    let mut work: &mut dyn FnMut() = &mut work;
    let mut thread = MaybeUninit::uninit();
    // SAFETY: room for the thread, whose argument lives until it was waited for.
    let result = unsafe {
        libc::pthread_create(
            thread.as_mut_ptr(),
            ptr::null(),
            body,
            (&raw mut work).cast(),
        )
    };
    assert_eq!(result, 0, "a thread");
    // SAFETY: started above, waited for once. The kernel reports the exit, however the thread
    // exited.
    let result = unsafe { libc::pthread_join(thread.assume_init(), ptr::null_mut()) };
    assert_eq!(result, 0, "its end");
}
