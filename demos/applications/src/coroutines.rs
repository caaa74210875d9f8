//! The package of coroutines, which share one kernel thread and are preempted by a signal.

use std::cell::Cell;
use std::marker::PhantomData;
use std::rc::Rc;
use std::sync::Arc;
use std::time::{Duration, Instant};

use atomseq::mutex::{Interventions, TestAndSet};
use atomseq_threads::coroutine::{self, Builder, Coroutine, preemptible};
use demo_common::threads::switches;
use lock_api::RawMutex;

use super::package::{Application, Outcome, Package, Tally, handles, live, pinned, since, sum};

/// The length of a coroutine's slice of time.
const SLICE: Duration = Duration::from_millis(10);

/// The size of a coroutine's stack, in bytes.
const STACK: usize = 256 * 1024;

/// The package of coroutines, whose lock is `R`.
pub struct Coroutines<R>(PhantomData<R>);

impl<R: RawMutex + 'static> Package for Coroutines<R> {
    type Raw = R;
    type Handle = Coroutine;

    fn current() -> Coroutine {
        coroutine::current()
    }

    fn park() {
        coroutine::park();
    }

    fn unpark(handle: &Coroutine) {
        handle.unpark();
    }
}

/// A lock of coroutines by a mechanism. A waiter lets the others run.
pub struct Yielding<M>(M);

// SAFETY: `lock` returns, and `try_lock` returns true, only after a test-and-set found the flag
// clear, and only `unlock` clears it.
unsafe impl<M: TestAndSet> RawMutex for Yielding<M> {
    #[allow(
        clippy::declare_interior_mutable_const,
        reason = "lock_api's way to make new ones"
    )]
    const INIT: Self = Yielding(M::CLEAR);
    type GuardMarker = lock_api::GuardNoSend;

    fn lock(&self) {
        while !self.0.test_and_set() {
            coroutine::yield_now();
        }
    }

    fn try_lock(&self) -> bool {
        self.0.test_and_set()
    }

    unsafe fn unlock(&self) {
        // SAFETY: the caller holds the lock.
        unsafe { self.0.clear() };
    }
}

/// Runs an application on coroutines that are preempted at the end of a slice. An error is a
/// sentence.
pub fn on_coroutines<A: Application, R: RawMutex + 'static>(
    application: &Arc<A>,
    interventions: fn() -> Interventions,
) -> Result<Outcome, String> {
    let _pinned = pinned()?;
    let threads = application.threads();
    let shared = application.shared::<Coroutines<R>>();
    let common = Rc::new((
        Arc::clone(application),
        shared,
        handles::<Coroutines<R>>(threads),
        Cell::new(false),
    ));
    let spawn = |index| {
        let common = Rc::clone(&common);
        coroutine::try_spawn(move || {
            let (application, shared, handles, are_all_there) = &*common;
            if !are_all_there.get() {
                return Tally::default();
            }
            live::<A, Coroutines<R>>(application, shared, handles, index, |work| {
                // SAFETY: `Application` promises that its work does nothing that is forbidden
                // here. `Thread` has plain counts of this coroutine, and calls the package's
                // locks: a mechanism's test-and-set, and the functions of coroutines.
                unsafe { preemptible(work) }
            })
            .0
        })
    };
    let before = (switches(), interventions());
    let begin = Instant::now();
    let all = || {
        let spawned: Result<Vec<_>, _> = (0..threads).map(spawn).collect();
        // None has run yet, because this coroutine has not yielded.
        common.3.set(spawned.is_ok());
        let joined = spawned?
            .into_iter()
            .map(|coroutine| match coroutine.join() {
                Ok(tally) => tally,
                Err(panic) => std::panic::resume_unwind(panic),
            });
        Ok::<_, coroutine::Error>(joined.collect::<Vec<_>>())
    };
    let builder = Builder::new().slice(SLICE).stack_size(STACK);
    // SAFETY: switches outside of thread-locals, of which the applications have none.
    let tallies = unsafe { builder.run(all) };
    let elapsed = begin.elapsed();
    let interventions = since(before.1, interventions());
    let counted = before.0.zip(switches());
    let switches = counted.map(|(before, after)| after.since(before));
    let tallies = tallies.and_then(|spawned| spawned);
    let tallies = tallies.map_err(|error| error.to_string())?;
    let tallies: Vec<_> = tallies.into_iter().map(|tally| (tally, None)).collect();
    let Ok((_, shared, ..)) = Rc::try_unwrap(common).map_err(|_| ()) else {
        return Err("a coroutine has not finished".to_string());
    };
    Ok(Outcome {
        elapsed,
        tally: sum(&tallies).0,
        switches,
        interventions,
        result: application.judge(shared)?,
    })
}
