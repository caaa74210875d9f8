//! The queue for processors with a double-width compare-and-swap: a ring of cells, each with a turn
//! and a word.
//!
//! ```text
//!   cells        turn word | turn word | turn word | …     `capacity` of them; a turn and its word change together
//!   head, tail   hints: all places before them have been popped, or pushed
//!
//!   place   round | index     the cell of this index, in this round; rounds are multiples of a power of two
//!   turn    round             the cell is empty, for the push of this round
//!           round + 1         the cell is full, for the pop of this round
//!
//!   push    at the tail: (round, 0)        -> (round + 1, word)    then the tail hint is the next place
//!   pop     at the head: (round + 1, word) -> (next round, 0)      then the head hint is the next place
//! ```
//!
//! A turn is what D. Vyukov's bounded queue calls the sequence of a cell. A place is *passed* by a
//! push when a word has been pushed there, and by a pop when it has been popped.
//!
//! Invariants:
//!
//! 1. A turn never decreases. A word changes only together with its turn.
//! 2. Places are passed in order. A thread pushes at a place only if it knows that all places
//!    before it have been pushed: from a hint, which a thread stores after it has pushed at the
//!    place before, or from the turns of cells that it has read. The same holds for pops.
//! 3. So a thread that knows all places before to be passed, and finds this place not passed, has
//!    found the end at the moment of that load. If the turn is that of the round before, the cell
//!    is still full, and the queue holds `capacity` elements at that moment: the push is refused. A
//!    pop that finds the turn of its round's push has found an empty queue.
//! 4. A hint may be late by any number of rounds, because a thread may stop between its change and
//!    its store of the hint. Its store may then take the hint back to an earlier place. A hint is
//!    never early. The turns show how late it is ([`Ring::search`]).
//!
//! A stopped thread does not block the others: its change is one instruction, which it has made or
//! not made. If a thread fails to make a change, another thread has made it, so the queue is
//! lock-free.

use crate::dcas::{Backoff, Patience};
use crate::heap::zeros;
use crate::sync::{AtomicU64, Ordering, Pair};

/// One end, on cache lines of its own, for processors that fetch lines in pairs.
#[repr(C, align(128))]
#[derive(Debug, Default)]
struct End {
    /// All places before this one are passed.
    hint: AtomicU64,
    /// For operations here that the other end refuses. Changes are counted by places.
    patience: Patience,
}

/// The lowest bit of the turn at which a cell is due for a push.
const EMPTY: u64 = 0;
/// The lowest bit of the turn at which a cell is due for a pop.
const FULL: u64 = 1;

#[derive(Debug)]
pub struct Ring {
    tail: End,
    head: End,
    /// On the cache lines after the hints, so that the hints' frequent changes do not evict it.
    fixed: Fixed,
}

#[repr(align(128))]
#[derive(Debug)]
struct Fixed {
    cells: Box<[Pair]>,
    /// The bits of a place that are its index. The bits above are its round.
    mask: u64,
}

impl Ring {
    /// Creates an empty ring of this many cells, one or more. Returns `None` if there is no memory
    /// for them.
    ///
    /// # Safety
    ///
    /// The processor has a double-width compare-and-swap.
    pub unsafe fn new(capacity: usize) -> Option<Ring> {
        let fixed = Fixed {
            // All zeros: each cell is empty, for the push of round 0.
            cells: zeros(capacity)?,
            mask: capacity.max(2).next_power_of_two() as u64 - 1,
        };
        Some(Ring {
            tail: End::default(),
            head: End::default(),
            fixed,
        })
    }

    pub fn capacity(&self) -> usize {
        self.fixed.cells.len()
    }

    /// Pushes a word. Returns `false` if the queue is full.
    #[inline]
    pub fn push(&self, word: usize) -> bool {
        self.change::<EMPTY>(word as u64).is_some()
    }

    /// Pops a word. Returns `None` if the queue is empty.
    #[inline]
    pub fn pop(&self) -> Option<usize> {
        self.change::<FULL>(0).map(|word| word as usize)
    }

