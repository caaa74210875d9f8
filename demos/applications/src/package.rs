//! Two thread packages behind one trait: kernel threads of one CPU, and coroutines of one kernel
//! thread that a signal preempts (B91, section 3.2). An application is written once for both.

use std::cell::Cell;
use std::marker::PhantomData;
use std::sync::{Arc, Condvar, Mutex, OnceLock};
use std::thread;
use std::time::{Duration, Instant};

use atomseq::mutex::Interventions;
use demo_common::threads::{Pinned, Switches, cpus, switches};
use lock_api::RawMutex;

/// The maximum number of threads of an application: the bits of [`Waiters`].
pub const MAX_THREADS: usize = 64;

/// A thread package whose locks are by one mechanism.
pub trait Package: 'static {
    /// The lock.
    type Raw: RawMutex;
    /// A reference to a thread.
    type Handle;
    /// Returns a reference to the calling thread.
    fn current() -> Self::Handle;
    /// Blocks the calling thread until another one unparks it. Returns at once if one has since the
    /// last `park`.
    fn park();
    /// Lets a thread's next or current `park` return.
    fn unpark(handle: &Self::Handle);
}

/// Data under a lock of a package.
pub type Lock<P, T> = lock_api::Mutex<<P as Package>::Raw, T>;

/// The guard of a [`Lock`].
pub type Guard<'a, P, T> = lock_api::MutexGuard<'a, <P as Package>::Raw, T>;

/// The threads that wait for a condition, a bit each. It lies beside the data of the condition,
/// under their lock.
#[derive(Default)]
pub struct Waiters(u64);

impl Waiters {
    /// Removes the waiter with the smallest number, and returns the number.
    pub fn take(&mut self) -> Option<usize> {
        let first = self.0.trailing_zeros() as usize;
        self.0 &= self.0.wrapping_sub(1);
        (first < MAX_THREADS).then_some(first)
    }
}

/// The counts of one thread.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Tally {
    /// Acquisitions of locks.
    pub acquisitions: u64,
    /// Acquisitions that found the lock held.
    pub found_held: u64,
    /// Waits for a condition.
    pub waits: u64,
}

/// The calling thread of an application.
pub struct Thread<'a, P: Package> {
    /// Its number.
    pub index: usize,
    handles: &'a [OnceLock<P::Handle>],
    tally: Cell<Tally>,
}

impl<P: Package> Thread<'_, P> {
    /// Returns one for a thread that works alone, before or after the others.
    pub fn alone() -> Self {
        Thread {
            index: 0,
            handles: &[],
            tally: Cell::default(),
        }
    }

    /// Acquires a lock, and counts whether a first attempt found it held.
    pub fn lock<'l, T>(&self, lock: &'l Lock<P, T>) -> Guard<'l, P, T> {
        let mut tally = self.tally.get();
        tally.acquisitions += 1;
        let guard = lock.try_lock();
        tally.found_held += u64::from(guard.is_none());
        self.tally.set(tally);
        guard.unwrap_or_else(|| lock.lock())
    }

    /// Releases a lock, waits, and acquires it again. May return without a wake-up.
    pub fn wait<'l, T>(
        &self,
        lock: &'l Lock<P, T>,
        mut guard: Guard<'l, P, T>,
        condition: fn(&mut T) -> &mut Waiters,
    ) -> Guard<'l, P, T> {
        condition(&mut guard).0 |= 1 << self.index;
        drop(guard);
        let mut tally = self.tally.get();
        tally.waits += 1;
        self.tally.set(tally);
        P::park();
        self.lock(lock)
    }

    /// Lets the wait of a thread return. Callers release the lock first, because that thread
    /// acquires it.
    pub fn wake(&self, waiter: Option<usize>) {
        // A waiter has stored its handle before it waits.
        let handle = waiter.and_then(|waiter| self.handles.get(waiter)?.get());
        if let Some(handle) = handle {
            P::unpark(handle);
        }
    }

    /// Lets the waits of all threads return.
    pub fn wake_all(&self, mut waiters: Waiters) {
        while waiters.0 != 0 {
            self.wake(waiters.take());
        }
    }
}

