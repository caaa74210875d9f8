//! Trials of one structure each, which a thread and its handler change at random in all ways, and
//! the law that its content must keep.

use std::fmt::Debug;
use std::sync::atomic::{AtomicBool, Ordering};

use atomseq::local::{Counter, Map, Queue, Ring, Stack, per_thread};
use verify_support::fire::{Fired, under_fire};

use crate::ledger::{Side, Totals};

/// A trial: returns its counts, or how the law was broken.
pub type Trial = fn(usize) -> Result<Fired, String>;

/// The trials of all structures.
pub const ALL: [(&str, Trial); 6] = [
    ("counter", counter),
    ("stack", stack),
    ("queue", queue),
    ("ring", ring),
    ("batches", batches),
    ("map", map),
];

static THREAD: Side = Side::new(2);
static HANDLER: Side = Side::new(3);

/// Whether an impossible observation was made.
static WRONG: AtomicBool = AtomicBool::new(false);

fn note(is_right: bool) {
    if !is_right {
        WRONG.store(true, Ordering::Relaxed);
    }
}

/// Checks that all elements put in were taken out or are left.
fn balance(fired: Fired, left: impl Iterator<Item = usize>) -> Result<Fired, String> {
    let remaining = crate::ledger::Ledger::new();
    left.for_each(|number| remaining.enter(number as u64));
    let put = THREAD.put.totals() + HANDLER.put.totals();
    let out = THREAD.taken.totals() + HANDLER.taken.totals() + remaining.totals();
    equal("what was put in and what came out", put, out)?;
    match WRONG.load(Ordering::Relaxed) {
        false => Ok(fired),
        true => Err("something came out twice, torn or out of order".into()),
    }
}

fn equal<T: PartialEq + Debug>(what: &str, a: T, b: T) -> Result<(), String> {
    match a == b {
        true => Ok(()),
        false => Err(format!("{what}: {a:?} and {b:?}")),
    }
}

/// Every addition is in exactly one sum.
pub fn counter(times: usize) -> Result<Fired, String> {
    per_thread! {
        static COUNTER: Counter = Counter::new();
    }
    fn change(side: &Side) {
        COUNTER.with(|counter| {
            if side.random(2) == 0 {
                side.taken.enter(counter.take());
            } else {
                let amount = side.random(100) as u64;
                counter.add(amount);
                side.put.enter(amount);
            }
        });
    }
    let fired = under_fire(times, || change(&HANDLER), || change(&THREAD));
    THREAD.taken.enter(COUNTER.with(|counter| counter.take()));
    let sum = |totals: Totals| totals.sum();
    let put = sum(THREAD.put.totals() + HANDLER.put.totals());
    let taken = sum(THREAD.taken.totals() + HANDLER.taken.totals());
    equal("what was added and what was drained", put, taken)?;
    Ok(fired)
}

/// Every element comes out once.
pub fn stack(times: usize) -> Result<Fired, String> {
    per_thread! {
        static STACK: Stack<usize, 16> = Stack::new();
    }
    fn change(side: &Side) {
        STACK.with(|stack| {
            if side.random(2) == 0 {
                let number = side.next();
                if stack.push(number).is_ok() {
                    side.put.enter(number as u64);
                }
            } else if let Some(number) = stack.pop() {
                side.taken.enter(number as u64);
            }
            note(stack.len() <= 16);
        });
    }
    let fired = under_fire(times, || change(&HANDLER), || change(&THREAD));
    STACK.with(|stack| balance(fired, stack.drain()))
}

/// Every element comes out once, and in the order in which its side put it in.
pub fn queue(times: usize) -> Result<Fired, String> {
    per_thread! {
        static QUEUE: Queue<usize, 8> = Queue::new();
    }
    fn change(side: &Side) {
        QUEUE.with(|queue| {
            if side.random(2) == 0 {
                let number = side.next();
                if queue.push(number).is_ok() {
                    side.put.enter(number as u64);
                }
            } else if let Some(number) = queue.pop() {
                note(side.take(number));
            }
            note(queue.len() <= 8);
        });
    }
    let fired = under_fire(times, || change(&HANDLER), || change(&THREAD));
    QUEUE.with(|queue| balance(fired, queue.drain()))
}

