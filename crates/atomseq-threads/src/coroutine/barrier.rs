//! Barriers of coroutines.

use core::cell::Cell;
use core::fmt;

use super::scheduler::{Queue, expect_scheduler};

/// A barrier: coroutines wait until all have arrived. It can be used again at once.
///
/// ```
/// use atomseq_threads::coroutine::{self, Barrier};
///
/// let (barrier, leaders) = (Barrier::new(3), std::cell::Cell::new(0));
/// let arrive = || {
///     if barrier.wait().is_leader() {
///         leaders.set(leaders.get() + 1);
///     }
/// };
/// let all = || coroutine::scope(|scope| (0..3).for_each(|_| drop(scope.spawn(arrive))));
/// // SAFETY: switches outside of thread-locals.
/// unsafe { coroutine::run(all) };
/// assert_eq!(leaders.get(), 1);
/// ```
pub struct Barrier {
    coroutines: usize,
    /// The number of coroutines that wait, and their run. Those of a run that ended in a deadlock
    /// do not count.
    arrived: Cell<usize>,
    run: Cell<u64>,
    waiting: Queue,
}

/// The result of [`Barrier::wait`].
#[derive(Clone, Copy, Debug)]
pub struct BarrierWaitResult(bool);

impl BarrierWaitResult {
    /// Returns whether this coroutine arrived last. It is true for one of those that wait together.
    pub fn is_leader(&self) -> bool {
        self.0
    }
}

impl Barrier {
    /// Creates a barrier for that many coroutines. With 0 or 1, no coroutine waits.
    pub const fn new(coroutines: usize) -> Barrier {
        Barrier {
            coroutines,
            arrived: Cell::new(0),
            run: Cell::new(0),
            waiting: Queue::new(),
        }
    }

    /// Waits until all coroutines have arrived.
    ///
    /// # Panics
    ///
    /// Outside of [`run`](super::run), and if no other coroutine can run, so that none can arrive.
    /// This one has not arrived then.
    #[track_caller]
    pub fn wait(&self) -> BarrierWaitResult {
        let scheduler = expect_scheduler();
        scheduler.begin();
        if self.run.replace(scheduler.run()) != scheduler.run() {
            self.arrived.set(0);
        }
        let arrived = self.arrived.get() + 1;
        let is_leader = arrived >= self.coroutines;
        self.arrived.set(if is_leader { 0 } else { arrived });
        let is_over = if is_leader {
            scheduler.wake_all(&self.waiting);
            true
        } else {
            scheduler.wait_in(&self.waiting)
        };
        if !is_over {
            self.arrived.set(self.arrived.get() - 1);
        }
        scheduler.end();
        if !is_over {
            panic!("all coroutines wait, so none can arrive at the barrier");
        }
        BarrierWaitResult(is_leader)
    }
}

impl fmt::Debug for Barrier {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Barrier")
            .field("coroutines", &self.coroutines)
            .field("arrived", &self.arrived.get())
            .finish_non_exhaustive()
    }
}
