//! Rings between a worker and its signal handlers: one has the producer, the other the consumer. A
//! handler may interrupt its worker's operation on the other end.

use std::cell::UnsafeCell;

use atomseq::nonblocking::spsc::{Consumer, Producer, Ring};
use crossbeam_utils::CachePadded;

use crate::engine::invariant::{Checked, Violation};
use crate::engine::lane::{Activity, LANES_PER_WORKER, Lane};
use crate::engine::ledger::Ledger;
use crate::engine::{Round, STEPS, Setting};

/// The rings of all workers, and their ledger.
pub struct RingRound {
    workers: Box<[CachePadded<Both>]>,
    ledger: Ledger,
}

/// The rings of a worker.
struct Both {
    /// From the worker to its first handler.
    there: Ends,
    /// From its second handler to the worker.
    back: Ends,
}

struct Ends {
    producer: UnsafeCell<Producer<'static, u64>>,
    /// With the number after that of the last value.
    consumer: UnsafeCell<(Consumer<'static, u64>, u32)>,
}

// SAFETY: one lane uses each end, as `put` and `take` require.
unsafe impl Sync for Ends {}

impl Ends {
    fn new(capacity: usize) -> Ends {
        let (producer, consumer) = Ring::with_capacity(capacity).into_ends();
        Ends {
            producer: UnsafeCell::new(producer),
            consumer: UnsafeCell::new((consumer, 0)),
        }
    }

    /// Puts a value in, if there is room.
    ///
    /// # Safety
    ///
    /// No other lane puts values in.
    unsafe fn put(&self, ledger: &Ledger, lane: &mut Lane) -> Checked {
        let Some(value) = ledger.issue(lane) else {
            return Ok(());
        };
        lane.begin(Activity::Push);
        // SAFETY: by this function's contract.
        let producer = unsafe { &mut *self.producer.get() };
        match producer.push(value) {
            Ok(()) => Ok(()),
            Err(back) => ledger.out_by(lane, back).map(drop),
        }
    }

    /// Takes a value out, if there is one.
    ///
    /// # Safety
    ///
    /// No other lane takes values out.
    unsafe fn take(&self, ledger: &Ledger, lane: &mut Lane) -> Checked {
        lane.begin(Activity::Pop);
        // SAFETY: by this function's contract.
        let (consumer, after) = unsafe { &mut *self.consumer.get() };
        let Some(value) = consumer.pop() else {
            return Ok(());
        };
        let origin = ledger.out_by(lane, value)?;
        let seen = std::mem::replace(after, origin.number + 1);
        match seen > origin.number {
            true => Err(Violation::new("values left a ring out of order")
                .with("number", origin.number.into())
                .with("after number", (seen - 1).into())),
            false => Ok(()),
        }
    }
}

impl RingRound {
    /// Returns rings of this capacity, for so many lanes.
    pub fn new(capacity: usize, setting: &mut Setting) -> RingRound {
        let both = || Both {
            there: Ends::new(capacity),
            back: Ends::new(capacity),
        };
        let workers = setting.lanes / LANES_PER_WORKER;
        RingRound {
            workers: (0..workers).map(|_| CachePadded::new(both())).collect(),
            ledger: Ledger::new(setting.salt, setting.lanes, STEPS),
        }
    }

    fn operate(&self, lane: &mut Lane) -> Checked {
        let Both { there, back } = &*self.workers[lane.number / LANES_PER_WORKER];
        // SAFETY: one lane of the worker uses each of these ends, by its number.
        unsafe {
            match (lane.number % LANES_PER_WORKER, lane.rng.bool()) {
                (0, true) => there.put(&self.ledger, lane),
                (0, false) => back.take(&self.ledger, lane),
                (1, _) => there.take(&self.ledger, lane),
                _ => back.put(&self.ledger, lane),
            }
        }
    }
}

impl Round for RingRound {
    fn step(&self, lane: &mut Lane) -> Checked {
        self.operate(lane)
    }

    fn interrupt(&self, lane: &mut Lane) -> Checked {
        for _ in 0..lane.rng.u32(1..=4) {
            self.operate(lane)?;
        }
        Ok(())
    }

    fn finish(&mut self, _lanes: &mut [Lane]) -> Checked {
        for Both { there, back } in self.workers.iter_mut().map(|both| &mut **both) {
            for ends in [there, back] {
                let (consumer, _) = ends.consumer.get_mut();
                while let Some(value) = consumer.pop() {
                    self.ledger.out(value)?;
                }
            }
        }
        self.ledger.check_final()
    }
}
