//! User code may panic wherever it is called: in destructors, conversions and a pool's source. Then
//! no value is lost, except for what that code itself loses.

use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};

use super::*;
use crate::tests::panics::{Value, call, each_call, panics, there};

/// A box whose conversion may panic while it owns the value.
struct Converted {
    _value: Box<Value>,
}

// SAFETY: the word is that of the box.
unsafe impl AsWord for Converted {
    fn into_word(self) -> usize {
        self._value.into_word()
    }

    unsafe fn from_word(word: usize) -> Converted {
        // SAFETY: the caller guarantees that `into_word` of the box returned this word, and that it
        // is converted once.
        let _value = unsafe { Box::from_word(word) };
        call();
        Converted { _value }
    }
}

impl From<Value> for Converted {
    fn from(value: Value) -> Converted {
        Converted {
            _value: Box::new(value),
        }
    }
}

struct InList {
    link: Link,
    _value: Value,
}

// SAFETY: the offset of the field `link`.
unsafe impl Node for InList {
    const LINK: usize = std::mem::offset_of!(InList, link);
}

impl From<Value> for Box<InList> {
    fn from(value: Value) -> Box<InList> {
        Box::new(InList {
            link: Link::new(),
            _value: value,
        })
    }
}

/// More than one batch of a [`Drain`](Drain), and of a pool.
const COUNT: u64 = 70;

/// A name, and an operation that may remove elements.
type Operation<S> = (&'static str, fn(&mut S));

/// Checks that an operation that panics, and then dropping the structure, loses no value.
fn each_operation<S>(
    fresh: impl Fn() -> S,
    put: impl Fn(&mut S, Value),
    operations: &[Operation<S>],
) {
    let nothing: Operation<S> = ("drop", |_| ());
    for (name, operation) in operations.iter().chain([&nothing]) {
        let planned = each_call(name, |after| {
            let mut structure = fresh();
            (0..COUNT).for_each(|number| put(&mut structure, Value::new(number)));
            let panicked = panics(after, || {
                operation(&mut structure);
                // Moved out whole, because the trial drops what an operation that panics leaves.
                drop(std::mem::replace(&mut structure, fresh()));
            });
            drop(structure);
            assert_eq!(there(), [], "{name}, {after}: a value was lost");
            panicked
        });
        println!("{}, {name}: {planned} panics", std::any::type_name::<S>());
        assert!(planned > 0, "{name} calls no user code");
    }
}

macro_rules! drained {
    ($structure:ty) => {
        &[
            ("drain", |structure: &mut $structure| {
                structure.drain().for_each(drop)
            }),
            ("a drain that is dropped", |structure: &mut $structure| {
                structure.drain().take(3).for_each(drop)
            }),
            ("a drain that goes on", |structure: &mut $structure| {
                let mut drain = structure.drain();
                let mut go_on = || drain.by_ref().for_each(drop);
                let unwound = catch_unwind(AssertUnwindSafe(&mut go_on));
                go_on();
                assert!(drain.next().is_none());
                unwound.unwrap_or_else(|panic| resume_unwind(panic));
            }),
        ]
    };
}

#[test]
#[cfg_attr(miri, ignore = "takes long to interpret")]
fn a_panic_loses_no_element_of_a_structure() {
    const ROOM: usize = COUNT as usize;
    each_operation(
        || Stack::<Box<Value>>::with_capacity_per_cpu(ROOM),
        |stack, value| assert!(stack.push(value.into()).is_ok()),
        drained!(Stack<Box<Value>>),
    );
    each_operation(
        || Stack::<Converted>::with_capacity_per_cpu(ROOM),
        |stack, value| assert!(stack.push(value.into()).is_ok()),
        drained!(Stack<Converted>),
    );
    each_operation(
        Queue::<Box<Value>>::new,
        |queue, value| assert!(queue.push(value.into()).is_ok()),
        drained!(Queue<Box<Value>>),
    );
    each_operation(
        Queue::<Converted>::new,
        |queue, value| assert!(queue.push(value.into()).is_ok()),
        drained!(Queue<Converted>),
    );
    each_operation(
        || Ring::<Value>::with_capacity_per_cpu(ROOM),
        |ring, value| assert!(ring.push(value).is_ok()),
        drained!(Ring<Value>),
    );
    each_operation(
        List::<Box<InList>>::new,
        |list, value| list.push(value.into()),
        drained!(List<Box<InList>>),
    );
}

#[test]
fn a_panic_loses_no_element_of_a_batch() {
    each_operation(
        Batch::<Converted>::new,
        |batch, value| drop(batch.push(value.into())),
        &[],
    );
}

/// Drops the objects that it gets back, and may panic before.
struct Dropping;

impl Source<Box<Value>> for Dropping {
    fn refill(&self, _batch: &mut Batch<Box<Value>>) {}

    fn spill(&self, batch: &mut Batch<Box<Value>>) {
        call();
        batch.for_each(drop);
    }
}

#[test]
fn a_panic_loses_no_object_of_a_pool() {
    each_operation(
        || Pool::with_capacity_per_cpu(8, Dropping),
        |pool, value| pool.put(value.into()),
        drained!(Pool<Box<Value>, Dropping>),
    );
}

/// A queue frees its memory even if its elements' destructors panic.
#[cfg(atomseq_sections)]
#[test]
fn a_queue_frees_its_memory_after_a_panic() {
    let is_mapped = |page: usize| {
        let mut resident = 0;
        // SAFETY: only queries one page; `resident` has room for its byte.
        unsafe { libc::mincore(std::ptr::without_provenance_mut(page), 1, &raw mut resident) == 0 }
    };
    // So many pages that other threads of this process are unlikely to map all of them again.
    let queues: Vec<_> = (0..64).map(|_| Queue::<Box<Value>>::new()).collect();
    let mut pages = Vec::new();
    for (index, queue) in queues.iter().enumerate() {
        let numbers = index as u64 * COUNT..;
        let mut pushed = numbers.map(|number| queue.push(Box::new(Value::new(number))));
        let page = pushed.find_map(|pushed| {
            assert!(pushed.is_ok());
            queue.newest_chunk()
        });
        pages.extend(page);
    }
    assert!(pages.iter().all(|page| is_mapped(*page)));
    for queue in queues {
        assert!(panics(0, || drop(queue)));
    }
    assert_eq!(there(), []);
    assert!(
        pages.iter().any(|page| !is_mapped(*page)),
        "no page was unmapped"
    );
}
