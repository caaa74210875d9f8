//! The queue where the processor compares two words at once: a ring of cells, each with a turn and
//! a word.
//!
//! ```text
//!   cells   turn word | turn word | turn word | …     `capacity` of them; a turn and its word change together
//!   head, tail        hints: places up to which all have been popped, and pushed
//!
//!   place   round | index     the cell of that index, in that round; rounds are multiples of a power of two
//!   turn    round             the cell is empty, for the push of that round
//!           round + 1         it is full, for the pop of that round
//!
//!   push    at the tail: (round, 0)        -> (round + 1, word)    then the tail is the next place
//!   pop     at the head: (round + 1, word) -> (next round, 0)      then the head is the next place
//! ```
//!
//! What holds:
//!
//! 1. A turn never decreases. A word changes only together with its turn.
//! 2. Places are pushed in order. A thread pushes at a place only if it knows that all places
//!    before have been pushed: from a hint, which a thread stores after it has pushed at the place
//!    before, or from the turns of cells that it has looked at. The same is true of pops.
//! 3. So a thread that knows all places before to have been pushed, and finds that this place has
//!    not been, has found the end at the moment of that load. If the turn is that of the round
//!    before, the cell is full, and `capacity` elements are in the queue at that moment: the push
//!    is refused. A pop that finds the turn of its round's push finds an empty queue.
//! 4. A hint may be late, by any number of rounds: a thread may stop between its change and its
//!    store of the hint. It is never early. Turns say how late it is ([`Ring::search`]).
//!
//! A thread that stops anywhere keeps no other waiting: its change is one instruction, and either
//! was made or was not. Of the threads that fail to make a change, another one has made it:
//! lock-free.

use crate::dcas::Backoff;
use crate::heap::zeros;
use crate::sync::{AtomicU64, Ordering, Pair};

/// A hint, on cache lines of its own, for processors that fetch them in pairs.
#[repr(align(128))]
#[derive(Debug, Default)]
struct End(AtomicU64);

/// What a cell must be for a push, as the lowest bit of its turn.
const EMPTY: u64 = 0;
/// What it must be for a pop.
const FULL: u64 = 1;

#[derive(Debug)]
pub struct Ring {
    tail: End,
    head: End,
    /// On the cache lines behind the hints, which change all the time, and not among them.
    fixed: Fixed,
}

#[repr(align(128))]
#[derive(Debug)]
struct Fixed {
    cells: Box<[Pair]>,
    /// Of a place, the bits that are its index; rounds have the bits above.
    mask: u64,
}

