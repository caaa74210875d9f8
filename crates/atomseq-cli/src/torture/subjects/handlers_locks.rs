//! Locks of scope `SameThread`: a worker's, and its signal handlers'.

use atomseq::mutex::{Masked, RawSpin, Restarting, Rolling, TestAndSet};

use crate::torture::harness::lane::{Doing, Lane};
use crate::torture::harness::law::{Broken, Checked};
use crate::torture::subjects::section::Section;

/// A lock that a worker shares with its handlers.
struct Shared<M: TestAndSet>(lock_api::Mutex<RawSpin<M>, Section>);

impl<M: TestAndSet> Shared<M> {
    fn new(name: &'static str) -> Shared<M> {
        Shared(lock_api::Mutex::new(Section::new(name)))
    }

    /// The worker waits in vain for nobody: its handlers are through with the lock when it goes on. They themselves only
    /// try.
    fn enter(&self, lane: &mut Lane, sum: usize, is_handler: bool) -> Checked {
        lane.begin(Doing::HandlersLock);
        let section = match is_handler || lane.one_in(4) {
            true => self.0.try_lock(),
            false => Some(self.0.lock()),
        };
        section.map_or(Ok(()), |section| section.go_through(lane, sum))
    }

    fn settle(&self, lanes: &[Lane], sum: usize) -> Checked {
        match self.0.try_lock() {
            Some(section) => section.settle(lanes, sum),
            None => Err(Broken::new("a lock is held after all have released it")),
        }
    }
}

/// One by each mechanism.
pub struct HandlersLocks {
    restarting: Shared<Restarting>,
    rolling: Shared<Rolling>,
    masked: Shared<Masked>,
    /// Where lanes count how often they held the first one; the next two follow.
    sum: usize,
}

// SAFETY: the locks are one thread's. That is the worker that [`HandlersLocks::enter`] is called by, with its handlers, from
// its round's beginning to its end; before and after that the director has the round to itself.
unsafe impl Send for HandlersLocks {}
// SAFETY: as above.
unsafe impl Sync for HandlersLocks {}

impl HandlersLocks {
    /// Nobody holds any.
    pub fn new(sum: usize) -> HandlersLocks {
        HandlersLocks {
            restarting: Shared::new("inside the spin lock by restarting"),
            rolling: Shared::new("inside the spin lock by rolling"),
            masked: Shared::new("inside the spin lock by masked"),
            sum,
        }
    }

    /// Holds one for a moment, or tries to.
    ///
    /// # Safety
    ///
    /// Called by one thread and its handlers.
    pub unsafe fn enter(&self, lane: &mut Lane, is_handler: bool) -> Checked {
        match lane.rng.usize(..3) {
            0 => self.restarting.enter(lane, self.sum, is_handler),
            1 => self.rolling.enter(lane, self.sum + 1, is_handler),
            _ => self.masked.enter(lane, self.sum + 2, is_handler),
        }
    }

    /// All have stopped.
    pub fn settle(&self, lanes: &[Lane]) -> Checked {
        self.restarting.settle(lanes, self.sum)?;
        self.rolling.settle(lanes, self.sum + 1)?;
        self.masked.settle(lanes, self.sum + 2)
    }
}
