//! A critical section: plain changes to words that only one at a time may make.

use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::thread;

use crate::torture::harness::lane::Lane;
use crate::torture::harness::law::{Broken, Checked};
use crate::torture::harness::sabotage::Sabotage;
use crate::torture::targets::counter::equal;

/// What a lock guards: who is inside, and a number that is kept three times.
#[derive(Debug)]
pub struct Section {
    /// The lock's name, for the figures of a broken law.
    lock: &'static str,
    /// The number of the lane inside, from 1; 0 while nobody is.
    inside: AtomicUsize,
    /// How often somebody was inside. Loads and stores: only the lock makes additions of them.
    copies: [AtomicU64; 3],
}

impl Section {
    /// Nobody has been inside.
    pub fn new(lock: &'static str) -> Section {
        Section {
            lock,
            inside: AtomicUsize::new(0),
            copies: Default::default(),
        }
    }

    /// Under the lock: nobody is here, nobody comes, and nothing was left half done. Counted in the
    /// lane's sum.
    pub fn go_through(&self, lane: &mut Lane, sum: usize) -> Checked {
        let times = match () {
            () if lane.strikes(Sabotage::Lose) => 0,
            () if lane.strikes(Sabotage::Duplicate) => 2,
            () => 1,
        };
        lane.totals[sum] += 1;
        self.change(lane.number + 1, &mut lane.rng, times)
    }

    /// The same for somebody of that number.
    pub fn change(&self, me: usize, rng: &mut fastrand::Rng, times: u64) -> Checked {
        // Relaxed throughout: the lock is to order it all.
        let other = self.inside.load(Ordering::Relaxed);
        self.inside.store(me, Ordering::Relaxed);
        if other != 0 {
            return Err(self.broken("two were inside one lock", other, me));
        }
        let [first, second, third] = self
            .copies
            .each_ref()
            .map(|copy| copy.load(Ordering::Relaxed));
        if first != second || second != third {
            let law = Broken::new("what a lock guards was found half done");
            return Err(law
                .with(self.lock, first)
                .with("second", second)
                .with("third", third));
        }
        for copy in &self.copies {
            copy.store(first + times, Ordering::Relaxed);
            // Whoever is to come in has time.
            match rng.u32(..64) {
                0 => thread::yield_now(),
                1..8 => (0..rng.u32(..100)).for_each(|_| std::hint::spin_loop()),
                _ => {}
            }
        }
        let other = self.inside.load(Ordering::Relaxed);
        self.inside.store(0, Ordering::Relaxed);
        match other == me {
            true => Ok(()),
            false => Err(self.broken("somebody came into a lock that was held", other, me)),
        }
    }

    fn broken(&self, law: &'static str, other: usize, me: usize) -> Broken {
        // Lanes are numbered from 0, as in the report.
        let law = Broken::new(law).with(self.lock, other.saturating_sub(1) as u64);
        law.with("lane", me as u64 - 1)
    }

    /// How often it was entered, as counted inside, is what the lanes counted.
    pub fn settle(&self, lanes: &[Lane], sum: usize) -> Checked {
        self.settle_with(lanes.iter().map(|lane| lane.totals[sum]).sum())
    }

    /// The same with a sum.
    pub fn settle_with(&self, entered: u64) -> Checked {
        for copy in &self.copies {
            equal(
                "what was counted under a lock is not how often it was held",
                copy.load(Ordering::Relaxed),
                entered,
            )?;
        }
        Ok(())
    }
}