impl Ring {
    /// An empty one of so many cells, one or more; `None` if there is no memory for them.
    ///
    /// # Safety
    ///
    /// The processor has a double-width compare-and-swap.
    pub unsafe fn new(capacity: usize) -> Option<Ring> {
        let fixed = Fixed {
            // Zeros: each cell is empty, for the push of round 0.
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

    /// Pushes a word; `false`: the queue is full.
    #[inline]
    pub fn push(&self, word: usize) -> bool {
        self.change::<EMPTY>(word as u64).is_some()
    }

    /// Pops a word; `None`: the queue is empty.
    #[inline]
    pub fn pop(&self) -> Option<usize> {
        self.change::<FULL>(0).map(|word| word as usize)
    }

    /// How many words are in the queue, at some moment in this call.
    pub fn len(&self) -> usize {
        loop {
            let head = self.end::<FULL>();
            let tail = self.end::<EMPTY>();
            // Not popped yet: this was the head all the time, and so when that was the tail.
            if !self.is_passed::<FULL>(head) {
                return (self.count(tail) - self.count(head)) as usize;
            }
        }
    }

    /// Replaces the word of the first cell that is as it must be by this one; `None`: it is not.
    #[inline(always)]
    fn change<const DUE: u64>(&self, word: u64) -> Option<u64> {
        // Acquire: pairs with the release of the thread that stored it: what it knows of turns is
        // known here.
        let place = self.hint::<DUE>().load(Ordering::Acquire);
        match self.try_change::<DUE>(place, word) {
            Tried::Changed(old) => Some(old),
            Tried::Refused => None,
            Tried::Passed => self.change_again::<DUE>(place, word),
        }
    }

    /// Goes on where other threads have changed the cell of that place.
    #[cold]
    #[inline(never)]
    fn change_again<const DUE: u64>(&self, mut place: u64, word: u64) -> Option<u64> {
        let mut backoff = Backoff::new();
        loop {
            backoff.spin();
            // Acquire: as in `change`. A hint that moves on shows others to be at it: a search
            // would meet them at once.
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

    /// One attempt at a place before which all have been passed.
    #[inline(always)]
    fn try_change<const DUE: u64>(&self, place: u64, word: u64) -> Tried {
        let due = self.due::<DUE>(place);
        let cell = self.cell(place);
        // SeqCst, which costs a load nothing: it is not before this thread's last exchange. Else of
        // two threads, one of which has pushed and is refused, while the other has popped and is
        // refused, neither might see what the other one did.
        let turn = cell.first().load(Ordering::SeqCst);
        if turn != due {
            return if turn < due {
                Tried::Refused
            } else {
                Tried::Passed
            };
        }
        // An empty cell's word is 0. Relaxed: if it is another turn's, the exchange fails.
        let old = match DUE {
            EMPTY => 0,
            _ => cell.second().load(Ordering::Relaxed),
        };
        // SAFETY: who made the ring has promised that there is the instruction.
        if !unsafe { cell.exchange((due, old), (self.after::<DUE>(due), word)) } {
            return Tried::Passed;
        }
        // Release: pairs with the acquire of threads that begin there.
        self.hint::<DUE>()
            .store(self.next(place), Ordering::Release);
        Tried::Changed(old)
    }

    /// The first place that had not been passed, at some moment in this call.
    fn end<const DUE: u64>(&self) -> u64 {
        let mut place = self.hint::<DUE>().load(Ordering::Acquire);
        while self.is_passed::<DUE>(place) {
            place = self.search::<DUE>(place);
        }
        place
    }

    /// From a place before which all have been passed, finds one that is as far as the hint at
    /// least, as all others, and behind those that turns show to have been passed. It looks at no
    /// more cells than twice the binary logarithm of the capacity, and two.
    fn search<const DUE: u64>(&self, place: u64) -> u64 {
        let mut place = place.max(self.hint::<DUE>().load(Ordering::Acquire));
        let turn = self.cell(place).first().load(Ordering::Acquire);
        if turn <= self.due::<DUE>(place) {
            return place;
        }
        // The last round in which this cell was passed. The end is less than a round behind.
        let round = (turn - 1 - DUE) & !self.fixed.mask;
        place = self.next(round | self.index(place));
        // Steps that double, and halve where that is too far: of the places so far on, all have
        // been passed.
        let (mut passed, mut limit, mut step) = (0, self.capacity() as u64, 1);
        while passed < limit {
            match self.is_passed::<DUE>(self.behind(place, passed + step - 1)) {
                true => passed += step,
                false => limit = passed + step - 1,
            }
            step = (2 * step).min((limit - passed).div_ceil(2));
        }
        self.behind(place, passed)
    }

    /// Has it been pushed, or popped, at this place? Then it has been at all places before.
    fn is_passed<const DUE: u64>(&self, place: u64) -> bool {
        // SeqCst: as in `try_change`.
        self.cell(place).first().load(Ordering::SeqCst) > self.due::<DUE>(place)
    }

    #[inline(always)]
    fn hint<const DUE: u64>(&self) -> &AtomicU64 {
        match DUE {
            EMPTY => &self.tail.0,
            _ => &self.head.0,
        }
    }

    /// The turn of a place's cell when it is its turn.
    #[inline(always)]
    fn due<const DUE: u64>(&self, place: u64) -> u64 {
        (place & !self.fixed.mask) + DUE
    }

    /// The turn after the one that was due.
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
        // SAFETY: the index of a place is below the capacity: 0 is, and so are those of `next` and
        // `behind`.
        unsafe { self.fixed.cells.get_unchecked(self.index(place) as usize) }
    }

    #[inline(always)]
    fn next(&self, place: u64) -> u64 {
        match self.index(place) + 1 < self.capacity() as u64 {
            true => place + 1,
            false => self.next_round(place),
        }
    }

    /// The place that is so many behind, at most as many as there are cells.
    fn behind(&self, place: u64, count: u64) -> u64 {
        match (self.index(place) + count).checked_sub(self.capacity() as u64) {
            None => place + count,
            Some(index) => self.next_round(place) + index,
        }
    }

    #[inline(always)]
    fn next_round(&self, place: u64) -> u64 {
        (place | self.fixed.mask) + 1
    }

    /// How many places there are before.
    fn count(&self, place: u64) -> u64 {
        let rounds = place >> self.fixed.mask.count_ones();
        rounds * self.capacity() as u64 + self.index(place)
    }
}

/// How an attempt ended.
enum Tried {
    /// The word is in the cell; the old one comes out.
    Changed(u64),
    /// The queue was full, or empty.
    Refused,
    /// Another thread has changed the cell.
    Passed,
}

#[cfg(test)]
mod tests;
