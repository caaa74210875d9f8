//! Who has put what into a structure and taken what out.

use std::sync::atomic::{AtomicU64, Ordering};

/// A number of values and a sum that no other values are likely to have.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Tally {
    /// How many values.
    pub count: u64,
    /// The sum of their marks.
    pub marks: u64,
}

impl Tally {
    /// Counts a value.
    pub fn add(&mut self, value: u64) {
        self.count += 1;
        self.marks = self.marks.wrapping_add(mark(value));
    }

    /// Counts what another one counts.
    pub fn merge(&mut self, other: Tally) {
        self.count += other.count;
        self.marks = self.marks.wrapping_add(other.marks);
    }
}

/// What went into a structure and came out.
#[derive(Clone, Copy, Debug, Default)]
pub struct Books {
    /// What went in.
    pub gone_in: Tally,
    /// What came out.
    pub come_out: Tally,
}

impl Books {
    /// Counts what others count.
    pub fn merge(&mut self, other: &Books) {
        self.gone_in.merge(other.gone_in);
        self.come_out.merge(other.come_out);
    }

    /// Everything has come out, once.
    ///
    /// # Panics
    ///
    /// If not.
    pub fn balance(&self, what: &str) {
        let (gone_in, come_out) = (self.gone_in, self.come_out);
        assert_eq!(
            gone_in, come_out,
            "{what}: {} values went in and {} came out, or not the same ones",
            gone_in.count, come_out.count
        );
    }
}

/// Books that a signal handler keeps for its thread: nobody else writes to them.
#[derive(Debug, Default)]
pub struct HandlersBooks([AtomicU64; 4]);

impl HandlersBooks {
    /// Counts what a handler does.
    pub fn keep(&self, keep: impl FnOnce(&mut Books)) {
        let mut books = self.read();
        keep(&mut books);
        let Books { gone_in, come_out } = books;
        let words = [gone_in.count, gone_in.marks, come_out.count, come_out.marks];
        for (word, value) in self.0.iter().zip(words) {
            // Relaxed: read by its own thread, and by others once that has ended.
            word.store(value, Ordering::Relaxed);
        }
    }

    /// What they say.
    pub fn read(&self) -> Books {
        let [gone_in, gone_in_marks, come_out, come_out_marks] =
            [0, 1, 2, 3].map(|index: usize| self.0[index].load(Ordering::Relaxed));
        Books {
            gone_in: Tally {
                count: gone_in,
                marks: gone_in_marks,
            },
            come_out: Tally {
                count: come_out,
                marks: come_out_marks,
            },
        }
    }
}

/// A number that looks nothing like the value's neighbours' (the finalizer of SplitMix64).
pub fn mark(value: u64) -> u64 {
    let mixed = (value ^ value >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let mixed = (mixed ^ mixed >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
    mixed ^ mixed >> 31
}

#[cfg(test)]
mod tests {
    use super::*;

    fn books(gone_in: &[u64], come_out: &[u64]) -> Books {
        let mut books = Books::default();
        gone_in.iter().for_each(|value| books.gone_in.add(*value));
        come_out.iter().for_each(|value| books.come_out.add(*value));
        books
    }

    fn balances(gone_in: &[u64], come_out: &[u64]) -> bool {
        let books = books(gone_in, come_out);
        std::panic::catch_unwind(|| books.balance("this")).is_ok()
    }

    #[test]
    fn only_the_same_values_balance() {
        assert!(balances(&[1, 2, 3], &[3, 1, 2]));
        assert!(!balances(&[1, 2, 3], &[1, 2]), "lost");
        assert!(!balances(&[1, 2, 3], &[1, 2, 2, 3]), "doubled");
        assert!(!balances(&[1, 2, 3], &[1, 1, 3]), "lost and doubled");
        assert!(!balances(&[1, 2, 3], &[0, 2, 4]), "others of the same sum");
    }

    #[test]
    fn handlers_keep_books_too() {
        let handlers = HandlersBooks::default();
        handlers.keep(|books| books.gone_in.add(7));
        handlers.keep(|books| books.come_out.add(7));
        let mut all = books(&[1], &[1]);
        all.merge(&handlers.read());
        assert_eq!((all.gone_in.count, all.come_out.count), (2, 2));
        all.balance("all");
    }
}
