//! Histories in which a thread is ended inside a call, by the system call, at a chosen instruction: nothing of what Rust or the
//! C library do at a thread's end is done. The others go on; the call may have taken effect, or not.

use std::ffi::c_void;
use std::mem::MaybeUninit;
use std::ptr;

use fastrand::Rng;

use crate::checker::linearize;
use crate::crew::{Alone, Trial, places};
use crate::record::{Record, Subject};
use crate::subjects::element::Probe;

/// What happened in a trial.
#[derive(Clone, Copy, Debug, Default)]
pub struct Deaths {
    /// Threads that were ended inside a call.
    pub ended: usize,
    /// Threads that did not come by the chosen instruction.
    pub missed: usize,
}

/// Ends a thread at each place, or at so many of them, and at more until a fifth of that many threads were ended; each time on a
/// fresh structure.
///
/// # Panics
///
/// If no order explains a history, or more probes are left than the one in the ended thread's hands.
pub fn at_each_place<S: Subject>(
    name: &str,
    most: usize,
    mut make: impl FnMut(&mut Rng) -> (S, S::Model),
) -> Deaths {
    let _alone = Alone::in_trial(name);
    let trial = Trial::of(0);
    let places = places(trial, &mut make);
    places.ready();
    let mut rng = Rng::with_seed(trial.seed);
    let mut deaths = Deaths::default();
    let mut lost = Probe::alive();
    let step = (places.len() / most).max(1);
    let first = rng.usize(..step);
    let turns = (0..step).map(|turn| (first + turn) % step);
    let all = turns.flat_map(|first| (first..places.len()).step_by(step));
    for (tried, place) in all.enumerate() {
        if tried >= most && deaths.ended >= most / 5 {
            break;
        }
        let (subject, before) = make(&mut rng);
        let record = Record::new(subject, before, 3, 6, rng.u64(..));
        // SAFETY: here and below: no other thread uses a lane, since the one that does has been waited for.
        let call =
            |lane: usize, calls: usize| unsafe { (0..calls).for_each(|_| _ = record.call(lane)) };
        call(1, 2);
        let stop = places.plant(place, end_this_thread);
        on_a_thread(|| call(0, 6));
        let met = stop.is_some_and(|stop| stop.lift());
        for _ in 0..4 {
            call(1, 1);
            call(2, 1);
        }
        let (subject, history) = record.finish();
        if let Err(error) = linearize(&history) {
            panic!(
                "{name}, ended at {}, seed {}: {error}",
                places.describe(place),
                trial.seed
            );
        }
        drop(subject);
        *if met {
            &mut deaths.ended
        } else {
            &mut deaths.missed
        } += 1;
        let alive = Probe::alive();
        assert!(
            (0..=i64::from(met)).contains(&(alive - lost)),
            "{name}, ended at {}: {} values are lost",
            places.describe(place),
            alive - lost
        );
        lost = alive;
    }
    println!("{name}: {deaths:?} of {} places", places.len());
    deaths
}

fn end_this_thread() {
    // SAFETY: ends this thread, and no other; whoever started it waits for that, and only then frees its stack.
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
