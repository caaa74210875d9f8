//! A critical section: changes to words that only one lane at a time may make; and the control, a
//! lock that does not exclude.

use std::sync::atomic::{AtomicU32, AtomicU64, AtomicUsize, Ordering};
use std::thread;

use atomseq::mutex::TestAndSet;
use atomseq::scope::Machine;

use crate::engine::Sabotage;
use crate::engine::invariant::{Checked, Violation, equal};
use crate::engine::lane::Lane;

/// What a lock guards: the number of the lane inside, and a count that is kept three times.
#[derive(Debug)]
pub struct Section {
    /// The lock's name, for the figures of a violation.
    lock: &'static str,
    /// The number of the lane inside, from 1; 0 while none is.
    inside: AtomicUsize,
    /// How often the section was entered. Changed by a load and a store, which only the lock makes
    /// an addition.
    copies: [AtomicU64; 3],
}

impl Section {
    /// Returns a section that was never entered.
    pub fn new(lock: &'static str) -> Section {
        Section {
            lock,
            inside: AtomicUsize::new(0),
            copies: Default::default(),
        }
    }

    /// Enters the section, under the lock, and counts that in the lane's sum.
    ///
    /// # Errors
    ///
    /// If another lane is inside, enters meanwhile, or has left a change incomplete.
    pub fn enter(&self, lane: &mut Lane, sum: usize) -> Checked {
        lane.totals[sum] += 1;
        let times = times(lane);
        self.change(lane.number + 1, times, || pause(&mut lane.rng))
    }

    /// Does the same without pauses, so that a signal is more likely to interrupt the lock's
    /// operation.
    ///
    /// # Errors
    ///
    /// As [`Section::enter`].
    #[inline(always)]
    pub fn enter_at_once(&self, lane: &mut Lane, sum: usize) -> Checked {
        lane.totals[sum] += 1;
        self.change(lane.number + 1, times(lane), || ())
    }

    /// Does the same as a lane of this number, which counts its acquisitions itself.
    ///
    /// # Errors
    ///
    /// As [`Section::enter`].
    pub fn enter_as(&self, me: usize, rng: &mut fastrand::Rng) -> Checked {
        self.change(me, 1, || pause(rng))
    }

    #[inline(always)]
    fn change(&self, me: usize, times: u64, mut pause: impl FnMut()) -> Checked {
        // Relaxed throughout: the lock must order it.
        let other = self.inside.load(Ordering::Relaxed);
        self.inside.store(me, Ordering::Relaxed);
        if other != 0 {
            return Err(self.violation("two lanes were inside one lock", other, me));
        }
        let [first, second, third] = self
            .copies
            .each_ref()
            .map(|copy| copy.load(Ordering::Relaxed));
        if first != second || second != third {
            let violation = Violation::new("a lane found the change of another incomplete");
            return Err(violation
                .with(self.lock, first)
                .with("second", second)
                .with("third", third));
        }
        for copy in &self.copies {
            copy.store(first + times, Ordering::Relaxed);
            pause();
        }
        let other = self.inside.load(Ordering::Relaxed);
        self.inside.store(0, Ordering::Relaxed);
        match other == me {
            true => Ok(()),
            false => Err(self.violation("a lane entered a lock that another held", other, me)),
        }
    }

    /// Looks at the section, under a lock that other lanes may hold at the same time to look.
    ///
    /// # Errors
    ///
    /// If a lane is inside, or changes anything meanwhile.
    pub fn look(&self, lane: &mut Lane) -> Checked {
        // Relaxed throughout: the lock must order it.
        let first = self.copies[0].load(Ordering::Relaxed);
        if lane.one_in(64) {
            pause(&mut lane.rng);
        }
        let last = self.copies[2].load(Ordering::Relaxed);
        let inside = self.inside.load(Ordering::Relaxed);
        if inside != 0 {
            let me = lane.number + 1;
            return Err(self.violation("a lane was inside a lock that others read", inside, me));
        }
        equal("a count that is read under a lock changed", last, first)
    }

    fn violation(&self, what: &'static str, other: usize, me: usize) -> Violation {
        // The report numbers lanes from 0.
        let violation = Violation::new(what).with(self.lock, other.saturating_sub(1) as u64);
        violation.with("lane", me as u64 - 1)
    }

    /// Checks that the section was entered as often as the lanes counted.
    pub fn check_final(&self, lanes: &[Lane], sum: usize) -> Checked {
        self.check_final_count(lanes.iter().map(|lane| lane.totals[sum]).sum())
    }

    /// Checks that the section was entered so often.
    pub fn check_final_count(&self, entered: u64) -> Checked {
        for copy in &self.copies {
            equal(
                "the count under a lock is not how often it was held",
                copy.load(Ordering::Relaxed),
                entered,
            )?;
        }
        Ok(())
    }
}

/// How often an acquisition counts: not once only if a fault is injected.
#[inline(always)]
fn times(lane: &mut Lane) -> u64 {
    match () {
        () if lane.inject(Sabotage::Lose) => 0,
        () if lane.inject(Sabotage::Duplicate) => 2,
        () => 1,
    }
}

/// Gives another lane time to enter.
fn pause(rng: &mut fastrand::Rng) {
    match rng.u32(..64) {
        0 => thread::yield_now(),
        1..8 => (0..rng.u32(..100)).for_each(|_| std::hint::spin_loop()),
        _ => {}
    }
}

/// A lock without protection, the control that each check must detect: it loads, then stores, and
/// another thread can set it in between.
#[derive(Debug)]
pub struct Unprotected(AtomicU32);

// SAFETY: it does not exclude, which must be detected. It guards only atomic words, so that only
// numbers are wrong.
unsafe impl TestAndSet for Unprotected {
    type Scope = Machine;
    type GuardMarker = lock_api::GuardSend;
    const NAME: &'static str = "unprotected";
    const CLEAR: Unprotected = Unprotected(AtomicU32::new(0));

    fn test_and_set(&self) -> bool {
        let was_clear = !self.is_set();
        // Lets other threads and handlers in even on one CPU, and at least as long as a cache miss.
        if was_clear {
            match fastrand::u8(..64) {
                0 => thread::yield_now(),
                _ => (0..20).for_each(|_| std::hint::spin_loop()),
            }
        }
        // Relaxed: it excludes nothing, so there is nothing to order.
        self.0.store(1, Ordering::Relaxed);
        was_clear
    }

    unsafe fn clear(&self) {
        self.0.store(0, Ordering::Release);
    }

    fn is_set(&self) -> bool {
        self.0.load(Ordering::Acquire) != 0
    }

    unsafe fn clear_then_look(&self) {
        self.0.swap(0, Ordering::SeqCst);
    }

    fn waiter_barrier(&self) {}
}
