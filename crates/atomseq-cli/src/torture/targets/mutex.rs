//! Mutex: every lock by every mechanism, each under what its scope lets come in between.

use std::sync::{Arc, OnceLock};

use atomseq::mutex::{BiasedFlag, Interlocked, OnCpu, RawMutex, RawSpin};
use atomseq_papers::emulation::{Call, Error, Trap};
use atomseq_papers::reservation::{Bundled, PerLock, THREADS};
use crossbeam_utils::CachePadded;

use crate::torture::harness::lane::{Doing, LANES_PER_WORKER, Lane};
use crate::torture::harness::law::Checked;
use crate::torture::harness::sabotage::Sabotage;
use crate::torture::harness::{Interruptions, Round, STEPS, Setting, Target};
use crate::torture::needs::Need;
use crate::torture::subjects::exclusive::{Exclusive, Lock, Manners};
use crate::torture::subjects::handlers_locks::HandlersLocks;
use crate::torture::subjects::one_cpu::{self, Crew};
use crate::torture::subjects::unprotected::Unprotected;
use crate::torture::subjects::waiting::Waiting;

/// The target.
pub const TARGET: Target = Target {
    name: "mutex",
    about: "locks by every mechanism, held while threads are moved, interrupted and forked; one at a time, nobody forgotten",
    round: |setting| Arc::new(Locked::new(setting)),
    steps: STEPS / 4,
    interruptions: Interruptions::Managed,
    counts: "forks",
};

/// Where lanes count how often they held the first lock; a sum a lock.
const SHARED: usize = 0;
const HANDLERS: usize = 100;
const GUESTS: usize = 200;

/// A lock of everybody's, by the place of its sum.
type Make = fn(usize) -> Box<dyn Lock>;

/// A spin lock or mutex by a mechanism, with its name.
macro_rules! lock {
    (spin lock by $name:literal: $mechanism:ty, $manners:expr) => {
        |sum| {
            let name = concat!("inside the spin lock by ", $name);
            Exclusive::<RawSpin<$mechanism>>::boxed(name, Doing::SpinLock, $manners, sum)
        }
    };
    (mutex by $name:literal: $mechanism:ty, $manners:expr) => {
        |sum| {
            let name = concat!("inside the mutex by ", $name);
            Exclusive::<RawMutex<$mechanism>>::boxed(name, Doing::Mutex, $manners, sum)
        }
    };
}

/// The library's.
const LIBRARYS: [Make; 6] = [
    lock!(spin lock by "interlocked": Interlocked, Manners::BOTH),
    lock!(mutex by "interlocked": Interlocked, Manners::BOTH),
    lock!(spin lock by "biased-flag": BiasedFlag, Manners::BOTH),
    lock!(mutex by "biased-flag": BiasedFlag, Manners::BOTH),
    lock!(spin lock by "on-cpu": OnCpu, Manners::BOTH),
    lock!(mutex by "on-cpu": OnCpu, Manners::BOTH),
];

/// Those that the papers compare with, where there are so few threads that each can have a number:
/// a handler would wait for the operation that it interrupted, and in a child of a fork, flags stay
/// up.
const RESERVED: [Make; 2] = [
    lock!(mutex by "reservation-a": PerLock, NEITHER),
    lock!(mutex by "reservation-b": Bundled, NEITHER),
];

const NEITHER: Manners = Manners {
    handlers: false,
    forks: false,
};

/// The same, where there is emulation: a handler may have interrupted one.
const EMULATED: [Make; 2] = [
    lock!(mutex by "emulation-trap": Trap, NO_HANDLERS),
    lock!(mutex by "emulation-call": Call, NO_HANDLERS),
];

const NO_HANDLERS: Manners = Manners {
    handlers: false,
    forks: true,
};

/// The control.
const UNPROTECTED: Make = lock!(spin lock by "no protection": Unprotected, Manners::BOTH);

/// Has every thread a number that may want one?
fn can_reserve(workers: usize) -> bool {
    /// The torture's other threads.
    const OTHERS: usize = 16;
    workers * (1 + one_cpu::GUESTS) + OTHERS <= THREADS
}

/// All that can be here, with so many workers.
fn all(workers: usize, sabotage: Option<Sabotage>) -> Vec<Make> {
    static EMULATES: OnceLock<bool> = OnceLock::new();
    let start = || {
        let started = Trap::start().and_then(|()| Call::start());
        // Where there is no emulation, nothing was asked for.
        if started != Err(Error::Unsupported) {
            Need::Emulation.granted(started.is_ok());
        }
        started.is_ok()
    };
    let emulates = *EMULATES.get_or_init(start);
    let mut all = LIBRARYS.to_vec();
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

struct Locked {
    /// Everybody's.
    shared: Vec<Box<dyn Lock>>,
    /// A worker's each.
    handlers: Box<[CachePadded<HandlersLocks>]>,
    waiting: Waiting,
    crew: Crew,
}

impl Locked {
    fn new(setting: &mut Setting) -> Locked {
        let workers = setting.lanes / LANES_PER_WORKER;
        Locked {
            shared: all(workers, setting.sabotage)
                .into_iter()
                .enumerate()
                .map(|(number, make)| make(SHARED + number))
                .collect(),
            handlers: (0..workers)
                .map(|_| HandlersLocks::new(HANDLERS).into())
                .collect(),
            waiting: Waiting::new(setting),
            crew: Crew::new(GUESTS, can_reserve(workers)),
        }
    }

    fn any(&self, lane: &mut Lane) -> &dyn Lock {
        &*self.shared[lane.rng.usize(..self.shared.len())]
    }

    /// Those that the lane's worker shares with its handlers.
    fn enter_own(&self, lane: &mut Lane, is_handler: bool) -> Checked {
        let own = &self.handlers[lane.number / LANES_PER_WORKER];
        // SAFETY: a lane is a worker's or its handlers', and these are that worker's.
        unsafe { own.enter(lane, is_handler) }
    }
}

impl Round for Locked {
    fn step(&self, lane: &mut Lane) -> Checked {
        // A fork takes as long as thousands of acquisitions, and all others wait meanwhile.
        if lane.one_in(1 << 14) {
            return self.any(lane).fork(lane);
        }
        // These have many acquisitions each.
        if lane.one_in(256) {
            return self.crew.meet(lane);
        }
        match lane.rng.u32(..16) {
            0..8 => self.any(lane).enter(lane),
            8..12 => self.enter_own(lane, false),
            12..14 => self.waiting.have_token(lane),
            _ => self.waiting.have_permit(lane),
        }
    }

    fn interrupt(&self, lane: &mut Lane) -> Checked {
        for _ in 0..lane.rng.u32(1..=3) {
            match lane.rng.u32(..8) {
                0..3 => self.any(lane).enter_from_handler(lane)?,
                3..6 => self.enter_own(lane, true)?,
                6 => self.waiting.notify_from_handler(lane)?,
                _ => self.waiting.interrupt(lane)?,
            }
        }
        Ok(())
    }

    fn finish(&mut self, lanes: &mut [Lane]) -> Checked {
        for lock in &self.shared {
            lock.settle(lanes)?;
        }
        let of_workers = lanes.chunks(LANES_PER_WORKER);
        for (own, lanes) in self.handlers.iter().zip(of_workers) {
            own.settle(lanes)?;
        }
        self.crew.settle(lanes)?;
        self.waiting.settle()
    }
}
