//! Taking elements out of other CPUs' slots, the same for every structure: steal and drain.
//!
//! What leaves a slot under its gate is not yet an element of the user's type: making it one runs
//! the user's code, which may use the same structure, or wait. So it becomes an element when the
//! gate is open again.

use std::fmt;
use std::mem::ManuallyDrop;

use super::area::Area;
use super::gate::GateGuard;
use crate::drops;

/// An element as its slot keeps it. Dropped, it is only leaked.
pub(super) union Raw<T> {
    /// By a word that leads to it.
    pub(super) word: usize,
    /// In place.
    pub(super) element: ManuallyDrop<T>,
}

/// A structure whose elements can be taken out of a slot whose gate is held.
pub(super) trait Take<T>: Sync {
    fn area(&self) -> &Area;

    /// Takes one element out of the held slot. Runs no code of the user's.
    fn take(&self, held: &GateGuard<'_>) -> Option<Raw<T>>;

    /// The element itself. Runs the user's code: never while a gate is held.
    ///
    /// # Safety
    ///
    /// This structure's `take` returned it, and this is done once.
    unsafe fn element(&self, raw: Raw<T>) -> T;

    /// Does the slot seem to hold something? Read without the gate, so only a hint.
    fn seems_occupied(&self, cpu: usize) -> bool;

    /// How many elements the held slot has; more, if the structure does not know.
    fn count(&self, held: &GateGuard<'_>) -> usize;
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
    let held = area.close_gate(cpu);
    let raw = structure.take(&held);
    drop(held);
    // SAFETY: just taken.
    raw.map(|raw| unsafe { structure.element(raw) })
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
/// A gate is closed for sixteen elements at a time, at the cost of [`Area::close_gate`], and is
/// open while the caller has them. No more elements are taken from a CPU than were there when the
/// iterator came to it, so it ends, whatever other threads push meanwhile; but not that of a
/// [`List`](super::List::drain). A stack's newest come first: where elements are pushed meanwhile,
/// as many [older ones stay](super::Stack::drain). What is put on a CPU that was passed already
/// stays there. Elements that were taken out but not asked for are dropped with the iterator.
///
/// It holds those sixteen itself, takes room for as many again while it fetches them, and moves
/// them one by one: with a [`Ring`](super::Ring)'s largest elements, of 4 KiB, 150 KiB of stack in
/// an optimized build, and 320 KiB in one that is not (measured on x86-64, 148 and 314). In a
/// signal handler on a small stack, take such elements one by one, by `steal`, which takes 24 KiB,
/// or 97.
pub struct Drain<'a, T> {
    structure: &'a dyn Take<T>,
    cpu: usize,
    /// How many more it takes from that CPU; unknown before the first.
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

    /// Takes the next elements out; `false` when no CPU has any.
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
            // The gate is open here. If the user's code panics, the elements after that are left to
            // the next `next`. They are taken from where they are: an iterator that owned them
            // would have them on the stack once more.
            let mut places = raw.iter_mut();
            drops::each(|| {
                let Some(raw) = places.next().and_then(Option::take) else {
                    return false;
                };
                // SAFETY: just taken.
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
