//! The structures of `atomseq::local`: one thread's own, and its signal handlers'.

use atomseq::local::{Counter, Map, Queue, Ring, Stack};

use crate::torture::harness::lane::{Doing, Lane};
use crate::torture::harness::law::{Broken, Checked};
use crate::torture::harness::ledger::Ledger;
use crate::torture::targets::counter::equal;

/// How many keys are used, fewer than there is room for.
const KEYS: u64 = 40;

// Where lanes keep their sums; those of the sequences lie below.
const COUNTED: usize = 10;
const DRAINED: usize = 11;
const MAPPED: usize = 12;
const REMOVED: usize = 13;

/// One of each, small enough to be full at times.
#[derive(Default)]
struct Structures {
    counter: Counter,
    stack: Stack<u64, 24>,
    queue: Queue<u64, 32>,
    /// Elements of three words, which fit together only if they were copied at one time.
    ring: Ring<[u64; 3], 16>,
    map: Map<u64, u64, 64>,
}

/// The structures of a worker.
#[derive(Default)]
pub struct Own(Structures);

// SAFETY: the structures are one thread's. That is the worker that [`Own::operate`] is called by,
// with its handlers, from its round's beginning to its end; before and after that the director has
// the round to itself.
unsafe impl Send for Own {}
// SAFETY: as above.
unsafe impl Sync for Own {}

fn whole(value: u64) -> [u64; 3] {
    [value, value.rotate_left(17), !value]
}

impl Own {
    /// One operation of the lane's choice.
    ///
    /// # Safety
    ///
    /// The caller is the one worker that these structures belong to, or a handler of its signals.
    pub unsafe fn operate(&self, ledger: &Ledger, lane: &mut Lane) -> Checked {
        let Own(own) = self;
        let kind = lane.rng.u32(..5);
        if kind < 3 && lane.rng.bool() {
            if let Some(value) = ledger.issue(lane) {
                lane.begin(Doing::Push);
                let pushed = match kind {
                    0 => own.stack.push(value),
                    1 => own.queue.push(value),
                    _ => own.ring.push(whole(value)).map_err(|element| element[0]),
                };
                return pushed.or_else(|back| ledger.out(back).map(drop));
            }
        }
        let amount = lane.rng.u64(1..1000);
        match kind {
            0 => out(ledger, lane, || own.stack.pop()),
            1 => out(ledger, lane, || own.queue.pop()),
            2 => out(ledger, lane, || own.ring.pop().map(checked)),
            3 if lane.one_in(16) => {
                lane.begin(Doing::Drain);
                lane.totals[DRAINED] += own.counter.take();
                Ok(())
            }
            3 => {
                lane.begin(Doing::Add);
                own.counter.add(amount);
                lane.totals[COUNTED] += amount;
                Ok(())
            }
            _ => own.count(lane, amount),
        }
    }

    /// At the end, everything comes out.
    pub fn settle(&self, ledger: &Ledger, lanes: &[Lane]) -> Checked {
        let Own(own) = self;
        let mut left = own.stack.drain().chain(own.queue.drain());
        left.try_for_each(|value| ledger.out(value).map(drop))?;
        drop(left);
        let mut left = own.ring.drain().map(checked);
        left.try_for_each(|value| ledger.out(value).map(drop))?;
        drop(left);
        let total = |index: usize| lanes.iter().map(|lane| lane.totals[index]).sum::<u64>();
        let left = own.counter.take();
        equal(
            "a counter did not keep what was added",
            total(DRAINED) + left,
            total(COUNTED),
        )?;
        let left: u64 = own.map.drain().map(|(_, amount)| amount).sum();
        equal(
            "a map did not keep what was added",
            total(REMOVED) + left,
            total(MAPPED),
        )
    }
}

/// The first word of an element that is whole; a value that nobody issued if it is torn.
fn checked(element: [u64; 3]) -> u64 {
    match element == whole(element[0]) {
        true => element[0],
        false => u64::MAX,
    }
}

fn out(ledger: &Ledger, lane: &mut Lane, pop: impl FnOnce() -> Option<u64>) -> Checked {
    lane.begin(Doing::Pop);
    pop().map_or(Ok(()), |value| ledger.out(value).map(drop))
}

impl Structures {
    /// Adds to a key of the map, or takes it out.
    fn count(&self, lane: &mut Lane, amount: u64) -> Checked {
        let key = match lane.rng.u64(..KEYS) {
            0 => u64::MAX,
            key => key - 1,
        };
        if lane.rng.bool() {
            lane.begin(Doing::Get);
            lane.totals[REMOVED] += self.map.remove(key).unwrap_or(0);
            return Ok(());
        }
        lane.begin(Doing::Put);
        lane.totals[MAPPED] += amount;
        let full = |_| Broken::new("a map with room for all keys was full").with("key", key);
        self.map.add(key, amount).map_err(full)
    }
}
