//! The structures of `atomseq::local`, which a thread shares with its handlers, and the records of
//! each actor.

use std::cell::Cell;

use atomseq::local::{Counter, Map, Queue, Ring, Stack};

use super::arena::{ACTORS, THREAD};
use atomseq_stress::engine::mix as mark;

/// How many keys are used: fewer than there is room for, with both keys that have reserved places.
const KEYS: usize = 40;

/// A value in three words, which agree only if they were copied in one operation.
type Whole = [usize; 3];

fn whole(value: usize) -> Whole {
    [value, mark(value as u64) as usize, !value]
}

/// Values pushed or popped: how many, and the sum of their marks.
#[derive(Debug, Default)]
struct Account {
    count: Cell<u64>,
    marks: Cell<u64>,
}

impl Account {
    fn add(&self, value: usize) {
        self.count.set(self.count.get() + 1);
        self.marks
            .set(self.marks.get().wrapping_add(mark(value as u64)));
    }
}

/// Values pushed to and popped from one container.
#[derive(Debug, Default)]
struct Traffic {
    pushed: Account,
    popped: Account,
}

/// What one actor has done; only this actor writes it.
#[derive(Debug, Default)]
struct Record {
    values: Cell<usize>,
    added: Cell<u64>,
    drained: Cell<u64>,
    mapped: Cell<u64>,
    removed: Cell<u64>,
    /// Stack, queue and ring.
    traffic: [Traffic; 3],
}

/// One of each, small enough to be full sometimes.
#[derive(Debug, Default)]
pub struct Structures {
    counter: Counter,
    stack: Stack<usize, 24>,
    queue: Queue<usize, 32>,
    ring: Ring<Whole, 16>,
    map: Map<usize, u64, 64>,
    records: [Record; ACTORS],
}

fn grow(cell: &Cell<u64>, amount: u64) {
    cell.set(cell.get() + amount);
}

impl Structures {
    /// Makes one operation of an actor's choice; false if its result is wrong.
    pub fn operate(&self, actor: usize, choice: u64) -> bool {
        let record = &self.records[actor];
        let [stack, queue, ring] = &record.traffic;
        let value = record.values.get() * ACTORS + actor;
        let key = match (choice >> 8) as usize % KEYS {
            0 => usize::MAX,
            key => key - 1,
        };
        let put = |traffic: &Traffic, is_in: bool| {
            record.values.set(record.values.get() + 1);
            if is_in {
                traffic.pushed.add(value);
            }
        };
        let take = |traffic: &Traffic, taken: Option<usize>| {
            if let Some(value) = taken {
                traffic.popped.add(value);
            }
        };
        match choice % 10 {
            0 => {
                self.counter.add(choice >> 56);
                grow(&record.added, choice >> 56);
            }
            1 => grow(&record.drained, self.counter.take()),
            2 => put(stack, self.stack.push(value).is_ok()),
            3 => take(stack, self.stack.pop()),
            4 => put(queue, self.queue.push(value).is_ok()),
            5 => take(queue, self.queue.pop()),
            6 => put(ring, self.ring.push(whole(value)).is_ok()),
            7 => {
                let Some(element) = self.ring.pop() else {
                    return true;
                };
                take(ring, Some(element[0]));
                return element == whole(element[0]);
            }
            8 => {
                let is_in = self.map.add(key, 1).is_ok();
                grow(&record.mapped, 1);
                return is_in;
            }
            _ => grow(&record.removed, self.map.remove(key).unwrap_or(0)),
        }
        true
    }

    /// Drains all, as the thread; returns how many checks failed.
    pub fn check_final(&self) -> u64 {
        let thread = &self.records[THREAD];
        let [stack, queue, ring] = &thread.traffic;
        self.stack.drain().for_each(|value| stack.popped.add(value));
        self.queue.drain().for_each(|value| queue.popped.add(value));
        self.ring
            .drain()
            .for_each(|element| ring.popped.add(element[0]));
        grow(&thread.drained, self.counter.take());
        grow(
            &thread.removed,
            self.map.drain().map(|(_, amount)| amount).sum(),
        );
        let total = |of: &dyn Fn(&Record) -> u64| {
            let words = self.records.iter().map(of);
            words.fold(0, u64::wrapping_add)
        };
        let differ = |pushed: &dyn Fn(&Record) -> u64, popped: &dyn Fn(&Record) -> u64| {
            u64::from(total(pushed) != total(popped))
        };
        let mut wrong = u64::from(!self.map.is_empty());
        wrong += differ(&|record| record.added.get(), &|record| record.drained.get());
        wrong += differ(&|record| record.mapped.get(), &|record| {
            record.removed.get()
        });
        for kind in 0..thread.traffic.len() {
            let pushed = |record: &Record| record.traffic[kind].pushed.marks.get();
            wrong += differ(&pushed, &|record| record.traffic[kind].popped.marks.get());
            let pushed = |record: &Record| record.traffic[kind].pushed.count.get();
            wrong += differ(&pushed, &|record| record.traffic[kind].popped.count.get());
        }
        wrong
    }
}
