//! Removing elements from other CPUs' slots: `steal` and `drain`, shared by all structures.
//!
//! An element that leaves a slot under its gate is still raw. Converting it to the user's type
//! calls user code, which may use the same structure or block. It is therefore converted after the
//! gate is open again.

use std::fmt;
use std::mem::ManuallyDrop;

use super::area::Area;
use super::gate::GateGuard;
use crate::drops;

/// An element in the form that its slot stores. Dropping it leaks the element.
pub(super) union Raw<T> {
    /// A word that converts to the element.
    pub(super) word: usize,
    /// The element itself.
    pub(super) element: ManuallyDrop<T>,
}

/// A structure whose elements can be removed from a slot whose gate is held.
pub(super) trait Take<T>: Sync {
    /// Returns the area that has the slots.
    fn area(&self) -> &Area;

    /// Removes one element from the held slot. Calls no user code.
    fn take(&self, held: &GateGuard<'_>) -> Option<Raw<T>>;

    /// Converts a raw element. This calls user code, so no gate may be held.
    ///
    /// # Safety
    ///
    /// `take` of this structure returned `raw`, and each raw element is converted once.
    unsafe fn element(&self, raw: Raw<T>) -> T;

    /// Returns whether the slot seems to hold an element. Read without the gate, so only a hint.
    fn seems_occupied(&self, cpu: usize) -> bool;

    /// Returns the number of elements in the held slot, or more if the structure does not know its
    /// length.
    fn count(&self, held: &GateGuard<'_>) -> usize;
}

/// Removes one element from a CPU's slot.
#[track_caller]
pub(super) fn steal_from<T>(structure: &dyn Take<T>, cpu: usize) -> Option<T> {
    let area = structure.area();
    area.check(cpu);
    if !structure.seems_occupied(cpu) {
        return None;
    }
    let held = area.close_gate(cpu);
    let raw = structure.take(&held);
    drop(held);
    // SAFETY: `take` of this structure has just returned it, and it is converted once.
    raw.map(|raw| unsafe { structure.element(raw) })
}

/// Removes one element from any CPU's slot. Tries the following CPU numbers first and the current
/// CPU last.
pub(super) fn steal<T>(structure: &dyn Take<T>) -> Option<T> {
    let cpus = structure.area().cpus();
    let here = crate::platform::current_cpu();
    (1..=cpus).find_map(|distance| steal_from(structure, (here + distance) % cpus))
}

/// The maximum number of elements removed while a gate is closed once.
const BATCH: usize = 16;

/// An iterator that removes the elements of a structure, CPU by CPU; created by the structures'
/// `drain`.
///
/// It closes a gate for up to sixteen elements at a time, at the cost of [`Area::close_gate`]. The
/// gate is open while the caller has the elements. From each CPU it removes at most as many
/// elements as were there when it reached that CPU. It therefore ends, whatever other threads push
/// meanwhile, except for a [`List`](super::List::drain). From a stack it removes the newest
/// elements first: if elements are pushed meanwhile, as many [older ones
/// remain](super::Stack::drain). Elements pushed on a CPU that it has passed remain there. Elements
/// that were removed but not yet returned are dropped with the iterator.
///
/// The iterator holds sixteen elements by value, and needs room for as many again while it fetches
/// them. For the largest elements of a [`Ring`](super::Ring), of 4 KiB, this takes 150 KiB of stack
/// in an optimized build and 320 KiB in an unoptimized one (measured on x86-64: 148 and 314). In a
/// signal handler with a small stack, remove such elements one at a time with `steal`, which takes
/// 24 KiB or 97 KiB.
pub struct Drain<'a, T> {
    structure: &'a dyn Take<T>,
    cpu: usize,
    /// The number of elements that it may still remove from this CPU; `None` before the first gate.
    left: Option<usize>,
    batch: [Option<T>; BATCH],
    next: usize,
    taken: usize,
}

impl<'a, T> Drain<'a, T> {
    pub(super) fn new(structure: &'a dyn Take<T>) -> Drain<'a, T> {
        Drain {
            structure,
            cpu: 0,
            left: None,
            batch: [const { None }; BATCH],
            next: 0,
            taken: 0,
        }
    }

    /// Removes the next batch of elements. Returns `false` if no CPU has any.
    fn refill(&mut self) -> bool {
        (self.next, self.taken) = (0, 0);
        let area = self.structure.area();
        while self.cpu < area.cpus() {
            let mut raw = [const { None }; BATCH];
            if self.structure.seems_occupied(self.cpu) {
                let held = area.close_gate(self.cpu);
                let left = self.left.unwrap_or_else(|| self.structure.count(&held));
                let taken = raw[..left.min(BATCH)].iter_mut().map_while(|place| {
                    *place = self.structure.take(&held);
                    place.as_ref().map(|_| ())
                });
                self.left = Some(left - taken.count());
            }
            // The gate is open here. If user code panics, the rest of the batch is converted while
            // that unwinds. Each element is taken from its place, because an iterator by value
            // would copy the array once more on the stack.
            let mut places = raw.iter_mut();
            drops::each(|| {
                let Some(raw) = places.next().and_then(Option::take) else {
                    return false;
                };
                // SAFETY: `take` of this structure returned it, and `Option::take` has removed it
                // from the array.
                self.batch[self.taken] = Some(unsafe { self.structure.element(raw) });
                self.taken += 1;
                true
            });
            if self.taken < BATCH || self.left == Some(0) {
                self.cpu += 1;
                self.left = None;
            }
            if self.taken > 0 {
                return true;
            }
        }
        false
    }
}

impl<T> Iterator for Drain<'_, T> {
    type Item = T;

    fn next(&mut self) -> Option<T> {
        if self.next == self.taken && !self.refill() {
            return None;
        }
        self.next += 1;
        self.batch[self.next - 1].take()
    }
}

impl<T> std::iter::FusedIterator for Drain<'_, T> {}

impl<T> fmt::Debug for Drain<'_, T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Drain")
            .field("cpu", &self.cpu)
            .field("taken", &(self.taken - self.next))
            .finish()
    }
}
