//! Growing a shared structure: one thread at a time maps memory for it.
//!
//! Threads that find a structure exhausted at the same time could each map the missing part, and
//! all but one would discard theirs. Near a limit the system refuses such copies. A thread would
//! then report that there is no memory although another thread has it and is about to publish it.
//! Each thread therefore takes a turn before it maps, and the others wait for what it publishes.
//!
//! ```text
//! word:  | generation of the process 16 | thread 24 | turns 22 | overtaken 1 | growing 1 |
//!
//!        free ──A maps──> A's turn ──A has published it, or was refused──> free
//!                         A's turn ──A is stopped or has exited; B has waited──> B's turn
//! ```
//!
//! The word is a hint. An exchange or a lock in the structure itself decides what is published, so
//! taking over a turn costs only one extra copy. No thread therefore waits for another without a
//! bound. The generation shows a child of a fork that the turn belongs to no thread of its own. The
//! thread bits show a handler that it has interrupted the thread whose turn it is.
//!
//! A caller that has another way does not wait: it leaves the turn of another thread alone. That
//! thread may have exited, and there may be no callers that wait. So one that finds a turn which
//! thousands of such callers have found takes it over.

use crate::sync::{
    AtomicU32, AtomicU64, Ordering, Patience, SPINS, generation, pause, spin_loop, this_thread,
};

/// Set while a thread has the turn.
const GROWING: u64 = 1;
/// Set after a turn was taken over: the overtaken thread may still hold the memory.
const OVERTAKEN: u64 = 2;
const ONE_TURN: u64 = 4;
const TURNS: u64 = (1 << 24) - ONE_TURN;
const THREAD: u64 = ((1 << 24) - 1) << 24;
const GENERATION: u64 = u64::MAX << 48;

/// The number of rounds that a thread waits for the end of a turn before it takes it over. It spins
/// in the first rounds, and yields the processor in the later ones.
const ROUNDS: u32 = 128;

/// The number of callers that do not wait and leave a turn alone, before one takes it over.
const REFUSALS: u32 = 10_000;

/// How many milliseconds a refused thread waits when another thread may hold the last memory.
const MILLISECONDS: u32 = 100;

/// The turn to grow one structure.
#[derive(Debug)]
pub(crate) struct Growth {
    turn: AtomicU64,
    /// How many callers that do not wait have left the turn alone.
    refusals: AtomicU32,
}

/// Returns the bits that identify this thread and process in a word.
fn this_threads() -> u64 {
    // A collision with another thread's hash is harmless: it costs one extra copy.
    let thread = this_thread().wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 16;
    u64::from(generation()) << 48 | thread & THREAD
}

/// Returns the bit of overtaken threads for a turn that follows this word.
fn overtaken(seen: u64, me: u64, is_taken: bool) -> u64 {
    match (is_taken, seen & GENERATION == me & GENERATION) {
        (true, _) => OVERTAKEN,
        (false, true) => seen & OVERTAKEN,
        (false, false) => 0,
    }
}

impl Growth {
    pub const fn new() -> Growth {
        Growth::at(0)
    }

    const fn at(turn: u64) -> Growth {
        Growth {
            turn: AtomicU64::new(turn),
            refusals: AtomicU32::new(0),
        }
    }