/// The same, and no element is torn.
pub fn ring(times: usize) -> Result<Fired, String> {
    per_thread! {
        static RING: Ring<[usize; 7], 4> = Ring::new();
    }
    fn change(side: &Side) {
        RING.with(|ring| {
            if side.random(2) == 0 {
                let number = side.next();
                if ring.push([number; 7]).is_ok() {
                    side.put.enter(number as u64);
                }
            } else if let Some(element) = ring.pop() {
                note(element == [element[0]; 7]);
                note(side.take(element[0]));
            }
            note(ring.len() <= 4);
        });
    }
    let fired = under_fire(times, || change(&HANDLER), || change(&THREAD));
    RING.with(|ring| balance(fired, ring.drain().map(|element| element[0])))
}

/// The same with batches, and single words among them.
pub fn batches(times: usize) -> Result<Fired, String> {
    per_thread! {
        static RING: Ring<usize, 8> = Ring::new();
    }
    fn change(side: &Side) {
        RING.with(|ring| match side.random(4) {
            0 => {
                let numbers: [usize; 5] = std::array::from_fn(|_| side.next());
                let pushed = ring.push_batch(&numbers);
                numbers[..pushed]
                    .iter()
                    .for_each(|number| side.put.enter(*number as u64));
            }
            1 => {
                let number = side.next();
                if ring.push(number).is_ok() {
                    side.put.enter(number as u64);
                }
            }
            2 => {
                let mut numbers = [0; 3];
                let popped = ring.pop_batch(&mut numbers);
                numbers[..popped]
                    .iter()
                    .for_each(|number| note(side.take(*number)));
            }
            _ => {
                if let Some(number) = ring.pop() {
                    note(side.take(number));
                }
            }
        });
    }
    let fired = under_fire(times, || change(&HANDLER), || change(&THREAD));
    RING.with(|ring| balance(fired, ring.drain()))
}

/// Every amount added to a key is taken out of it once.
pub fn map(times: usize) -> Result<Fired, String> {
    per_thread! {
        static MAP: Map<usize, u64, 16> = Map::new();
    }
    fn change(side: &Side) {
        MAP.with(|map| {
            let key = side.random(24);
            match side.random(8) {
                0 | 1 => {
                    if let Some(amount) = map.remove(key) {
                        side.taken.enter(amount);
                    }
                }
                2 => {
                    if side.random(16) == 0 {
                        map.drain().for_each(|(_, amount)| side.taken.enter(amount));
                    }
                }
                3 => {
                    let amount = side.random(100) as u64;
                    if let Ok(before) = map.insert(key, amount) {
                        side.put.enter(amount);
                        side.taken.enter(before.unwrap_or(0));
                    }
                }
                4 => note(map.get(key).is_none_or(|amount| amount < 1 << 40)),
                _ => {
                    let amount = side.random(100) as u64;
                    if map.add(key, amount).is_ok() {
                        side.put.enter(amount);
                    }
                }
            }
        });
    }
    let fired = under_fire(times, || change(&HANDLER), || change(&THREAD));
    MAP.with(|map| {
        let mut keys: Vec<usize> = map.iter().map(|(key, _)| key).collect();
        equal("the keys counted and the keys there", map.len(), keys.len())?;
        keys.sort_unstable();
        keys.dedup();
        equal(
            "the keys there and those not there twice",
            map.len(),
            keys.len(),
        )?;
        map.drain()
            .for_each(|(_, amount)| THREAD.taken.enter(amount));
        let put = (THREAD.put.totals() + HANDLER.put.totals()).sum();
        let taken = (THREAD.taken.totals() + HANDLER.taken.totals()).sum();
        equal("what was added to keys and what came out", put, taken)
    })?;
    match WRONG.load(Ordering::Relaxed) {
        false => Ok(fired),
        true => Err("a value was read that was never there".into()),
    }
}