/// A program of several threads.
///
/// # Safety
///
/// Other threads of the same kernel thread may preempt `work` at any instruction. So it neither
/// allocates nor frees, does no input or output, uses no thread-local, does not panic, and shares
/// data with other threads only under locks of the package.
pub unsafe trait Application: 'static {
    /// The data that its threads share.
    type Shared<P: Package>;
    /// The memory of one thread.
    type Local;
    /// Returns the number of threads, 1 to [`MAX_THREADS`].
    fn threads(&self) -> usize;
    /// Allocates what the threads share.
    fn shared<P: Package>(&self) -> Self::Shared<P>;
    /// Allocates what one thread needs.
    fn local(&self, index: usize) -> Self::Local;
    /// Does the work of one thread.
    fn work<P: Package>(
        &self,
        shared: &Self::Shared<P>,
        local: &mut Self::Local,
        thread: &Thread<'_, P>,
    );
    /// Checks the result, and returns it in a phrase. An error is a sentence.
    fn judge<P: Package>(&self, shared: Self::Shared<P>) -> Result<String, String>;
}

/// The results of a run.
#[derive(Clone, Debug)]
pub struct Outcome {
    /// From the start of the first thread to the end of the last one.
    pub elapsed: Duration,
    /// The sum over the threads.
    pub tally: Tally,
    /// The kernel's counts of their kernel threads.
    pub switches: Option<Switches>,
    /// The interventions of the kernel and of signal handlers for the mechanism.
    pub interventions: Interventions,
    /// The result of the application, in a phrase.
    pub result: String,
}

impl Outcome {
    /// Returns the results of this run and another one, after it.
    pub fn and(self, other: Outcome) -> Outcome {
        let (tally, switches) = sum(&[(self.tally, self.switches), (other.tally, other.switches)]);
        Outcome {
            elapsed: self.elapsed + other.elapsed,
            tally,
            switches,
            interventions: combine(self.interventions, other.interventions, |a, b| a + b),
            result: self.result + "\n" + &other.result,
        }
    }

    /// Returns how often a thread blocked: in the kernel, or, without threads of the kernel, in the
    /// package.
    pub fn blocks(&self, is_kernel: bool) -> Option<u64> {
        match is_kernel {
            true => self.switches.map(|switches| switches.blocks),
            false => Some(self.tally.waits + self.tally.found_held),
        }
    }
}

/// Returns a place for the handle of each thread.
pub fn handles<P: Package>(threads: usize) -> Vec<OnceLock<P::Handle>> {
    (0..threads).map(|_| OnceLock::new()).collect()
}

/// Runs a thread from its beginning to its end. `region` calls its argument once.
pub fn live<A: Application, P: Package>(
    application: &A,
    shared: &A::Shared<P>,
    handles: &[OnceLock<P::Handle>],
    index: usize,
    region: impl FnOnce(&mut dyn FnMut()),
) -> (Tally, Option<Switches>) {
    let before = switches();
    let _ = handles[index].set(P::current());
    let mut local = application.local(index);
    let thread = Thread {
        index,
        handles,
        tally: Cell::default(),
    };
    region(&mut || application.work(shared, &mut local, &thread));
    let counted = before.zip(switches());
    let counted = counted.map(|(before, after)| after.since(before));
    (thread.tally.get(), counted)
}

/// Adds the counts of threads.
pub fn sum(threads: &[(Tally, Option<Switches>)]) -> (Tally, Option<Switches>) {
    let add = |one: Tally, other: Tally| Tally {
        acquisitions: one.acquisitions + other.acquisitions,
        found_held: one.found_held + other.found_held,
        waits: one.waits + other.waits,
    };
    let tallies = threads.iter().map(|(tally, _)| *tally);
    let switches = threads.iter().map(|(_, switches)| *switches);
    let none = Some(Switches::default());
    let switches = switches.fold(none, |sum, one| Some(sum? + one?));
    (tallies.fold(Tally::default(), add), switches)
}