    /// Returns what `find` finds, or if that is nothing, what `grow` has published. `None`: the
    /// system refused memory, and no other thread may hold it, or such a thread was delayed beyond
    /// the waiting time.
    ///
    /// Lock-free if `find` and `grow` are: a turn ends when the call returns, or is taken over.
    pub fn find_or_grow<T>(
        &self,
        mut find: impl FnMut() -> Option<T>,
        mut grow: impl FnMut() -> Option<T>,
    ) -> Option<T> {
        let me = this_threads();
        let (mut last, mut rounds) = (0, 0);
        loop {
            if let Some(found) = find() {
                return Some(found);
            }
            // Acquire: pairs with the Release at the end of the previous turn, so `find` sees what
            // that turn published.
            let seen = self.turn.load(Ordering::Acquire);
            let is_taken = seen & GROWING != 0 && seen & GENERATION == me & GENERATION;
            if is_taken && seen & THREAD == me & THREAD {
                // This is a handler that interrupted its own thread's turn, or the thread left the
                // turn by a jump. It does not wait for its own turn, but does wait for a thread
                // that took it over.
                let found = grow().or_else(&mut find);
                // Relaxed: a hint.
                let is_own = self.turn.load(Ordering::Relaxed) == seen;
                return found.or_else(|| (!is_own).then(|| self.wait_longer(find))?);
            }
            if seen != last {
                (last, rounds) = (seen, 0);
            }
            if is_taken && rounds < ROUNDS {
                pause(rounds);
                rounds += 1;
                continue;
            }
            let overtaken = overtaken(seen, me, is_taken);
            let Some(mine) = self.begin(seen, me, overtaken) else {
                continue;
            };
            let grown = find().or_else(&mut grow);
            let has_ended = self.end(mine);
            if grown.is_some() {
                return grown;
            }
            if has_ended && overtaken == 0 {
                // No other thread may hold the memory, but a handler may have published it.
                return find();
            }
            return self.wait_longer(find);
        }
    }

    /// Returns what `find` finds, or if that is nothing, what `grow` has published. Spins briefly
    /// while another thread has the turn, and does not wait for it any longer. `None`: it has the
    /// turn, or the system refused memory.
    ///
    /// A turn that its thread never ends is taken over after [`REFUSALS`] calls.
    pub fn find_or_grow_at_once<T>(
        &self,
        mut find: impl FnMut() -> Option<T>,
        grow: impl FnOnce() -> Option<T>,
    ) -> Option<T> {
        if let Some(found) = find() {
            return Some(found);
        }
        let me = this_threads();
        let is_taken = |seen| seen & GROWING != 0 && seen & GENERATION == me & GENERATION;
        // Acquire, here and below: as in `find_or_grow`.
        let mut seen = self.turn.load(Ordering::Acquire);
        // Relaxed, here and below: the count orders nothing. Once a caller has spun in vain, the
        // turn is a long one.
        let spins = match self.refusals.load(Ordering::Relaxed) {
            0 => SPINS,
            _ => 0,
        };
        for _ in 0..spins {
            if !is_taken(seen) || seen & THREAD == me & THREAD {
                break;
            }
            spin_loop();
            seen = self.turn.load(Ordering::Acquire);
        }
        if is_taken(seen) && seen & THREAD == me & THREAD {
            // A handler that interrupted its own thread's turn grows beside it.
            return grow();
        }
        let is_left_alone =
            is_taken(seen) && self.refusals.fetch_add(1, Ordering::Relaxed) < REFUSALS;
        let begun = match is_left_alone {
            true => None,
            false => self.begin(seen, me, overtaken(seen, me, is_taken(seen))),
        };
        match begun {
            Some(mine) => {
                let grown = find().or_else(grow);
                self.end(mine);
                grown
            }
            None => find(),
        }
    }

    /// Starts a turn of this thread. `None` if the word has changed.
    fn begin(&self, seen: u64, me: u64, overtaken: u64) -> Option<u64> {
        let mine = me | (seen.wrapping_add(ONE_TURN) & TURNS) | overtaken | GROWING;
        // Acquire: pairs with the Release at the end of the previous turn. Relaxed: after a failure
        // the word is loaded again.
        let (success, failure) = (Ordering::Acquire, Ordering::Relaxed);
        let begun = self.turn.compare_exchange(seen, mine, success, failure);
        begun.is_ok().then(|| {
            // Relaxed: a hint.
            self.refusals.store(0, Ordering::Relaxed);
            mine
        })
    }

    /// Ends a turn of this thread. Returns `false` if it was taken over.
    fn end(&self, mine: u64) -> bool {
        // Release: pairs with the Acquire loads of later turns. Relaxed: a failure only shows that
        // the turn was taken over.
        let (success, failure) = (Ordering::Release, Ordering::Relaxed);
        let ended = self
            .turn
            .compare_exchange(mine, mine - GROWING, success, failure);
        ended.is_ok()
    }

