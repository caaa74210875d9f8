//! Rounds on rings between a worker and its signal handlers: the one has the producer, the other
//! the consumer, and a handler may come in the middle of its worker's operation on the other end.

use std::cell::UnsafeCell;

use atomseq::nonblocking::spsc::{Consumer, Producer, Ring};
use crossbeam_utils::CachePadded;

use crate::torture::harness::lane::{Doing, LANES_PER_WORKER, Lane};
use crate::torture::harness::law::{Broken, Checked};
use crate::torture::harness::ledger::Ledger;
use crate::torture::harness::{Round, STEPS, Setting};

/// The rings of all workers, and their books.
pub struct Rings {
    workers: Box<[CachePadded<Both>]>,
    ledger: Ledger,
}

/// A worker's.
struct Both {
    /// From the worker to its first handler.
    there: Ends,
    /// From its second handler to the worker.
    back: Ends,
}

struct Ends {
    producer: UnsafeCell<Producer<'static, u64>>,
    /// And the number behind that of the last value.
    consumer: UnsafeCell<(Consumer<'static, u64>, u32)>,
}

// SAFETY: an end is used by one lane, by the promises to `put` and `take`.
unsafe impl Sync for Ends {}

impl Ends {
    fn new(capacity: usize) -> Ends {
        let (producer, consumer) = Ring::with_capacity(capacity).into_ends();
        Ends {
            producer: UnsafeCell::new(producer),
            consumer: UnsafeCell::new((consumer, 0)),
        }
    }

    /// # Safety
    ///
    /// No other lane puts values in.
    unsafe fn put(&self, ledger: &Ledger, lane: &mut Lane) -> Checked {
        let Some(value) = ledger.issue(lane) else {
            return Ok(());
        };
        lane.begin(Doing::Push);
        // SAFETY: the caller's promise.
        let producer = unsafe { &mut *self.producer.get() };
        match producer.push(value) {
            Ok(()) => Ok(()),
            Err(back) => ledger.out_by(lane, back).map(drop),
        }
    }

    /// # Safety
    ///
    /// No other lane takes values out.
    unsafe fn take(&self, ledger: &Ledger, lane: &mut Lane) -> Checked {
        lane.begin(Doing::Pop);
        // SAFETY: the caller's promise.
        let (consumer, after) = unsafe { &mut *self.consumer.get() };
        let Some(value) = consumer.pop() else {
            return Ok(());
        };
        let origin = ledger.out_by(lane, value)?;
        let seen = std::mem::replace(after, origin.number + 1);
        match seen > origin.number {
            true => Err(Broken::new("values left a ring out of order")
                .with("number", origin.number.into())
                .with("after number", (seen - 1).into())),
            false => Ok(()),
        }
    }
}

impl Rings {
    /// So small at times that they are full, for so many lanes.
    pub fn new(capacity: usize, setting: &mut Setting) -> Rings {
        let both = || Both {
            there: Ends::new(capacity),
            back: Ends::new(capacity),
        };
        let workers = setting.lanes / LANES_PER_WORKER;
        Rings {
            workers: (0..workers).map(|_| CachePadded::new(both())).collect(),
            ledger: Ledger::new(setting.salt, setting.lanes, STEPS),
        }
    }

    fn operate(&self, lane: &mut Lane) -> Checked {
        let Both { there, back } = &*self.workers[lane.number / LANES_PER_WORKER];
        // SAFETY: each of these ends is for one lane of the worker, by its number.
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

impl Round for Rings {
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
        self.ledger.settle()
    }
}