fn combine(one: Interventions, other: Interventions, with: fn(u64, u64) -> u64) -> Interventions {
    let both = |one: Option<u64>, other: Option<u64>| Some(with(one?, other?));
    Interventions {
        emulations: both(one.emulations, other.emulations),
        restarts: both(one.restarts, other.restarts),
        rollforwards: both(one.rollforwards, other.rollforwards),
        deferrals: both(one.deferrals, other.deferrals),
    }
}

/// Returns the interventions between two readings.
pub fn since(before: Interventions, after: Interventions) -> Interventions {
    combine(after, before, |after, before| after - before)
}

/// Pins the calling thread to the first CPU that it may use.
pub fn pinned() -> Result<Pinned, String> {
    let first = cpus().and_then(|cpus| Pinned::to(cpus[0]));
    first.map_err(|error| format!("the process could not be pinned to one CPU: {error}"))
}

/// The package of kernel threads, whose lock is `R`.
pub struct Kernel<R>(PhantomData<R>);

impl<R: RawMutex + 'static> Package for Kernel<R> {
    type Raw = R;
    type Handle = thread::Thread;

    fn current() -> thread::Thread {
        thread::current()
    }

    fn park() {
        thread::park();
    }

    fn unpark(handle: &thread::Thread) {
        handle.unpark();
    }
}

/// Runs an application on kernel threads of one CPU. An error is a sentence.
pub fn on_kernel_threads<A, R>(
    application: &Arc<A>,
    interventions: fn() -> Interventions,
) -> Result<Outcome, String>
where
    A: Application + Send + Sync,
    A::Shared<Kernel<R>>: Sync,
    R: RawMutex + 'static,
{
    // Threads inherit the CPU. This one runs there too: it makes and checks the shared data, and
    // some mechanisms exclude only the threads of one CPU.
    let _pinned = pinned()?;
    let shared = application.shared::<Kernel<R>>();
    let handles = &handles::<Kernel<R>>(application.threads());
    let before = interventions();
    // No thread works before all are started: they may wait for each other.
    let (all_started, start) = (&Mutex::new(None), &Condvar::new());
    let (elapsed, threads) = thread::scope(|scope| {
        let work = |index| {
            let (shared, application) = (&shared, &**application);
            move || {
                let even_if_poisoned = std::sync::PoisonError::into_inner;
                let guard = all_started.lock().unwrap_or_else(even_if_poisoned);
                let waited =
                    start.wait_while(guard, |started: &mut Option<bool>| started.is_none());
                let is_complete = *waited.unwrap_or_else(even_if_poisoned) == Some(true);
                is_complete.then(|| {
                    live::<A, Kernel<R>>(application, shared, handles, index, |work| work())
                })
            }
        };
        let spawn = |index| thread::Builder::new().spawn_scoped(scope, work(index));
        let started: Result<Vec<_>, _> = (0..application.threads()).map(spawn).collect();
        let begin = Instant::now();
        *all_started.lock().map_err(|error| error.to_string())? = Some(started.is_ok());
        start.notify_all();
        let started =
            started.map_err(|error| format!("the system refuses a kernel thread: {error}"))?;
        let joined = started
            .into_iter()
            .filter_map(|thread| match thread.join() {
                Ok(counts) => counts,
                Err(panic) => std::panic::resume_unwind(panic),
            });
        let joined: Vec<_> = joined.collect();
        Ok::<_, String>((begin.elapsed(), joined))
    })?;
    let (tally, switches) = sum(&threads);
    Ok(Outcome {
        elapsed,
        tally,
        switches,
        interventions: since(before, interventions()),
        result: application.judge(shared)?,
    })
}
