//! Histories in which a thread is ended inside a call, by the system call, at a chosen instruction:
//! nothing of what Rust or the C library do at a thread's end is done. The others go on; the call
//! may have taken effect, or not.
//!
//! Instructions are found by scripts: a few calls on a fresh structure, chosen by a number, one of
//! which is followed on each of the [ways]. The thread that is to end then goes the same way once
//! more.
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

/// How many calls of each script are followed.
const CALLS: usize = 6;

/// What happened in a trial.
#[derive(Clone, Copy, Debug, Default)]
pub struct Deaths {
    /// Threads that were ended inside a call while nothing else happened.
    pub plainly: usize,
    /// Those that were ended on slow ways, which interruptions had led them to.
    pub on_slow_ways: usize,
    /// Places that did not come up again.
    pub missed: usize,
    /// Of the places that did not, those in the search for a block of descriptors for k-CAS. What a
    /// thread finds there depends on which blocks this process has, and which of them exited
    /// threads have left. Every trial of a place changes that.
    pub in_searches: usize,
}

/// Where the functions are that search for a block.
const SEARCHES: &str = "atomseq::dcas::blocks::";

impl Deaths {
    /// Threads that were ended inside a call.
    pub fn ended(&self) -> usize {
        self.plainly + self.on_slow_ways
    }
}

impl fmt::Display for Deaths {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "{} threads ended, {} of them on slow ways; {} places did not come up again, and {} in \
             searches for descriptors",
            self.ended(),
            self.on_slow_ways,
            self.missed,
            self.in_searches
        )
    }
}

/// How thorough a trial is.
#[derive(Clone, Copy, Debug)]
pub struct Thoroughness {
    /// So many scripts look for places.
    pub scripts: u64,
    /// In one of so many calls.
    pub calls: usize,
    /// A thread is ended at so many places at most.
    pub places: usize,
    /// One in so many instructions of a section is aborted to see what follows.
    pub sparse: usize,
}

/// Ends a thread at each place; each time on a fresh structure of a fresh maker's. Then others use
/// it; and once more, to drop it at once.
///
/// # Panics
///
/// If no order explains a history, or more probes are left than the one in the ended thread's
/// hands.
pub fn at_each_place<S: Subject, M: FnMut(&mut Rng) -> (S, S::Model)>(
    name: &str,
    thorough: Thoroughness,
    fresh: impl Fn() -> M,
) -> Deaths {
    let _alone = Alone::in_trial(name);
    // And so all threads: what a CPU has for itself is as it was when the place was found.
    move_to(Cpus::allowed().home);
    let seed = fastrand::u64(..);
    let places = places(seed, thorough, &fresh);
    let mut deaths = Deaths::default();
    let mut lost = Probe::alive();
    let mut rng = Rng::with_seed(seed);
    let step = (places.len() / thorough.places).max(1);
    let first = rng.usize(..step);
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
    println!("{name}: {deaths}; {} places", places.len());
    deaths
}

/// The instructions that scripts come by, and the ways to each.
fn places<S: Subject, M: FnMut(&mut Rng) -> (S, S::Model)>(
    seed: u64,
    thorough: Thoroughness,
    fresh: &impl Fn() -> M,
) -> Vec<Vec<Place>> {
    now_doing(format!("looking for places to end at, seed {seed}"));
    let mut places = Places::none();
    let entry = operation::<S>() as *const () as usize;
    for number in 0..thorough.scripts {
        for call in (0..CALLS).step_by(thorough.calls) {
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

/// The beginning of a script: a structure that somebody has used.
fn begin<S: Subject, M: FnMut(&mut Rng) -> (S, S::Model)>(
    seed: u64,
    number: u64,
    fresh: &impl Fn() -> M,
) -> Box<Record<S>> {
    let mut rng = Rng::with_seed(seed.wrapping_add(number));
    let (subject, before) = fresh()(&mut rng);
    // It stays where it is from the first call on: lanes may have references into the structure.
    let record = Box::new(Record::new(subject, before, 3, CALLS, rng.u64(..)));
    call(&record, 1, 2);
    record
}

/// The calls of the thread that ends in one of them.
fn calls<S: Subject>(record: &Record<S>, which: usize, within: &mut dyn FnMut(&mut dyn FnMut())) {
    call(record, 0, which);
    within(&mut || call(record, 0, 1));
    call(record, 0, CALLS - which - 1);
}

fn call<S: Subject>(record: &Record<S>, lane: usize, calls: usize) {
    // SAFETY: no other thread uses a lane, since the one that does is waited for.
    (0..calls).for_each(|_| _ = unsafe { record.call(lane) });
}

/// Did a thread end there; and the structure as it was then.
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

/// Did a thread end there; and the structure and the history after the others have used it.
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

/// Was a thread ended?
static ENDED: AtomicBool = AtomicBool::new(false);

fn end_this_thread() {
    ENDED.store(true, Ordering::SeqCst);
    // SAFETY: ends this thread, and no other; whoever started it waits for that, and only then
    // frees its stack.
    unsafe { libc::syscall(libc::SYS_exit, 0) };
}

/// Runs a function on a thread of the C library's, and waits for its end, whatever it is.
fn on_a_thread(mut work: impl FnMut()) {
    extern "C" fn body(work: *mut c_void) -> *mut c_void {
        // SAFETY: the address of the reference below, whose owner waits.
        let work = unsafe { &mut *work.cast::<&mut dyn FnMut()>() };
        work();
        ptr::null_mut()
    }
    let mut work: &mut dyn FnMut() = &mut work;
    let mut thread = MaybeUninit::uninit();
    // SAFETY: room for the thread, whose argument lives until it has been waited for.
    let result = unsafe {
        libc::pthread_create(
            thread.as_mut_ptr(),
            ptr::null(),
            body,
            (&raw mut work).cast(),
        )
    };
    assert_eq!(result, 0, "a thread");
    // SAFETY: started above, waited for once. The kernel says when it has ended, however it did.
    let result = unsafe { libc::pthread_join(thread.assume_init(), ptr::null_mut()) };
    assert_eq!(result, 0, "its end");
}
