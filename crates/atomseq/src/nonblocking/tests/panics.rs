//! Callers' code may panic in every call: comparisons, closures, clones, destructors. Each
//! operation of each structure is repeated with a panic in the first such call, in the second, and
//! so on, until there are no more. Afterwards no value is lost or duplicated, no node is lost, and
//! no node is marked without a holder.

use std::collections::BTreeSet;
use std::hash::{Hash, Hasher};
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};

use super::*;
use crate::dcas::VersionedWords;
use crate::tests::panics::{THERE, Value, call, each_call, panics, there};
use crate::type_stable::Cache;

const LIMIT: usize = 9;

/// What the tests do with every structure of values.
trait Structure: Sized {
    fn made(mechanism: Mechanism) -> Self;
    fn put(&mut self, value: Value) -> bool;
    fn numbers(&mut self) -> Vec<u64>;
}

/// An operation on a structure that holds the values 1 to 4. It may take the structure.
type Operation<S> = (&'static str, fn(&mut Option<S>));

fn each_operation<S: Structure>(operations: &[Operation<S>]) {
    for mechanism in MECHANISMS {
        for (name, operation) in operations {
            let planned = each_call(name, |after| {
                let mut structure = S::made(mechanism);
                (1..=4).for_each(|number| assert!(structure.put(Value::new(number))));
                let mut structure = Some(structure);
                let panicked = panics(after, || operation(&mut structure));
                if let Some(structure) = &mut structure {
                    let numbers: BTreeSet<_> = structure.numbers().into_iter().collect();
                    assert_eq!(Vec::from_iter(numbers), there(), "{name}, {after}");
                    let fresh = (100..).take_while(|&number| structure.put(Value::new(number)));
                    assert!(fresh.count() <= LIMIT);
                    let count = structure.numbers().len();
                    assert_eq!(count, LIMIT, "{name}, {after}: a node was lost");
                }
                drop(structure);
                assert_eq!(there(), [], "{name}, {after}: a value was lost");
                panicked
            });
            println!("{mechanism:?}: {name}: {planned} panics");
            assert!(planned > 0, "{name} calls nothing");
        }
    }
}

fn of<S>(structure: &Option<S>) -> &S {
    structure.as_ref().expect("not taken yet")
}

impl Structure for LinkedStack<Value> {
    fn made(mechanism: Mechanism) -> Self {
        LinkedStack::made(VersionedWords::with_mechanism(mechanism), Some(LIMIT)).unwrap()
    }

    fn put(&mut self, value: Value) -> bool {
        self.push(value).is_ok()
    }

    fn numbers(&mut self) -> Vec<u64> {
        // Takes all values out, from the head to the tail, and puts them back.
        let values: Vec<_> = self.drain().collect();
        let numbers = values.iter().map(|value| value.0).collect();
        values
            .into_iter()
            .for_each(|value| self.push_back(value).unwrap());
        numbers
    }
}

#[test]
fn linked_stacks_lose_nothing() {
    each_operation::<LinkedStack<Value>>(&[
        ("push and pop", |stack| {
            of(stack).push(Value::new(5)).unwrap();
            drop(of(stack).pop());
        }),
        ("drain", |stack| of(stack).drain().for_each(drop)),
        ("drop", |stack| drop(stack.take())),
        ("into_iter", |stack| {
            let mut values = stack.take().unwrap().into_iter();
            drop(values.next());
        }),
        ("extend", |stack| {
            let values = (5..8).map(|number| {
                call();
                Value::new(number)
            });
            stack.as_mut().unwrap().extend(values);
        }),
        ("from_iter", |stack| {
            let values = (5..8).map(|number| {
                call();
                Value::new(number)
            });
            drop(LinkedStack::from_iter(values));
            drop(stack.take());
        }),
    ]);
}

macro_rules! in_arrays {
    ($($name:ident, $test:ident, $made:expr;)*) => {$(
        impl Structure for $name<Box<Value>> {
            fn made(mechanism: Mechanism) -> Self {
                let made: fn(usize, Mechanism) -> Self = $made;
                made(LIMIT, mechanism)
            }

            fn put(&mut self, value: Value) -> bool {
                self.push(Box::new(value)).is_ok()
            }

            fn numbers(&mut self) -> Vec<u64> {
                let values: Vec<_> = self.drain().collect();
                let numbers = values.iter().map(|value| value.0).collect();
                values.into_iter().for_each(|value| self.push(value).unwrap());
                numbers
            }
        }

        #[test]
        fn $test() {
            each_operation::<$name<Box<Value>>>(&[
                ("pop", |values| drop(of(values).pop())),
                ("drain", |values| of(values).drain().for_each(drop)),
                ("drop", |values| drop(values.take())),
            ]);
        }
    )*};
}

in_arrays! {
    Stack, stacks_lose_nothing, Stack::forced;
    Queue, queues_lose_nothing, |capacity, mechanism| match mechanism {
        Mechanism::Assisted => Queue::with_capacity(capacity),
        Mechanism::Kcas => Queue::by_kcas(capacity),
    };
}

impl Structure for RefList<Value> {
    fn made(mechanism: Mechanism) -> Self {
        RefList::made(VersionedWords::with_mechanism(mechanism), Some(LIMIT)).unwrap()
    }

    fn put(&mut self, value: Value) -> bool {
        self.push_front(value).is_ok()
    }

    fn numbers(&mut self) -> Vec<u64> {
        self.iter().map(|value| value.0).collect()
    }
}

#[test]
fn lists_with_guards_lose_nothing() {
    each_operation::<RefList<Value>>(&[
        ("find and remove", |list| {
            let found = of(list).find(|value| {
                call();
                value.0 == 2
            });
            let found = found.unwrap();
            of(list).remove(&found);
            drop(found.clone());
            drop(found);
        }),
        ("for_each", |list| of(list).for_each(|_| call())),
        ("for_each that removes", |list| {
            of(list).for_each(|_| {
                drop(of(list).pop_front());
                call();
            });
        }),
        ("iter that removes", |list| {
            for value in of(list) {
                call();
                of(list).remove(&value);
            }
        }),
        ("iter, continued", |list| {
            let mut values = of(list).iter();
            let mut seen = BTreeSet::new();
            let mut go_on = || {
                for value in values.by_ref() {
                    assert!(seen.insert(value.0), "{} came twice", value.0);
                    of(list).remove(&value);
                }
            };
            // Continues with the same iterator after a panic.
            let unwound = catch_unwind(AssertUnwindSafe(&mut go_on));
            go_on();
            unwound.unwrap_or_else(|panic| resume_unwind(panic));
        }),
        ("next and into_next", |list| {
            let first = of(list).front().unwrap();
            let second = first.next().unwrap();
            of(list).remove(&first);
            of(list).remove(&second);
            drop(first.into_next().unwrap());
            drop(second.into_next());
        }),
        ("into_inner", |list| {
            let first = of(list).pop_front().unwrap();
            let first = first.clone().into_inner().unwrap_err();
            drop(first);
        }),
        ("drop", |list| drop(list.take())),
        ("into_iter", |list| {
            let mut values = list.take().unwrap().into_iter();
            drop(values.next());
        }),
        ("extend", |list| {
            let values = (5..8).map(|number| {
                call();
                Value::new(number)
            });
            list.as_mut().unwrap().extend(values);
        }),
    ]);
}

impl Structure for OneVisitorList<Value> {
    fn made(mechanism: Mechanism) -> Self {
        OneVisitorList::made(VersionedWords::with_mechanism(mechanism), Some(LIMIT)).unwrap()
    }

    fn put(&mut self, value: Value) -> bool {
        self.push_front(value).is_ok()
    }

    fn numbers(&mut self) -> Vec<u64> {
        let mut numbers = Vec::new();
        self.for_each(|value| numbers.push(value.0));
        assert_eq!(numbers.len(), self.len(), "one is still visited");
        numbers
    }
}

#[test]
fn lists_of_one_visitor_lose_nothing() {
    each_operation::<OneVisitorList<Value>>(&[
        ("retain", |list| {
            of(list).retain(|value| {
                call();
                value.0 % 2 == 0
            });
        }),
        ("visits within visits", |list| {
            of(list).for_each(|_| of(list).for_each(|_| call()));
        }),
        ("remove", |list| {
            let visit = of(list).visit_first().unwrap();
            visit.insert_behind(Value::new(5)).unwrap();
            let next = visit.next();
            drop(visit.remove());
            drop(next.unwrap().into_next());
        }),
        ("pop_front", |list| drop(of(list).pop_front())),
        ("drop", |list| drop(list.take())),
        ("into_iter", |list| {
            let mut values = list.take().unwrap().into_iter();
            drop(values.next());
        }),
    ]);
}

impl Structure for spsc::Ring<Value> {
    fn made(_mechanism: Mechanism) -> Self {
        spsc::Ring::with_capacity(LIMIT)
    }

    fn put(&mut self, value: Value) -> bool {
        self.split().0.push(value).is_ok()
    }

    fn numbers(&mut self) -> Vec<u64> {
        let (mut producer, mut consumer) = self.split();
        let values: Vec<_> = consumer.drain().collect();
        let numbers = values.iter().map(|value| value.0).collect();
        values
            .into_iter()
            .for_each(|value| producer.push(value).unwrap());
        numbers
    }
}

#[test]
fn rings_of_two_ends_lose_nothing() {
    each_operation::<spsc::Ring<Value>>(&[
        ("pop", |ring| drop(ring.as_mut().unwrap().split().1.pop())),
        ("drain", |ring| {
            ring.as_mut().unwrap().split().1.drain().for_each(drop);
        }),
        ("drop", |ring| drop(ring.take())),
        ("drop by the last end", |ring| {
            drop(ring.take().unwrap().into_ends())
        }),
        ("into_iter", |ring| {
            let mut values = ring.take().unwrap().into_iter();
            drop(values.next());
        }),
    ]);
}

plain! {
    /// A key whose comparisons and hash are calls that may panic.
    #[derive(Debug)]
    pub struct Key {
        number: u64,
    }
}

impl PartialEq for Key {
    fn eq(&self, other: &Key) -> bool {
        call();
        self.number == other.number
    }
}

impl Eq for Key {}

impl PartialOrd for Key {
    fn partial_cmp(&self, other: &Key) -> Option<std::cmp::Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for Key {
    fn cmp(&self, other: &Key) -> std::cmp::Ordering {
        call();
        self.number.cmp(&other.number)
    }
}

impl Hash for Key {
    fn hash<H: Hasher>(&self, hasher: &mut H) {
        call();
        hasher.write_u64(self.number);
    }
}

pub fn key(number: u64) -> Key {
    Key { number }
}

/// A sum whose clones are calls that may panic.
struct Sum(u64);

impl Clone for Sum {
    fn clone(&self) -> Sum {
        call();
        Sum(self.0)
    }
}

impl Structure for PriorityQueue<Key, Value> {
    fn made(mechanism: Mechanism) -> Self {
        PriorityQueue::made(VersionedWords::with_mechanism(mechanism), Some(LIMIT)).unwrap()
    }

    fn put(&mut self, value: Value) -> bool {
        self.insert(key(value.0), value).is_ok()
    }

    fn numbers(&mut self) -> Vec<u64> {
        // Takes all values out, and puts them back.
        let values: Vec<_> = self.drain().collect();
        let numbers = values.iter().map(|(_, value)| value.0).collect();
        for (key, value) in values {
            self.insert(key, value).unwrap();
        }
        numbers
    }
}

#[test]
fn priority_queues_lose_nothing() {
    each_operation::<PriorityQueue<Key, Value>>(&[
        ("insert", |queue| {
            of(queue).insert(key(3), Value::new(5)).unwrap();
        }),
        ("insert and remove", |queue| {
            let handle = of(queue).insert(key(3), Value::new(5)).unwrap();
            drop(of(queue).remove(handle));
        }),
        ("insert and change_priority", |queue| {
            let handle = of(queue).insert(key(1), Value::new(5)).unwrap();
            of(queue).change_priority(handle, key(4)).unwrap();
        }),
        ("pop_due", |queue| drop(of(queue).pop_due(key(2)))),
        ("drain", |queue| of(queue).drain().for_each(drop)),
        ("drop", |queue| drop(queue.take())),
    ]);
}

type Entries = Vec<(u64, u64)>;

fn entries<A: Arrangement<Key>>(list: &List<Key, u64, A>) -> Entries {
    let entries = list.snapshot().into_iter();
    entries.map(|(key, value)| (key.number, value)).collect()
}

/// Inserts a key into a list, with ten times the key as its value.
type Put<A> = fn(&List<Key, u64, A>, u64) -> Result<(), Refused>;

/// An operation on a list of the keys 1 to 4, with ten times the key as their values.
type Change<A> = (&'static str, fn(&List<Key, u64, A>));

/// Checks that an operation that panics has changed nothing.
fn each_change<A: Arrangement<Key>>(put: Put<A>, changes: &[Change<A>]) {
    for mechanism in MECHANISMS {
        for (name, change) in changes {
            let planned = each_call(name, |after| {
                let list =
                    List::made(VersionedWords::with_mechanism(mechanism), Some(LIMIT)).unwrap();
                (1..=4).for_each(|number| put(&list, number).unwrap());
                let before = entries(&list);
                let panicked = panics(after, || change(&list));
                if panicked {
                    assert_eq!(entries(&list), before, "{name}, {after}");
                }
                let fresh = (100..).take_while(|&number| put(&list, number).is_ok());
                assert!(fresh.count() <= LIMIT);
                assert_eq!(
                    remove_each(&list),
                    LIMIT,
                    "{name}, {after}: a node was lost, or is marked"
                );
                panicked
            });
            println!("{mechanism:?}: {name}: {planned} panics");
            assert!(planned > 0, "{name} calls nothing");
        }
    }
}

/// Returns the number of entries, after finding and removing each.
fn remove_each<A: Arrangement<Key>>(list: &List<Key, u64, A>) -> usize {
    let numbers = entries(list).into_iter();
    numbers
        .map(|(number, value)| {
            assert_eq!(list.get(&key(number)), Ok(Some(value)));
            assert_eq!(list.remove(&key(number)), Ok(Some(value)));
        })
        .count()
}

#[test]
fn ordered_lists_are_unchanged_by_panics() {
    each_change::<Ascending>(
        |list, number| list.try_insert(key(number), number * 10),
        &[
            ("insert", |list| list.try_insert(key(7), 70).unwrap()),
            ("put", |list| {
                list.insert(key(3), 31).unwrap();
            }),
            ("find", |list| {
                list.get(&key(3)).unwrap();
            }),
            ("delete", |list| {
                list.remove(&key(3)).unwrap();
            }),
            ("update", |list| {
                let change = |value| {
                    call();
                    value + 1
                };
                list.update(&key(3), change).unwrap();
            }),
            ("insert_with", |list| {
                let make = |value: Option<u64>| {
                    call();
                    value.unwrap_or(0) + 1
                };
                list.insert_with(key(7), make).unwrap();
            }),
            ("fold", |list| {
                let add = |sum: Sum, _, value| {
                    call();
                    Sum(sum.0 + value)
                };
                assert_eq!(list.fold(Sum(0), add).0, 100);
            }),
            ("iter", |list| {
                assert_eq!(list.iter().map(|(_, value)| value).sum::<u64>(), 100);
                // Each entry is searched.
                for (key, _) in list {
                    list.check_out(&key).unwrap();
                }
            }),
            ("check_out", |list| {
                let removed = list.check_out(&key(3)).unwrap().unwrap();
                removed.check_in(31).unwrap();
            }),
            ("set_key", |list| {
                let mut removed = list.check_out(&key(3)).unwrap().unwrap();
                removed.set_key(key(7)).unwrap();
            }),
            ("set_key to one that is there", |list| {
                let mut removed = list.check_out(&key(3)).unwrap().unwrap();
                assert_eq!(removed.set_key(key(4)), Err(Refused::Present));
            }),
            ("forget_checkout", |list| {
                assert!(!list.forget_checkout(&key(3)));
            }),
        ],
    );
}

#[test]
fn unordered_lists_are_unchanged_by_panics() {
    each_change::<Unordered>(
        |list, number| list.push_front(key(number), number * 10),
        &[
            ("find", |list| {
                list.get(&key(3)).unwrap();
            }),
            ("put", |list| {
                list.insert(key(9), 90).unwrap();
            }),
            ("set_key", |list| {
                let mut removed = list.check_out(&key(3)).unwrap().unwrap();
                removed.set_key(key(4)).unwrap();
            }),
        ],
    );
}

/// What is loaded is written back once, even after a panic.
#[test]
fn caches_write_everything_back() {
    type Operate = fn(&Cache<crate::sync::AtomicU64, &(dyn Fn(&crate::sync::AtomicU64) + Sync)>);
    let operations: [(&str, Operate); 3] = [
        ("drop", |_| {}),
        ("load", |cache| drop(cache.load())),
        ("write_back", |cache| {
            cache.write_back();
        }),
    ];
    for (name, operate) in operations {
        let planned = each_call(name, |after| {
            let written = std::sync::Mutex::new(Vec::new());
            let write_back = |victim: &crate::sync::AtomicU64| {
                let number = victim.load(std::sync::atomic::Ordering::Relaxed);
                written.lock().unwrap().push(number);
                call();
            };
            let write_back: &(dyn Fn(&crate::sync::AtomicU64) + Sync) = &write_back;
            let panicked = panics(after, || {
                let cache = Cache::try_new(4, write_back).unwrap();
                for number in 1..=4 {
                    let loaded = cache.load().unwrap();
                    loaded.store(number, std::sync::atomic::Ordering::Relaxed);
                }
                operate(&cache);
            });
            let mut written = written.into_inner().unwrap();
            // The value loaded last has the contents of the one whose slot it took.
            written.sort_unstable();
            written.dedup();
            assert_eq!(written, [1, 2, 3, 4], "{name}, {after}");
            panicked
        });
        assert!(planned > 0, "{name} calls nothing");
    }
}

/// Negative control: without continuing after a panic, the remaining values are lost.
#[test]
fn lost_values_are_detected() {
    let found_out = catch_unwind(|| {
        each_call("drain", |after| {
            let mut values = vec![Value::new(1), Value::new(2), Value::new(3)];
            let panicked = panics(after, || {
                while let Some(value) = values.pop() {
                    drop(value);
                }
            });
            std::mem::forget(values);
            assert_eq!(there(), [], "a value was lost");
            panicked
        });
    });
    assert!(found_out.is_err());
    THERE.with_borrow_mut(BTreeSet::clear);
}