    /// Returns the number of words at some time during the call.
    pub fn len(&self) -> usize {
        loop {
            let head = self.end::<FULL>();
            let tail = self.end::<EMPTY>();
            // The head has not been popped, so it was the head all the time, and also when `tail`
            // was the tail.
            if !self.is_passed::<FULL>(head) {
                return (self.count(tail) - self.count(head)) as usize;
            }
        }
    }

    /// Replaces the word of the first cell that is not passed, if it is due, and returns the old
    /// word. Returns `None` if it is not due: the queue is full, or empty.
    #[inline(always)]
    fn change<const DUE: u64>(&self, word: u64) -> Option<u64> {
        // Acquire: pairs with the release in `try_change`. The turns that the storing thread knew
        // are known to this thread.
        let place = self.hint::<DUE>().load(Ordering::Acquire);
        match self.try_change::<DUE>(place, word) {
            Tried::Changed(old) => Some(old),
            Tried::Refused => self.change_later::<DUE>(place, word),
            Tried::Passed => self.change_again::<DUE>(place, word),
        }
    }

    /// Continues where the cell at this place was not due.
    #[cold]
    #[inline(never)]
    fn change_later<const DUE: u64>(&self, place: u64, word: u64) -> Option<u64> {
        // Relaxed: a hint. The attempt that follows loads the turn again.
        let turn = || self.cell(place).first().load(Ordering::Relaxed);
        let seen = turn();
        let end = self.end_of::<DUE>();
        let is_due = seen >= self.due::<DUE>(place)
            || end
                .patience
                .wait(place, self.capacity() as u64 / 4, seen, turn);
        if is_due {
            self.change_again::<DUE>(place, word)
        } else {
            None
        }
    }

    /// Continues where other threads have passed that place.
    #[cold]
    #[inline(never)]
    fn change_again<const DUE: u64>(&self, mut place: u64, word: u64) -> Option<u64> {
        let mut backoff = Backoff::new();
        loop {
            backoff.spin();
            // Acquire: pairs with the release in `try_change`. If the hint has advanced, other
            // threads are active, and a search would run into them at once.
            let hint = self.hint::<DUE>().load(Ordering::Acquire);
            place = match hint > place {
                true => hint,
                false => self.search::<DUE>(place),
            };
            match self.try_change::<DUE>(place, word) {
                Tried::Changed(old) => return Some(old),
                Tried::Refused => return None,
                Tried::Passed => {}
            }
        }
    }

    /// Tries once to change the cell at a place before which all are passed.
    #[inline(always)]
    fn try_change<const DUE: u64>(&self, place: u64, word: u64) -> Tried {
        let due = self.due::<DUE>(place);
        let cell = self.cell(place);
        // SeqCst: it must not be ordered before this thread's last compare-and-swap; its partner is
        // the same pair of steps in another thread. Otherwise, of two threads of which one has
        // pushed and is refused, and the other has popped and is refused, neither might see what
        // the other did. On x86-64 a SeqCst load is a plain load. On AArch64 it is `ldar`, which
        // does not pass the releasing store of a compare-and-swap before it.
        let turn = cell.first().load(Ordering::SeqCst);
        if turn != due {
            return if turn < due {
                Tried::Refused
            } else {
                Tried::Passed
            };
        }
        // The word of an empty cell is 0. Relaxed: if the word belongs to another turn, the
        // compare-and-swap fails.
        let old = match DUE {
            EMPTY => 0,
            _ => cell.second().load(Ordering::Relaxed),
        };
        // SAFETY: the caller of `new` has promised that the processor has the instruction.
        if !unsafe { cell.exchange((due, old), (self.after::<DUE>(due), word)) } {
            return Tried::Passed;
        }
        // Release: pairs with the acquire of threads that load this hint.
        self.hint::<DUE>()
            .store(self.next(place), Ordering::Release);
        Tried::Changed(old)
    }

    /// Returns the first place that was not passed at some time during the call.
    fn end<const DUE: u64>(&self) -> u64 {
        // Acquire: pairs with the release in `try_change`.
        let mut place = self.hint::<DUE>().load(Ordering::Acquire);
        while self.is_passed::<DUE>(place) {
            place = self.search::<DUE>(place);
        }
        place
    }

