//! Taking elements out of other CPUs' slots, the same for every structure: steal and drain.

use std::fmt;

use super::area::Area;
use super::gate::Held;

/// A structure whose elements can be taken out of a slot whose gate is held.
pub(super) trait Take<T>: Sync {
    fn area(&self) -> &Area;

    /// Takes one element out of the held slot.
    fn take(&self, held: &Held<'_>) -> Option<T>;

    /// Does the slot seem to hold something? Read without the gate, so only a hint.
    fn seems_occupied(&self, cpu: usize) -> bool;
}

/// Takes one element from a CPU's slot.
pub(super) fn steal_from<T>(structure: &dyn Take<T>, cpu: usize) -> Option<T> {
    let area = structure.area();
    assert!(
        cpu < area.cpus(),
        "CPU {cpu} has no slot: there are {}",
        area.cpus()
    );
    if !structure.seems_occupied(cpu) {
        return None;
    }
    structure.take(&area.close(cpu))
}

/// Takes one element from any other CPU's slot, the next ones first.
pub(super) fn steal<T>(structure: &dyn Take<T>) -> Option<T> {
    let cpus = structure.area().cpus();
    let here = crate::platform::current_cpu();
    (1..=cpus).find_map(|distance| steal_from(structure, (here + distance) % cpus))
}

/// How many elements one closing of a gate takes out.
const BATCH: usize = 16;

/// The elements of a structure, taken out CPU by CPU; made by the structures' `drain`.
///
/// A gate is closed for sixteen elements at a time, at the cost of [`Area::close`], and is open
/// while the caller has them. What is put on a CPU that was passed already stays there. Elements
/// that were taken out but not asked for are dropped with the iterator.
pub struct Drain<'a, T> {
    structure: &'a dyn Take<T>,
    cpu: usize,
    batch: [Option<T>; BATCH],
    next: usize,
    taken: usize,
}

impl<'a, T> Drain<'a, T> {
    pub(super) fn new(structure: &'a dyn Take<T>) -> Drain<'a, T> {
        Drain {
            structure,
            cpu: 0,
            batch: [const { None }; BATCH],
            next: 0,
            taken: 0,
        }
    }

    /// Takes the next elements out; `false` when no CPU has any.
    fn refill(&mut self) -> bool {
        (self.next, self.taken) = (0, 0);
        let area = self.structure.area();
        while self.cpu < area.cpus() {
            if self.structure.seems_occupied(self.cpu) {
                let held = area.close(self.cpu);
                while self.taken < BATCH {
                    let Some(element) = self.structure.take(&held) else {
                        break;
                    };
                    self.batch[self.taken] = Some(element);
                    self.taken += 1;
                }
            }
            if self.taken < BATCH {
                self.cpu += 1;
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
