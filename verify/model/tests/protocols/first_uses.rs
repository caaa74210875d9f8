//! Areas that are mapped at their first use: every thread uses the same memory, and a sequence runs
//! only on memory that was prepared.

use std::ptr::{NonNull, null_mut};
use std::sync::Arc;

use crate::lazy::Lazy;
use crate::sync::Size::Small;
use crate::sync::{AtomicPtr, AtomicUsize, Ordering, fails, holds, thread};

/// What the library does, or something wrong in its place.
#[derive(Clone, Copy)]
pub struct Rules {
    pub map_once: fn(&Lazy) -> NonNull<u8>,
    pub publish: fn(&Lazy),
    pub is_published: fn(&Lazy) -> bool,
    /// Whether sequences are let run before memory is mapped.
    pub is_late: bool,
}

impl Rules {
    /// As the library does.
    pub const ALL: Rules = Rules {
        map_once: |lazy| {
            lazy.map_once(|| Some(Memory::map()), Memory::unmap)
                .unwrap()
        },
        publish: |lazy| lazy.publish(RSEQ_OFFSET),
        is_published: |lazy| lazy.is_published(),
        is_late: false,
    };
}

const RSEQ_OFFSET: usize = 64;
const READY: usize = 1;
const FREED: usize = 2;

/// An area. It stays when it is freed, so that a late use is found.
pub struct Memory(AtomicUsize);

impl Memory {
    pub fn map() -> NonNull<u8> {
        let memory = Box::leak(Box::new(Memory(AtomicUsize::new(0))));
        memory.0.store(READY, Ordering::Relaxed);
        NonNull::from(memory).cast()
    }

    fn unmap(memory: NonNull<u8>) {
        Memory::at(memory).0.store(FREED, Ordering::Relaxed);
    }

    fn at<'a>(memory: NonNull<u8>) -> &'a Memory {
        // SAFETY: `map` made it, and it is never really freed.
        unsafe { memory.cast().as_ref() }
    }
}

/// Adds once, as `Counter::add` does. Returns the memory that was used.
fn add(lazy: &Lazy, rules: Rules) -> usize {
    let memory = if (rules.is_published)(lazy) {
        // Relaxed: the sequence's own load.
        let base = lazy.base.load(Ordering::Relaxed);
        NonNull::new(base).expect("a sequence runs without memory")
    } else if rules.is_late {
        (rules.publish)(lazy);
        (rules.map_once)(lazy)
    } else {
        let memory = (rules.map_once)(lazy);
        (rules.publish)(lazy);
        memory
    };
    let state = Memory::at(memory).0.load(Ordering::Relaxed);
    assert_eq!(state, READY, "the memory is not prepared, or freed");
    memory.addr().get()
}

/// Two threads add twice each.
pub fn first_uses(rules: Rules) {
    let lazy = Arc::new(Lazy {
        base: AtomicPtr::new(null_mut()),
        stride: 128,
        rseq_offset: AtomicUsize::new(0),
    });
    let other = {
        let lazy = lazy.clone();
        thread::spawn(move || [add(&lazy, rules), add(&lazy, rules)])
    };
    let own = [add(&lazy, rules), add(&lazy, rules)];
    let others = other.join().unwrap();
    let [first, rest @ ..] = own;
    assert!(
        rest.iter().chain(&others).all(|memory| *memory == first),
        "two memories are in use"
    );
}

#[test]
fn all_threads_use_one_prepared_memory() {
    holds("first uses", Small, || first_uses(Rules::ALL));
}

#[test]
fn wrong_first_uses_are_found() {
    let stores = Rules {
        map_once: |lazy| match lazy.base() {
            Some(base) => base,
            None => {
                let own = Memory::map();
                lazy.base.store(own.as_ptr(), Ordering::Release);
                own
            }
        },
        ..Rules::ALL
    };
    fails(
        "first uses: a store for the exchange",
        "two memories",
        Small,
        move || {
            first_uses(stores);
        },
    );
    let late = Rules {
        is_late: true,
        ..Rules::ALL
    };
    fails(
        "first uses: published before it is mapped",
        "without memory",
        Small,
        move || {
            first_uses(late);
        },
    );
}
