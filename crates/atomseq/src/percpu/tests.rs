//! Properties of every structure: user code never runs while a gate is held, and a drain ends.
//!
//! The user code of a type is its conversions and its destructor. Here they examine every gate of
//! the structure in use. The operations run on the fast path, and on the slow path with all gates
//! permanently closed.

use std::cell::{Cell, RefCell};
use std::ptr::NonNull;
use std::sync::atomic::Ordering;

use super::lock::FOR_GOOD;
use super::remote::Take;
use super::*;
use crate::AsWord;

mod panics;

thread_local! {
    /// Returns whether a gate of the structure in use is held.
    static GATE_CHECK: RefCell<Option<Box<dyn Fn() -> bool>>> = const { RefCell::new(None) };
    /// How many times user code has run.
    static RAN: Cell<usize> = const { Cell::new(0) };
    /// How many times user code ran under a gate.
    static UNDER_A_GATE: Cell<usize> = const { Cell::new(0) };
}

/// Stands for the user's code.
fn user_code() {
    RAN.set(RAN.get() + 1);
    let under = GATE_CHECK.with_borrow(|check| check.as_ref().is_some_and(|check| check()));
    UNDER_A_GATE.set(UNDER_A_GATE.get() + usize::from(under));
}

fn any_gate_is_held(area: &Area) -> bool {
    let mut gates = (0..area.cpus() as isize).map(|cpu| area.gate_at(cpu).load(Ordering::Relaxed));
    gates.any(|gate| gate & !FOR_GOOD != 0)
}

/// Runs operations on a structure on both paths. Returns how many times user code ran, and how many
/// of them were under a gate.
fn watch<S: Take<T> + 'static, T>(
    fresh: impl Fn() -> S,
    operations: impl Fn(&S),
) -> (usize, usize) {
    RAN.set(0);
    UNDER_A_GATE.set(0);
    for slowly in [false, true] {
        // Leaked, because `GATE_CHECK` needs a `'static` reference. The operations remove all
        // elements.
        let structure: &'static S = Box::leak(Box::new(fresh()));
        let area = structure.area();
        if slowly {
            for cpu in 0..area.cpus() as isize {
                area.gate_at(cpu).store(FOR_GOOD, Ordering::Relaxed);
            }
        }
        GATE_CHECK.set(Some(Box::new(|| any_gate_is_held(structure.area()))));
        operations(structure);
        GATE_CHECK.set(None);
    }
    (RAN.get(), UNDER_A_GATE.get())
}

/// A type whose conversions and destructor call `user_code`.
struct Witness(usize);

impl Drop for Witness {
    fn drop(&mut self) {
        user_code();
    }
}

// SAFETY: the word is the number, from which `from_word` restores the value.
unsafe impl AsWord for Witness {
    fn into_word(self) -> usize {
        user_code();
        let word = self.0;
        std::mem::forget(self);
        word
    }

    unsafe fn from_word(word: usize) -> Witness {
        user_code();
        Witness(word)
    }
}

#[derive(Default)]
struct Linked {
    link: Link,
}

// SAFETY: the offset of the field `link`.
unsafe impl Node for Linked {
    const LINK: usize = std::mem::offset_of!(Linked, link);
}

struct WitnessOwner(Box<Linked>);

impl Drop for WitnessOwner {
    fn drop(&mut self) {
        user_code();
    }
}

// SAFETY: forwards to `Box`, which fulfils the requirements.
unsafe impl Owner for WitnessOwner {
    type Node = Linked;

    fn into_node(mut self) -> NonNull<Linked> {
        user_code();
        let node = std::mem::take(&mut self.0);
        std::mem::forget(self);
        Owner::into_node(node)
    }

    unsafe fn from_node(node: NonNull<Linked>) -> WitnessOwner {
        user_code();
        // SAFETY: the caller guarantees an address that `into_node` of the box returned, once.
        WitnessOwner(unsafe { Owner::from_node(node) })
    }
}

/// The operations that all structures share, on all CPUs.
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

/// Each removed element is pushed again: on the CPU that is being drained, or on one that is
/// drained later.
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
                assert!(
                    drained <= ELEMENTS * structure.cpus(),
                    "the drain does not end"
                );
            }
            assert!(drained >= ELEMENTS);
            assert_eq!(structure.drain().count(), ELEMENTS);
        }};
    }
    drain_and_push!(Stack::<usize>::with_capacity_per_cpu(2 * ELEMENTS));
    drain_and_push!(Ring::<usize>::with_capacity_per_cpu(2 * ELEMENTS));
    drain_and_push!(Queue::<usize>::new());
}

/// 640 pushes: 80 on either path for each of four structures. The elements leave in every possible
/// way.
#[test]
fn user_code_runs_only_while_no_gate_is_held() {
    let witness = || Witness(7);
    let owner = || WitnessOwner(Box::default());
    let results = [
        watch(
            || Stack::with_capacity_per_cpu(20),
            |stack| operations!(stack, drop(stack.push(witness()))),
        ),
        watch(Queue::new, |queue| {
            operations!(queue, drop(queue.push(witness())))
        }),
        watch(
            || Ring::with_capacity_per_cpu(20),
            |ring| operations!(ring, drop(ring.push(witness()))),
        ),
        watch(List::new, |list| operations!(list, list.push(owner()))),
    ];
    for (ran, under_a_gate) in results {
        assert!(ran >= 100, "user code ran only {ran} times");
        assert_eq!(under_a_gate, 0, "of {ran} times");
    }
}

/// The control: an element is converted under the gate.
#[test]
fn user_code_under_a_gate_is_detected() {
    let (_, under_a_gate) = watch(
        || Stack::with_capacity_per_cpu(1),
        |stack| {
            stack.push(Witness(7)).ok().expect("there is room for one");
            for cpu in 0..stack.cpus() {
                let held = stack.area().close_gate(cpu);
                let raw = stack.take(&held);
                // SAFETY: `take` has just returned it, and it is converted once.
                drop(raw.map(|raw| unsafe { stack.element(raw) }));
            }
        },
    );
    assert!(under_a_gate > 0);
}
