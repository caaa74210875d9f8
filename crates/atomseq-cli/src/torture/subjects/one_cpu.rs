//! Locks of scope `SameCpu`: threads that live for a moment, all on one CPU, which is the same for
//! all rounds.

use std::sync::OnceLock;
use std::sync::atomic::Ordering;
use std::thread;

use atomseq::mutex::{OnCpu, RawMutex, RawSpin};
use atomseq_papers::reservation::{Bundle, Bundled, OneCpu, PerLock, Unfenced};

use crate::machine;
use crate::torture::harness::lane::{Doing, Lane};
use crate::torture::harness::law::Checked;
use crate::torture::subjects::section::Section;
use crate::torture::system;

/// The threads that live here.
pub struct Pinned;

// SAFETY: only the guests of `Crew::meet` use mechanisms of this group. Each has told the kernel to
// run it on `cpu()` only, and been told that it does; nobody moves it, since the tormentor moves
// workers. Nobody else has this bundle.
unsafe impl OneCpu for Pinned {
    fn bundle() -> &'static Bundle {
        static BUNDLE: Bundle = Bundle::new();
        &BUNDLE
    }
}

/// The same for the whole process.
fn cpu() -> Option<usize> {
    static CPU: OnceLock<Option<usize>> = OnceLock::new();
    *CPU.get_or_init(|| machine::allowed_cpus().first().copied())
}

/// A lock that guests share.
trait Lock: Send + Sync {
    /// Holds it for a moment.
    fn enter(&self, me: usize, rng: &mut fastrand::Rng) -> Checked;

    /// All have stopped.
    fn settle(&self, entered: u64) -> Checked;
}

impl<R: lock_api::RawMutex + Send + Sync> Lock for lock_api::Mutex<R, Section> {
    fn enter(&self, me: usize, rng: &mut fastrand::Rng) -> Checked {
        self.lock().change(me, rng, 1)
    }

    fn settle(&self, entered: u64) -> Checked {
        // The director is on any CPU, and has the lock to itself.
        // SAFETY: no guest lives any more.
        unsafe { (*self.data_ptr()).settle_with(entered) }
    }
}

/// Locks, and the guests that share them.
pub struct Crew {
    locks: Vec<Box<dyn Lock>>,
    /// Where lanes count how often their guests held the first one; the others follow.
    sum: usize,
}

/// How many guests meet.
pub const GUESTS: usize = 3;

impl Crew {
    /// Nobody holds any. Those that reserve are there if all their threads can have numbers.
    pub fn new(sum: usize, can_reserve: bool) -> Crew {
        fn boxed<R: lock_api::RawMutex + Send + Sync + 'static>(
            name: &'static str,
        ) -> Box<dyn Lock> {
            Box::new(lock_api::Mutex::<R, _>::new(Section::new(name)))
        }
        let mut locks = vec![
            boxed::<RawSpin<OnCpu>>("inside a spin lock by on-cpu, on one CPU"),
            boxed::<RawMutex<OnCpu>>("inside a mutex by on-cpu, on one CPU"),
        ];
        if can_reserve {
            locks.extend([
                boxed::<RawMutex<PerLock<Unfenced<Pinned>>>>(
                    "inside the mutex by reservation-a-one-cpu",
                ),
                boxed::<RawMutex<Bundled<Unfenced<Pinned>>>>(
                    "inside the mutex by reservation-b-one-cpu",
                ),
            ]);
        }
        Crew { locks, sum }
    }

    /// Guests come, take one of the locks often, and go; where the system keeps no thread on a CPU,
    /// nothing happens.
    pub fn meet(&self, lane: &mut Lane) -> Checked {
        let Some(cpu) = cpu() else {
            return Ok(());
        };
        lane.begin(Doing::Guests);
        let number = lane.rng.usize(..self.locks.len());
        let lock = &*self.locks[number];
        let times = lane.rng.u64(20..200);
        let seeds = [(); GUESTS].map(|()| lane.rng.u64(..));
        // Numbers that no lane has.
        let first = 1_000_000 * (lane.number + 1);
        let board = lane.board();
        let worker = board.thread.load(Ordering::Relaxed);
        let entered = thread::scope(|scope| {
            let guests = seeds.iter().enumerate().map(|(guest, seed)| {
                let live = move || {
                    if !system::move_thread(system::own_number(), &[cpu]) {
                        return Ok(0);
                    }
                    // Signals find a guest instead of the worker.
                    board
                        .signalled
                        .store(system::own_number(), Ordering::Relaxed);
                    let mut rng = fastrand::Rng::with_seed(*seed);
                    (0..times).try_for_each(|_| lock.enter(first + guest, &mut rng))?;
                    Ok(times)
                };
                let builder = thread::Builder::new().stack_size(128 << 10);
                builder.spawn_scoped(scope, live)
            });
            // Where the system has no thread left, there are fewer guests.
            let guests: Vec<_> = guests.filter_map(Result::ok).collect();
            let ends = guests.into_iter().map(|guest| match guest.join() {
                Ok(end) => end,
                Err(panic) => std::panic::resume_unwind(panic),
            });
            ends.sum::<Checked<u64>>()
        });
        lane.board().signalled.store(worker, Ordering::Relaxed);
        lane.totals[self.sum + number] += entered?;
        Ok(())
    }

    /// All have stopped.
    pub fn settle(&self, lanes: &[Lane]) -> Checked {
        for (number, lock) in self.locks.iter().enumerate() {
            let sum = self.sum + number;
            lock.settle(lanes.iter().map(|lane| lane.totals[sum]).sum())?;
        }
        Ok(())
    }
}
