//! Whether a lock excludes: counted, under the harshest schedule that the scope of its mechanism
//! allows.
//!
//! | scope | schedule |
//! |---|---|
//! | `Machine` | [`on_machine`]: more threads than CPUs, which are moved between CPUs |
//! | `SameCpu` | [`on_one_cpu`]: threads on one CPU, aborted by another CPU's fences |
//! | `SameThread` | [`among_handlers`]: a storm of signals, whose handlers try the lock |

use std::sync::{Arc, OnceLock};
use std::time::Duration;

use atomseq::mutex::Semaphore;
use atomseq_papers::reservation::{Bundle, Lamport, OneCpu};
use atomseq_stress::engine::watch::{self, End, Goal};
use atomseq_stress::engine::{Interruptions, Options, Round, Setting};
use atomseq_stress::system;
use atomseq_stress::targets::exclusive::LockRound;
use atomseq_stress::targets::same_thread::{Place, SameThreadRound};
use lock_api::{GuardNoSend, GuardSend, RawMutex};

/// The shortest run: in less time, no thread might be disturbed.
const LEAST: Duration = Duration::from_millis(100);

/// Returns the CPUs of this process, before any run has restricted them.
pub fn cpus() -> &'static [usize] {
    static CPUS: OnceLock<Vec<usize>> = OnceLock::new();
    CPUS.get_or_init(system::allowed_cpus)
}

fn options() -> Options {
    cpus();
    Options::new(fastrand::u64(..))
}

/// Acquires one lock so often.
pub fn on_machine<R: RawMutex + Send + Sync + 'static>(operations: u64) -> End {
    let goal = Goal {
        time: LEAST,
        operations,
        moves: 20,
        ..Goal::default()
    };
    watch::test(one_lock::<R>, Interruptions::Sent, &options(), goal)
}

fn one_lock<R: RawMutex + Send + Sync + 'static>(_: &mut Setting) -> Arc<dyn Round> {
    Arc::new(LockRound::<R>::new())
}

/// The threads of one run, for mechanisms that ask for a group of threads on one CPU.
pub struct Pinned;

// SAFETY: only the workers of `on_one_cpu` use such mechanisms, one run at a time, and each is on
// that run's CPU from its start. No other code has this bundle.
unsafe impl OneCpu for Pinned {
    fn bundle() -> &'static Bundle {
        static BUNDLE: Bundle = Bundle::new();
        &BUNDLE
    }
}

/// A lock that threads of one CPU share.
struct OnOneCpu<R>(R);

// SAFETY: only the workers of `on_one_cpu` use it, all on one CPU.
unsafe impl<R> Send for OnOneCpu<R> {}
// SAFETY: as for `Send`.
unsafe impl<R> Sync for OnOneCpu<R> {}

// SAFETY: excludes as the lock inside does.
unsafe impl<R: RawMutex> RawMutex for OnOneCpu<R> {
    #[allow(
        clippy::declare_interior_mutable_const,
        reason = "lock_api's way to make new ones"
    )]
    const INIT: OnOneCpu<R> = OnOneCpu(R::INIT);
    type GuardMarker = R::GuardMarker;

    fn lock(&self) {
        self.0.lock();
    }

    fn try_lock(&self) -> bool {
        self.0.try_lock()
    }

    unsafe fn unlock(&self) {
        // SAFETY: by this function's contract.
        unsafe { self.0.unlock() }
    }
}

/// Acquires one lock so often by threads of one CPU.
pub fn on_one_cpu<R: RawMutex + 'static>(operations: u64) -> End {
    let cpu = cpus()[0];
    // Inherited by all threads of the run.
    stay_on(cpu);
    let other = cpus().iter().find(|other| **other != cpu);
    let options = Options {
        workers: 4,
        cpus: vec![cpu],
        moves: false,
        disturber: other.copied(),
        ..options()
    };
    let goal = Goal {
        time: LEAST,
        operations,
        fences: 20,
        ..Goal::default()
    };
    watch::test(one_lock::<OnOneCpu<R>>, Interruptions::Sent, &options, goal)
}

/// Restricts the calling thread to a CPU.
pub fn stay_on(cpu: usize) {
    let is_there = system::move_thread(system::own_number(), &[cpu]);
    assert!(is_there, "the system refuses to run a thread on CPU {cpu}");
}

/// Acquires one lock a thread so often, which the thread's signal handlers want, too.
pub fn among_handlers<R: RawMutex + 'static>(operations: u64) -> End {
    storm(operations, |setting| {
        Arc::new(SameThreadRound::<R>::new(
            setting,
            Place::Anywhere,
            cpus().to_vec(),
        ))
    })
}

/// Does the same with each thread on the home CPU of its lock.
pub fn among_handlers_at_home<R: RawMutex + 'static>(operations: u64) -> End {
    storm(operations, |setting| {
        Arc::new(SameThreadRound::<R>::new(
            setting,
            Place::Home,
            cpus().to_vec(),
        ))
    })
}

/// Does the same with threads that move: half of the acquisitions visit a lock that stays at its
/// home.
pub fn among_handlers_moving<R: RawMutex + 'static>(operations: u64) -> End {
    storm(operations, |setting| {
        Arc::new(SameThreadRound::<R>::new(
            setting,
            Place::Both,
            cpus().to_vec(),
        ))
    })
}

fn storm(operations: u64, round: fn(&mut Setting) -> Arc<dyn Round>) -> End {
    let options = Options {
        workers: 3,
        moves: false,
        ..options()
    };
    let goal = Goal {
        time: LEAST,
        operations,
        signals: 100,
        ..Goal::default()
    };
    watch::test(round, Interruptions::Storm, &options, goal)
}

/// A semaphore of one permit, as a lock.
#[derive(Debug)]
pub struct OnePermit(Semaphore);

// SAFETY: there is one permit, which only `unlock` gives back.
unsafe impl RawMutex for OnePermit {
    #[allow(
        clippy::declare_interior_mutable_const,
        reason = "lock_api's way to make new ones"
    )]
    const INIT: OnePermit = OnePermit(Semaphore::new(1));
    type GuardMarker = GuardSend;

    fn lock(&self) {
        self.0.acquire().forget();
    }

    fn try_lock(&self) -> bool {
        self.0.try_acquire().map(|permit| permit.forget()).is_some()
    }

    unsafe fn unlock(&self) {
        self.0.release().expect("one permit was acquired");
    }
}

/// Lamport's algorithm as printed, which has no operation that does not wait.
pub struct Figure1(Lamport);

// SAFETY: the algorithm lets one thread in at a time.
unsafe impl RawMutex for Figure1 {
    #[allow(
        clippy::declare_interior_mutable_const,
        reason = "lock_api's way to make new ones"
    )]
    const INIT: Figure1 = Figure1(Lamport::new());
    type GuardMarker = GuardNoSend;

    fn lock(&self) {
        self.0.enter();
    }

    fn try_lock(&self) -> bool {
        self.0.enter();
        true
    }

    unsafe fn unlock(&self) {
        // SAFETY: the caller has entered.
        unsafe { self.0.leave() }
    }
}