    /// Waits for what another thread may have mapped but not yet published.
    #[cold]
    fn wait_longer<T>(&self, mut find: impl FnMut() -> Option<T>) -> Option<T> {
        let never_woken = AtomicU32::new(0);
        let mut patience = Patience::new(MILLISECONDS);
        loop {
            if let Some(found) = find() {
                return Some(found);
            }
            if !patience.sleep(&never_woken, 0) {
                break;
            }
        }
        // The overtaken thread had its time: later refusals do not wait for it. Relaxed: a hint.
        let seen = self.turn.load(Ordering::Relaxed);
        if seen & (OVERTAKEN | GROWING) == OVERTAKEN {
            let (success, failure) = (Ordering::Relaxed, Ordering::Relaxed);
            _ = self
                .turn
                .compare_exchange(seen, seen - OVERTAKEN, success, failure);
        }
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sync::MIN_SLEEPS;
    use std::cell::Cell;

    /// Returns the word of a thread that has the turn.
    fn turn_of(thread: u64, generation: u64) -> Growth {
        Growth::at(generation << 48 | thread << 24 | GROWING)
    }

    fn another_threads() -> Growth {
        let own = (this_threads() & THREAD) >> 24;
        turn_of(own ^ 1, generation().into())
    }

    fn is_free(growth: &Growth) -> bool {
        growth.turn.load(Ordering::Relaxed) & GROWING == 0
    }

    /// Returns a search that succeeds at the given look, counted from 1.
    fn found_at(look: u32) -> impl FnMut() -> Option<u32> {
        let mut looks = 0;
        move || {
            looks += 1;
            (looks >= look).then_some(looks)
        }
    }

    const NEVER: u32 = u32::MAX;

    #[test]
    fn what_another_thread_publishes_in_its_turn_is_waited_for() {
        for look in [2, 3, ROUNDS, ROUNDS + 1] {
            let growth = another_threads();
            let found = growth.find_or_grow(found_at(look), || panic!("a second copy"));
            assert_eq!(found, Some(look));
            assert!(!is_free(&growth), "its turn is not this thread's to end");
        }
    }

    #[test]
    fn a_turn_is_taken_over_after_a_while() {
        let growth = another_threads();
        let looks = Cell::new(0);
        let mut none = found_at(NEVER);
        let look = || {
            looks.set(looks.get() + 1);
            none()
        };
        assert_eq!(growth.find_or_grow(look, || Some(7)), Some(7));
        // One look before each round, one before taking the turn over, and one after that.
        assert_eq!(looks.get(), ROUNDS + 2);
        assert!(is_free(&growth));
    }

    /// The count of rounds restarts with each turn: here another thread regularly starts a new one.
    #[test]
    fn as_long_as_turns_change_none_is_taken_over() {
        let growth = another_threads();
        let looks = Cell::new(0_u32);
        let look = || {
            looks.set(looks.get() + 1);
            if looks.get().is_multiple_of(ROUNDS) {
                growth.turn.fetch_add(ONE_TURN, Ordering::Relaxed);
            }
            (looks.get() > 10 * ROUNDS).then_some(7)
        };
        let found = growth.find_or_grow(look, || panic!("a second copy"));
        assert_eq!(found, Some(7));
    }

    /// A thread is refused because another one has the last memory and publishes it. The other is a
    /// handler of its own, or a thread that took the turn over and is still in it or has ended it.
    #[test]
    fn a_refused_thread_finds_what_was_published_meanwhile() {
        let others = another_threads().turn.into_inner();
        let words = [None, Some(others), Some(others - GROWING)];
        for word in words {
            let growth = Growth::new();
            let is_published = Cell::new(false);
            let found = growth.find_or_grow(
                || is_published.get().then_some(7),
                || {
                    if let Some(word) = word {
                        growth.turn.store(word, Ordering::Relaxed);
                    }
                    is_published.set(true);
                    None
                },
            );
            assert_eq!(found, Some(7));
        }
    }

    #[test]
    #[cfg_attr(miri, ignore = "takes long to interpret")]
    fn a_refused_thread_that_has_taken_a_turn_over_waits_longer() {
        let taken_over = another_threads();
        let lost = Growth::new();
        // Its thread left the turn by a jump.
        let left = turn_of((this_threads() & THREAD) >> 24, generation().into());
        // One look before the turn, one in it, one before the wait, and one after each sleep. This
        // number of sleeps takes place however late they end.
        let look = 3 + MIN_SLEEPS;
        for (growth, look) in [(&taken_over, ROUNDS + look), (&lost, look), (&left, look)] {
            let found = growth.find_or_grow(found_at(look), || {
                if !std::ptr::eq(growth, &taken_over) {
                    let others = another_threads().turn.into_inner();
                    growth.turn.store(others, Ordering::Relaxed);
                }
                None
            });
            assert_eq!(found, Some(look));
        }
        // The wait has a bound.
        assert_eq!(
            another_threads().find_or_grow(found_at(NEVER), || None),
            None
        );
    }

    /// It would otherwise wait for the thread that it has interrupted.
    #[test]
    fn a_handler_that_interrupts_a_turn_waits_for_nothing() {
        let growth = Growth::new();
        let nested = Cell::new(None);
        let grown = growth.find_or_grow(found_at(NEVER), || {
            let looks = found_at(3);
            nested.set(growth.find_or_grow(looks, || None));
            assert_eq!(growth.find_or_grow(found_at(NEVER), || Some(1)), Some(1));
            assert!(!is_free(&growth), "the turn goes on");
            Some(2)
        });
        assert_eq!((grown, nested.get()), (Some(2), None));
        assert!(is_free(&growth));
    }

    #[test]
    fn a_child_of_a_fork_does_not_wait_for_threads_of_its_parent() {
        let thread = (this_threads() & THREAD) >> 24;
        for thread in [thread, thread ^ 1] {
            let growth = turn_of(thread, u64::from(generation()) + 1);
            assert_eq!(growth.find_or_grow(found_at(3), || Some(7)), Some(7));
            assert!(is_free(&growth));
        }
    }

    /// A caller that has another way waits for no turn, nor for what a turn may have published.
    #[test]
    fn without_waiting_another_threads_turn_is_left_alone() {
        let growth = another_threads();
        let before = growth.turn.load(Ordering::Relaxed);
        let refused = || panic!("a second copy");
        // One look at first, and one after the spins.
        assert_eq!(growth.find_or_grow_at_once(found_at(3), refused), None);
        assert_eq!(growth.find_or_grow_at_once(found_at(2), refused), Some(2));
        assert_eq!(growth.turn.load(Ordering::Relaxed), before);

        let looks = Cell::new(0);
        let look = || {
            looks.set(looks.get() + 1);
            None::<u32>
        };
        let overtaken = Growth::at((before - GROWING) | OVERTAKEN);
        for growth in [Growth::new(), overtaken] {
            looks.set(0);
            assert_eq!(growth.find_or_grow_at_once(look, || None), None);
            // One look before the turn, and one in it.
            assert_eq!(looks.get(), 2);
            assert!(is_free(&growth));
            assert_eq!(growth.find_or_grow_at_once(look, || Some(7)), Some(7));
            assert!(is_free(&growth));
        }

        // A handler, and a child of a fork.
        let thread = (this_threads() & THREAD) >> 24;
        for growth in [
            turn_of(thread, generation().into()),
            turn_of(thread ^ 1, u64::from(generation()) + 1),
        ] {
            assert_eq!(growth.find_or_grow_at_once(look, || Some(7)), Some(7));
        }
    }

    /// Its thread may have exited, and all callers may have another way.
    #[test]
    fn without_waiting_another_threads_turn_is_taken_over_after_many_calls() {
        let growth = another_threads();
        let taken = growth.turn.load(Ordering::Relaxed);
        let mut calls = (0..).map(|_| growth.find_or_grow_at_once(found_at(NEVER), || Some(7)));
        let refused = calls.position(|found| found == Some(7));
        assert_eq!(refused, Some(REFUSALS as usize));
        assert!(is_free(&growth));
        assert_eq!(growth.refusals.load(Ordering::Relaxed), 0);
        // Its thread goes on after all, and ends no turn but its own.
        assert!(!growth.end(taken));
        let word = growth.turn.load(Ordering::Relaxed);
        assert_eq!(word & (OVERTAKEN | GROWING), OVERTAKEN);
    }

    #[test]
    fn threads_are_told_apart() {
        let own = this_thread();
        assert_eq!(this_thread(), own);
        std::thread::scope(|scope| {
            let other = scope.spawn(this_thread).join().unwrap();
            assert_ne!(other, own);
        });
    }
}
