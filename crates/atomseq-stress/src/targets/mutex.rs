//! The target `mutex`: every lock by every mechanism, each under the disturbances that its scope
//! allows; condition variables and semaphores.

use std::sync::{Arc, OnceLock};

use atomseq::mutex::{BiasedFlag, Interlocked, OnCpu, RawMutex, RawRwLock, RawSpin};
use atomseq_papers::emulation::{Call, Error, Trap};
use atomseq_papers::reservation::{Bundled, PerLock, THREADS};
use crossbeam_utils::CachePadded;

use super::exclusive::{Exclusive, Lock, Supports};
use super::reading::Reading;
use super::same_cpu::{self, PinnedGroup};
use super::same_thread::SameThreadLocks;
use super::section::Unprotected;
use super::waiting::Waiting;
use crate::engine::invariant::Checked;
use crate::engine::lane::{Activity, LANES_PER_WORKER, Lane};
use crate::engine::{Interruptions, Round, STEPS, Sabotage, Setting, Target};
use crate::needs::Need;

/// The target `mutex`.
pub const TARGET: Target = Target {
    name: "mutex",
    group: "mutex",
    about: "locks by each mechanism exclude, and no waiter misses its wake-up",
    round: |setting| Arc::new(MutexRound::new(setting)),
    steps: STEPS / 4,
    interruptions: Interruptions::Managed,
    counts: "forks",
};

// Indices of the lanes' sums: how often they held each lock of a kind.
const SHARED: usize = 0;
const HANDLERS: usize = 100;
const GUESTS: usize = 200;

/// Makes a lock that all lanes share, by the index of its sum.
type Make = fn(usize) -> Box<dyn Lock>;

/// A function that makes a spin lock or mutex by a mechanism.
macro_rules! lock {
    (spin lock by $name:literal: $mechanism:ty, $supports:expr) => {
        |sum| {
            let name = concat!("inside the spin lock by ", $name);
            Exclusive::<RawSpin<$mechanism>>::boxed(name, Activity::SpinLock, $supports, sum)
        }
    };
    (mutex by $name:literal: $mechanism:ty, $supports:expr) => {
        |sum| {
            let name = concat!("inside the mutex by ", $name);
            Exclusive::<RawMutex<$mechanism>>::boxed(name, Activity::Mutex, $supports, sum)
        }
    };
}

/// Those of the library.
const OF_LIBRARY: [Make; 7] = [
    lock!(spin lock by "interlocked": Interlocked, Supports::BOTH),
    lock!(mutex by "interlocked": Interlocked, Supports::BOTH),
    lock!(spin lock by "biased-flag": BiasedFlag, Supports::BOTH),
    lock!(mutex by "biased-flag": BiasedFlag, Supports::BOTH),
    lock!(spin lock by "on-cpu": OnCpu, Supports::BOTH),
    lock!(mutex by "on-cpu": OnCpu, Supports::BOTH),
    |sum| Reading::<RawRwLock>::boxed("inside the lock of readers and writers", sum),
];

/// Those that the papers compare with, if there are so few threads that each can have a number. A
/// handler would wait for the operation that it interrupted. In a forked child, the flags of other
/// threads stay set.
const RESERVED: [Make; 2] = [
    lock!(mutex by "reservation-a": PerLock, NEITHER),
    lock!(mutex by "reservation-b": Bundled, NEITHER),
];

const NEITHER: Supports = Supports {
    handlers: false,
    forks: false,
};

/// The same, where there is emulation. A handler may have interrupted one.
const EMULATED: [Make; 2] = [
    lock!(mutex by "emulation-trap": Trap, NO_HANDLERS),
    lock!(mutex by "emulation-call": Call, NO_HANDLERS),
];

const NO_HANDLERS: Supports = Supports {
    handlers: false,
    forks: true,
};

/// The control.
const UNPROTECTED: Make = lock!(spin lock by "no protection": Unprotected, Supports::BOTH);