    /// Starts at a place before which all are passed. Returns a place before which all are passed
    /// too: not before the hint, and later than all places that the turns show to be passed. Reads
    /// at most 2 log₂(capacity) + 2 cells.
    fn search<const DUE: u64>(&self, place: u64) -> u64 {
        // Acquire: pairs with the release in `try_change` and with the compare-and-swap of the
        // cell.
        let mut place = place.max(self.hint::<DUE>().load(Ordering::Acquire));
        let turn = self.cell(place).first().load(Ordering::Acquire);
        if turn <= self.due::<DUE>(place) {
            return place;
        }
        // The last round in which this cell was passed. The end is at most a round later.
        let round = (turn - 1 - DUE) & !self.fixed.mask;
        place = self.next(round | self.index(place));
        // Steps double, and halve after one that went too far. All of the first `passed` places are
        // passed, and all from `limit` on are not.
        let (mut passed, mut limit, mut step) = (0, self.capacity() as u64, 1);
        while passed < limit {
            match self.is_passed::<DUE>(self.places_later(place, passed + step - 1)) {
                true => passed += step,
                false => limit = passed + step - 1,
            }
            step = (2 * step).min((limit - passed).div_ceil(2));
        }
        self.places_later(place, passed)
    }

    /// Returns whether this place is passed. If so, all places before it are.
    fn is_passed<const DUE: u64>(&self, place: u64) -> bool {
        // SeqCst, for the reason given in `try_change`.
        self.cell(place).first().load(Ordering::SeqCst) > self.due::<DUE>(place)
    }

    #[inline(always)]
    fn hint<const DUE: u64>(&self) -> &AtomicU64 {
        &self.end_of::<DUE>().hint
    }

    #[inline(always)]
    fn end_of<const DUE: u64>(&self) -> &End {
        match DUE {
            EMPTY => &self.tail,
            _ => &self.head,
        }
    }

    /// Returns the turn at which the cell of a place is due.
    #[inline(always)]
    fn due<const DUE: u64>(&self, place: u64) -> u64 {
        (place & !self.fixed.mask) + DUE
    }

    /// Returns the turn that follows the one at which the cell was due.
    #[inline(always)]
    fn after<const DUE: u64>(&self, due: u64) -> u64 {
        match DUE {
            EMPTY => due + 1,
            _ => due + self.fixed.mask,
        }
    }

    #[inline(always)]
    fn index(&self, place: u64) -> u64 {
        place & self.fixed.mask
    }

    #[inline(always)]
    fn cell(&self, place: u64) -> &Pair {
        // SAFETY: the index of every place is below the capacity: that of the first place is 0, and
        // `next` and `places_later` keep it so.
        unsafe { self.fixed.cells.get_unchecked(self.index(place) as usize) }
    }

    #[inline(always)]
    fn next(&self, place: u64) -> u64 {
        match self.index(place) + 1 < self.capacity() as u64 {
            true => place + 1,
            false => self.next_round(place),
        }
    }

    /// Returns the place that is `count` places later. `count` is at most the number of cells.
    fn places_later(&self, place: u64, count: u64) -> u64 {
        match (self.index(place) + count).checked_sub(self.capacity() as u64) {
            None => place + count,
            Some(index) => self.next_round(place) + index,
        }
    }

    #[inline(always)]
    fn next_round(&self, place: u64) -> u64 {
        (place | self.fixed.mask) + 1
    }

    /// Returns how many places come before this one.
    fn count(&self, place: u64) -> u64 {
        let rounds = place >> self.fixed.mask.count_ones();
        rounds * self.capacity() as u64 + self.index(place)
    }
}

/// The outcome of an attempt.
enum Tried {
    /// The cell was changed. This is its old word.
    Changed(u64),
    /// The queue was full, or empty.
    Refused,
    /// Another thread has passed the place.
    Passed,
}

#[cfg(test)]
mod tests;
