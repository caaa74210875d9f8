//! What holds for every structure alike: the user's code never runs while a gate is held.
//!
//! A type's code is its conversions and its destructor; they look at every gate of the structure
//! that is being used. They run as handlers of operations would on the fast path and, with the
//! gates closed for good, on the slow one.

use std::cell::{Cell, RefCell};
use std::ptr::NonNull;
use std::sync::atomic::Ordering;

use super::lock::FOR_GOOD;
use super::remote::Take;
use super::*;
use crate::AsWord;

mod panics;

thread_local! {
    /// Looks at the gates of the structure in use.
    static LOOK: RefCell<Option<Box<dyn Fn() -> bool>>> = const { RefCell::new(None) };
    /// How often the user's code has run.
    static RAN: Cell<usize> = const { Cell::new(0) };
    /// How often it ran under a gate.
    static UNDER_A_GATE: Cell<usize> = const { Cell::new(0) };
}

/// The user's code.
fn users_code() {
    RAN.set(RAN.get() + 1);
    let under = LOOK.with_borrow(|look| look.as_ref().is_some_and(|look| look()));
    UNDER_A_GATE.set(UNDER_A_GATE.get() + usize::from(under));
}

fn any_gate_is_held(area: &Area) -> bool {
    let mut gates = (0..area.cpus() as isize).map(|cpu| area.gate_at(cpu).load(Ordering::Relaxed));
    gates.any(|gate| gate & !FOR_GOOD != 0)
}

/// Runs operations on a structure, on both paths; returns how often the user's code ran, and how
/// often it did so under a gate.
fn watched<S: Take<T> + 'static, T>(
    fresh: impl Fn() -> S,
    operations: impl Fn(&S),
) -> (usize, usize) {
    RAN.set(0);
    UNDER_A_GATE.set(0);
    for slowly in [false, true] {
        // Leaked, for what looks at it; its elements are taken out by the operations.
        let structure: &'static S = Box::leak(Box::new(fresh()));
        let area = structure.area();
        if slowly {
            for cpu in 0..area.cpus() as isize {
                area.gate_at(cpu).store(FOR_GOOD, Ordering::Relaxed);
            }
        }
        LOOK.set(Some(Box::new(|| any_gate_is_held(structure.area()))));
        operations(structure);
        LOOK.set(None);
    }
    (RAN.get(), UNDER_A_GATE.get())
}

/// Its conversions and its destructor are the user's code.
struct Witness(usize);

impl Drop for Witness {
    fn drop(&mut self) {
        users_code();
    }
}

// SAFETY: the word is the number.
unsafe impl AsWord for Witness {
    fn into_word(self) -> usize {
        users_code();
        let word = self.0;
        std::mem::forget(self);
        word
    }

    unsafe fn from_word(word: usize) -> Witness {
        users_code();
        Witness(word)
    }
}

#[derive(Default)]
struct Linked {
    link: Link,
}

// SAFETY: the offset of the link.
unsafe impl Node for Linked {
    const LINK: usize = std::mem::offset_of!(Linked, link);
}

struct WitnessOwner(Box<Linked>);

impl Drop for WitnessOwner {
    fn drop(&mut self) {
        users_code();
    }
}

// SAFETY: as a box does it.
unsafe impl Owner for WitnessOwner {
    type Node = Linked;

    fn into_node(mut self) -> NonNull<Linked> {
        users_code();
        let node = std::mem::take(&mut self.0);
        std::mem::forget(self);
        Owner::into_node(node)
    }

    unsafe fn from_node(node: NonNull<Linked>) -> WitnessOwner {
        users_code();
        // SAFETY: the caller's promise.
        WitnessOwner(unsafe { Owner::from_node(node) })
    }
}

/// Everything that elements of three structures have in common, on all CPUs.
macro_rules! operations {
    ($structure:ident, $push:expr) => {{
        let cpus = $structure.area().cpus();
        let fill = || (0..40).for_each(|_| $push);
        fill();
        drop($structure.pop());
        (0..cpus).for_each(|cpu| drop($structure.steal_from(cpu)));
        drop($structure.steal());
        // Some are dropped with the iterator.
        $structure.drain().take(3).for_each(drop);
        fill();
        $structure.drain().for_each(drop);
    }};
}

/// Each element that is drained is pushed again, on the CPU that is drained, or on one that comes
/// later.
#[test]
fn a_drain_ends_while_elements_are_pushed() {
    const ELEMENTS: usize = 40;
    macro_rules! drain_and_push {
        ($structure:expr) => {{
            let structure = $structure;
            (0..ELEMENTS).for_each(|value| structure.push(value).expect("room"));
            let mut drained = 0;
            for value in structure.drain() {
                structure.push(value).expect("room");
                drained += 1;
                assert!(drained <= ELEMENTS * structure.cpus(), "it goes on");
            }
            assert!(drained >= ELEMENTS);
            assert_eq!(structure.drain().count(), ELEMENTS);
        }};
    }
    drain_and_push!(Stack::<usize>::with_capacity_per_cpu(2 * ELEMENTS));
    drain_and_push!(Ring::<usize>::with_capacity_per_cpu(2 * ELEMENTS));
    drain_and_push!(Queue::<usize>::new());
}

/// 640 pushes: 80 on either path for each of four structures, whose elements leave by all ways that
/// there are.
#[test]
fn the_users_code_runs_while_no_gate_is_held() {
    let witness = || Witness(7);
    let owner = || WitnessOwner(Box::default());
    let results = [
        watched(
            || Stack::with_capacity_per_cpu(20),
            |stack| operations!(stack, drop(stack.push(witness()))),
        ),
        watched(Queue::new, |queue| {
            operations!(queue, drop(queue.push(witness())))
        }),
        watched(
            || Ring::with_capacity_per_cpu(20),
            |ring| operations!(ring, drop(ring.push(witness()))),
        ),
        watched(List::new, |list| operations!(list, list.push(owner()))),
    ];
    for (ran, under_a_gate) in results {
        assert!(ran >= 100, "the user's code ran only {ran} times");
        assert_eq!(under_a_gate, 0, "of {ran} times");
    }
}

/// The test would notice: an element that is made under the gate.
#[test]
fn code_under_a_gate_is_found_out() {
    let (_, under_a_gate) = watched(
        || Stack::with_capacity_per_cpu(1),
        |stack| {
            stack.push(Witness(7)).ok().expect("there is room for one");
            for cpu in 0..stack.cpus() {
                let held = stack.area().close_gate(cpu);
                let raw = stack.take(&held);
                // SAFETY: just taken.
                drop(raw.map(|raw| unsafe { stack.element(raw) }));
            }
        },
    );
    assert!(under_a_gate > 0);
}
