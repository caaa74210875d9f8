//! [`Pool`], and operations that close the gate: steal, drain, and a user's own.

use std::sync::Mutex;

use atomseq::percpu::{Area, Batch, Pool, Source, Stack};
use verify_support::cpus::Cpus;

use super::{by_cpu, found, on_both};
use crate::scenario::{Check, Fresh, Operation, Scenario, Words};

#[derive(Debug)]
struct Stock(Mutex<Words>);

impl Stock {
    fn objects(&self) -> std::sync::MutexGuard<'_, Words> {
        self.0.lock().expect("nothing panics with the stock")
    }
}

impl Source<u64> for Stock {
    fn refill(&self, batch: &mut Batch<u64>) {
        let mut objects = self.objects();
        let left = objects.len().saturating_sub(3);
        for object in objects.drain(left..) {
            batch.push(object).expect("three fit into a batch");
        }
    }

    fn spill(&self, batch: &mut Batch<u64>) {
        self.objects().extend(batch);
    }
}

type Objects = Pool<u64, Stock>;

#[inline(never)]
fn get(pool: &Objects) -> Words {
    found(pool.get())
}

#[inline(never)]
fn put(pool: &Objects, object: u64) -> Words {
    pool.put(object);
    vec![]
}

#[inline(never)]
fn lease(pool: &Objects) -> Words {
    drop(pool.lease());
    vec![]
}

/// Makes a pool with room for two objects a CPU, `FILLED` of them cached, and `STOCK` in the
/// source.
fn with<const FILLED: u64, const STOCK: u64>() -> Objects {
    let pool = Pool::with_capacity_per_cpu(2, Stock(Mutex::new((500..500 + STOCK).collect())));
    on_both(|cpu| {
        (1..=FILLED).for_each(|object| {
            put(&pool, cpu + object);
        })
    });
    pool
}

fn content(pool: &Objects) -> Words {
    let mut words = by_cpu(|cpu| pool.steal_from(cpu));
    words.push(u64::MAX);
    // Separates the CPUs' objects from the source's.
    words.extend(pool.drain());
    words.push(u64::MAX);
    words.extend(pool.source().objects().iter());
    words
}

const INTERFERENCES: &[(&str, Operation<Objects>)] = &[
    ("get", get),
    ("put", |pool| put(pool, 200)),
    ("steal", |pool| found(pool.steal_from(Cpus::allowed().home))),
    ("drain", |pool| pool.drain().collect()),
];

pub fn check(checker: &mut impl Check) {
    let states: [(&str, Fresh<Objects>); 4] = [
        ("no object anywhere", with::<0, 0>),
        ("an empty cache", with::<0, 4>),
        ("one object", with::<1, 4>),
        ("a full cache", with::<2, 4>),
    ];
    let operations: [(&str, Operation<Objects>); 3] = [
        ("get", get),
        ("put", |pool| put(pool, 100)),
        ("lease", lease),
    ];
    for (state, fresh) in states {
        for (operation_name, operation) in operations {
            let from_cache = match operation_name {
                "get" => !state.starts_with("no ") && !state.contains("empty"),
                "put" => !state.contains("full"),
                _ => false,
            };
            checker.check(&Scenario {
                name: format!("Pool::{operation_name}, {state}"),
                fresh,
                operation,
                interferences: INTERFERENCES,
                // Handlers must not acquire the stock's lock.
                signal_safe: from_cache,
                whole: from_cache,
                content,
                total: content,
            });
        }
    }
}

fn with_two() -> Stack<u64> {
    let stack = Stack::with_capacity_per_cpu(3);
    on_both(|cpu| {
        for value in [1, 2] {
            stack.push(cpu + value).expect("there is room for three");
        }
    });
    stack
}

fn steal(stack: &Stack<u64>) -> Words {
    found(stack.steal_from(Cpus::allowed().home))
}

fn drain(stack: &Stack<u64>) -> Words {
    stack.drain().collect()
}

fn content_of_stack(stack: &Stack<u64>) -> Words {
    by_cpu(|cpu| stack.steal_from(cpu))
}

const STACK_INTERFERENCES: &[(&str, Operation<Stack<u64>>)] = &[
    ("push", |stack| stack.push(200).err().into_iter().collect()),
    ("steal", steal),
];

/// Adds to a word while the gate is held.
fn add(area: &Area) -> Words {
    let held = area.close_gate(Cpus::allowed().home);
    let word = (held.address() + Area::FIRST_WORD) as *mut u64;
    // SAFETY: a word of the slot whose gate is held.
    unsafe { word.write(word.read() + 1) };
    vec![]
}

pub fn check_remote(checker: &mut impl Check) {
    let base = Scenario {
        name: "Stack::steal_from".to_string(),
        fresh: with_two,
        operation: steal,
        interferences: STACK_INTERFERENCES,
        signal_safe: true,
        whole: true,
        content: content_of_stack,
        total: content_of_stack,
    };
    checker.check(&base);
    checker.check(&Scenario {
        name: "Stack::drain".to_string(),
        operation: drain,
        // Between two CPUs, no gate is held.
        whole: false,
        ..base
    });
    let peek: Operation<Area> =
        |area| vec![area.peek(Cpus::allowed().home, Area::FIRST_WORD) as u64];
    checker.check(&Scenario {
        name: "Area::close_gate".to_string(),
        fresh: || Area::try_new(0).expect("there is memory for one area"),
        operation: add,
        interferences: &[("the same", add)],
        signal_safe: true,
        whole: true,
        content: peek,
        total: peek,
    });
}
