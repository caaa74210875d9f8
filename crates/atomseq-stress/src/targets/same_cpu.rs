//! Locks of scope `SameCpu`: short-lived threads, all on one CPU, which is the same for all rounds.

use std::sync::OnceLock;
use std::sync::atomic::Ordering;
use std::thread;

use atomseq::mutex::{OnCpu, RawMutex, RawSpin};
use atomseq_papers::reservation::{Bundle, Bundled, OneCpu, PerLock, Unfenced};

use super::section::Section;
use crate::engine::invariant::Checked;
use crate::engine::lane::{Activity, Lane};
use crate::system;

/// The group of threads on that CPU, for mechanisms that ask for one.
pub struct Pinned;

// SAFETY: only the guests of `run_guests` use mechanisms of this group. The kernel has confirmed
// for each that it runs on `cpu()` only. The disturber moves only workers. No other code has this
// bundle.
unsafe impl OneCpu for Pinned {
    fn bundle() -> &'static Bundle {
        static BUNDLE: Bundle = Bundle::new();
        &BUNDLE
    }
}

/// Returns the CPU: the same during the whole process.
fn cpu() -> Option<usize> {
    static CPU: OnceLock<Option<usize>> = OnceLock::new();
    *CPU.get_or_init(|| system::allowed_cpus().first().copied())
}

/// A lock that guests share.
trait Lock: Send + Sync {
    /// Acquires the lock, enters its section and releases it.
    fn enter(&self, me: usize, rng: &mut fastrand::Rng) -> Checked;

    /// Makes the final check: the section was entered so often.
    fn check_final(&self, entered: u64) -> Checked;
}

impl<R: lock_api::RawMutex + Send + Sync> Lock for lock_api::Mutex<R, Section> {
    fn enter(&self, me: usize, rng: &mut fastrand::Rng) -> Checked {
        self.lock().enter_as(me, rng)
    }

    fn check_final(&self, entered: u64) -> Checked {
        // The director may be on another CPU, so it does not acquire the lock.
        // SAFETY: no guest runs any more.
        unsafe { (*self.data_ptr()).check_final_count(entered) }
    }
}

/// Locks, and the guests that share them.
pub struct PinnedGroup {
    locks: Vec<Box<dyn Lock>>,
    /// The index of the lanes' sum of acquisitions of the first one; the others follow.
    sum: usize,
}

/// How many guests run at once.
pub const GUESTS: usize = 3;

impl PinnedGroup {
    /// Returns locks that are not held; those by reservation only if `can_reserve`.
    pub fn new(sum: usize, can_reserve: bool) -> PinnedGroup {
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
        PinnedGroup { locks, sum }
    }

    /// Runs guests that acquire one of the locks many times and exit. Does nothing where the system
    /// does not keep a thread on a CPU.
    pub fn run_guests(&self, lane: &mut Lane) -> Checked {
        let Some(cpu) = cpu() else {
            return Ok(());
        };
        lane.begin(Activity::Guests);
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
                let run = move || {
                    if !system::move_thread(system::own_number(), &[cpu]) {
                        return Ok(0);
                    }
                    // Signals go to a guest instead of the worker.
                    board
                        .signalled
                        .store(system::own_number(), Ordering::Relaxed);
                    let mut rng = fastrand::Rng::with_seed(*seed);
                    (0..times).try_for_each(|_| lock.enter(first + guest, &mut rng))?;
                    Ok(times)
                };
                let builder = thread::Builder::new().stack_size(128 << 10);
                builder.spawn_scoped(scope, run)
            });
            // Where the system refuses threads, there are fewer guests.
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

    /// Makes the final check, after all threads have stopped.
    pub fn check_final(&self, lanes: &[Lane]) -> Checked {
        for (number, lock) in self.locks.iter().enumerate() {
            let sum = self.sum + number;
            lock.check_final(lanes.iter().map(|lane| lane.totals[sum]).sum())?;
        }
        Ok(())
    }
}
