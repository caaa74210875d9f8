//! The values that went in and came out, as sums that are independent of order only.

use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};

/// The totals of one side, the thread or the handler, which alone writes them.
#[derive(Debug, Default)]
pub struct Ledger {
    count: AtomicU64,
    sum: AtomicU64,
    mixed: AtomicU64,
}

/// The number of values, their sum, and the sum of a hash of each.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Totals([u64; 3]);

impl Ledger {
    /// Returns empty totals.
    pub const fn new() -> Ledger {
        Ledger {
            count: AtomicU64::new(0),
            sum: AtomicU64::new(0),
            mixed: AtomicU64::new(0),
        }
    }

    /// Adds a value.
    pub fn enter(&self, value: u64) {
        let hash = (value ^ value >> 31)
            .wrapping_add(1)
            .wrapping_mul(0x9E37_79B9_7F4A_7C15);
        for (total, amount) in [(&self.count, 1), (&self.sum, value), (&self.mixed, hash)] {
            // Relaxed: a single writer; read when that has finished.
            let now = total.load(Ordering::Relaxed);
            total.store(now.wrapping_add(amount), Ordering::Relaxed);
        }
    }

    /// Returns the totals of the values added.
    pub fn totals(&self) -> Totals {
        Totals([&self.count, &self.sum, &self.mixed].map(|total| total.load(Ordering::Relaxed)))
    }
}

impl Totals {
    /// Returns the sum of the values.
    pub fn sum(self) -> u64 {
        self.0[1]
    }
}

impl std::ops::Add for Totals {
    type Output = Totals;

    fn add(self, other: Totals) -> Totals {
        Totals(std::array::from_fn(|index| {
            self.0[index].wrapping_add(other.0[index])
        }))
    }
}

/// One side's random numbers (xorshift), and the numbers that it assigns to its elements.
#[derive(Debug)]
pub struct Side {
    random: AtomicUsize,
    next: AtomicUsize,
    /// What it has put in.
    pub put: Ledger,
    /// What it has taken out.
    pub taken: Ledger,
    /// The last number that it took out, of each side's.
    last: [AtomicUsize; 2],
}

impl Side {
    /// The thread uses even numbers, the handler odd ones.
    pub const fn new(first: usize) -> Side {
        Side {
            random: AtomicUsize::new(0x9E37_79B9 + first),
            next: AtomicUsize::new(first),
            put: Ledger::new(),
            taken: Ledger::new(),
            last: [AtomicUsize::new(0), AtomicUsize::new(0)],
        }
    }

    /// Returns a random number below a bound.
    pub fn random(&self, below: usize) -> usize {
        let mut state = self.random.load(Ordering::Relaxed) as u32;
        state ^= state << 13;
        state ^= state >> 17;
        state ^= state << 5;
        self.random.store(state as usize, Ordering::Relaxed);
        state as usize % below
    }

    /// Returns a number that was not used before.
    pub fn next(&self) -> usize {
        let now = self.next.load(Ordering::Relaxed);
        self.next.store(now + 2, Ordering::Relaxed);
        now
    }

    /// Records a number that was taken out; returns whether it was put in after the last one taken
    /// of the same side.
    pub fn take(&self, number: usize) -> bool {
        self.taken.enter(number as u64);
        let last = &self.last[number % 2];
        let is_later = number >= 2 && last.load(Ordering::Relaxed) < number;
        last.store(number, Ordering::Relaxed);
        is_later
    }
}