/// Returns whether each thread that needs a number can have one.
fn can_reserve(workers: usize) -> bool {
    /// Threads that are not workers.
    const OTHERS: usize = 16;
    workers * (1 + same_cpu::GUESTS) + OTHERS <= THREADS
}

/// Returns all locks that are possible with so many workers.
fn all(workers: usize, sabotage: Option<Sabotage>) -> Vec<Make> {
    static EMULATES: OnceLock<bool> = OnceLock::new();
    let start = || {
        let started = Trap::start().and_then(|()| Call::start());
        // Where there is no emulation, nothing was requested.
        if started != Err(Error::Unsupported) {
            Need::Emulation.granted(started.is_ok());
        }
        started.is_ok()
    };
    let emulates = *EMULATES.get_or_init(start);
    let mut all = OF_LIBRARY.to_vec();
    if can_reserve(workers) {
        all.extend(RESERVED);
    }
    if emulates {
        all.extend(EMULATED);
    }
    if sabotage == Some(Sabotage::Intrude) {
        all.push(UNPROTECTED);
    }
    all
}

struct MutexRound {
    /// Locks of all workers.
    shared: Vec<Box<dyn Lock>>,
    /// Locks of one worker each.
    of_workers: Box<[CachePadded<SameThreadLocks>]>,
    waiting: Waiting,
    pinned: PinnedGroup,
}

impl MutexRound {
    fn new(setting: &mut Setting) -> MutexRound {
        let workers = setting.lanes / LANES_PER_WORKER;
        MutexRound {
            shared: all(workers, setting.sabotage)
                .into_iter()
                .enumerate()
                .map(|(number, make)| make(SHARED + number))
                .collect(),
            of_workers: (0..workers)
                .map(|_| SameThreadLocks::new(HANDLERS).into())
                .collect(),
            waiting: Waiting::new(setting),
            pinned: PinnedGroup::new(GUESTS, can_reserve(workers)),
        }
    }

    fn any(&self, lane: &mut Lane) -> &dyn Lock {
        &*self.shared[lane.rng.usize(..self.shared.len())]
    }

    /// Enters a lock that the lane's worker shares with its handlers.
    fn enter_own(&self, lane: &mut Lane, is_handler: bool) -> Checked {
        let own = &self.of_workers[lane.number / LANES_PER_WORKER];
        // SAFETY: a lane belongs to a worker or its handlers, and these locks to that worker.
        unsafe { own.enter(lane, is_handler) }
    }
}

impl Round for MutexRound {
    fn step(&self, lane: &mut Lane) -> Checked {
        // A fork takes as long as thousands of acquisitions, and all other threads wait meanwhile.
        if lane.one_in(1 << 14) {
            return self.any(lane).fork(lane);
        }
        // Each call makes many acquisitions.
        if lane.one_in(256) {
            return self.pinned.run_guests(lane);
        }
        match lane.rng.u32(..16) {
            0..8 => self.any(lane).enter(lane),
            8..12 => self.enter_own(lane, false),
            12..14 => self.waiting.use_token(lane),
            _ => self.waiting.use_permit(lane),
        }
    }

    fn interrupt(&self, lane: &mut Lane) -> Checked {
        for _ in 0..lane.rng.u32(1..=3) {
            match lane.rng.u32(..8) {
                0..3 => self.any(lane).enter_from_handler(lane)?,
                3..6 => self.enter_own(lane, true)?,
                6 => self.waiting.notify_from_handler(lane)?,
                _ => self.waiting.use_permit_from_handler(lane)?,
            }
        }
        Ok(())
    }

    fn finish(&mut self, lanes: &mut [Lane]) -> Checked {
        for lock in &self.shared {
            lock.check_final(lanes)?;
        }
        let of_workers = lanes.chunks(LANES_PER_WORKER);
        for (own, lanes) in self.of_workers.iter().zip(of_workers) {
            own.check_final(lanes)?;
        }
        self.pinned.check_final(lanes)?;
        self.waiting.check_final()
    }
}
