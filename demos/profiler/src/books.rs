//! The counters of a run, and the check that they balance. Both sides of each account are counted
//! by different means on purpose.

use super::passes::Outcome;

/// The counters of one thread, or the sums for several.
#[derive(Clone, Copy, Debug, Default)]
pub struct Books {
    /// How many times the handler was called.
    pub entries: u64,
    /// Entries that were not for a tick: the signal came from elsewhere.
    pub strangers: u64,
    /// Ticks that expired while an earlier one was pending, as the kernel reports them.
    pub overruns: u64,
    /// Handler entries that interrupted a sequence and restarted it.
    pub restarted: u64,
    /// Handler entries that interrupted a sequence and rolled it forward.
    pub rolled_forward: u64,
    /// Handler entries that interrupted a sequence which could not be rolled forward.
    pub left_alone: u64,
    /// Words and their bytes that handlers took over from their threads.
    pub words: u64,
    pub bytes: u64,
    /// Nanoseconds spent in the handler, from its first line to its last.
    pub inside: u64,
    /// Ticks that must have expired, computed from the clock.
    pub ticks: u64,
    /// The ticks after the last handler entry.
    pub after_last: u64,
    /// The number of timers.
    pub timers: u64,
}

impl std::ops::AddAssign for Books {
    fn add_assign(&mut self, other: Books) {
        self.entries += other.entries;
        self.strangers += other.strangers;
        self.overruns += other.overruns;
        self.restarted += other.restarted;
        self.rolled_forward += other.rolled_forward;
        self.left_alone += other.left_alone;
        self.words += other.words;
        self.bytes += other.bytes;
        self.inside += other.inside;
        self.ticks += other.ticks;
        self.after_last += other.after_last;
        self.timers += other.timers;
    }
}

/// The two sides of every account.
#[derive(Clone, Copy, Debug, Default)]
pub struct Accounts {
    /// Handler entries, as each thread's handler counted them.
    pub entries: u64,
    /// Samples in the table.
    pub recorded: u64,
    /// Samples for which the table had no room.
    pub no_room: u64,
    /// Signals that were not a tick of the thread's timer.
    pub strangers: u64,
    /// Words and bytes as the threads counted them.
    pub counted: (u64, u64),
    /// Words in the per-CPU tables of all passes.
    pub in_tables: u64,
    /// Words and bytes that the handlers took, plus the rest that remained after the last tick.
    pub taken: (u64, u64),
}

impl Accounts {
    /// Returns the accounts of a run. `astray` signals reached threads without a timer.
    pub fn new(outcome: &Outcome, recorded: u64, no_room: u64, astray: u64) -> Accounts {
        let (books, rest) = (&outcome.books, outcome.rest);
        Accounts {
            entries: books.entries + astray,
            recorded,
            no_room,
            strangers: books.strangers + astray,
            counted: (outcome.words, outcome.bytes),
            in_tables: outcome.in_tables,
            taken: (books.words + rest.0, books.bytes + rest.1),
        }
    }

    /// Returns the number of handler entries whose sample was not recorded, for any reason.
    pub fn dropped(&self) -> u64 {
        self.no_room + self.strangers
    }

    /// Returns a sentence for each account that does not balance.
    pub fn faults(&self) -> Vec<String> {
        let mut faults = Vec::new();
        if self.entries != self.recorded + self.dropped() {
            faults.push(format!(
                "the handlers were entered {} times, but {} samples were recorded and {} dropped",
                self.entries,
                self.recorded,
                self.dropped()
            ));
        }
        if self.counted != self.taken {
            faults.push(format!(
                "the threads counted {} words of {} bytes, but {} words of {} bytes were taken",
                self.counted.0, self.counted.1, self.taken.0, self.taken.1
            ));
        }
        if self.counted.0 != self.in_tables {
            faults.push(format!(
                "the threads counted {} words, but the per-CPU tables contain {}",
                self.counted.0, self.in_tables
            ));
        }
        faults
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_missing_item_is_reported() {
        let balanced = Accounts {
            entries: 10,
            recorded: 7,
            no_room: 2,
            strangers: 1,
            counted: (5, 50),
            in_tables: 5,
            taken: (5, 50),
        };
        assert!(balanced.faults().is_empty());
        let wrong = [
            Accounts {
                recorded: 6,
                ..balanced
            },
            Accounts {
                recorded: 8,
                ..balanced
            },
            Accounts {
                no_room: 1,
                ..balanced
            },
            Accounts {
                strangers: 0,
                ..balanced
            },
            Accounts {
                entries: 11,
                ..balanced
            },
            Accounts {
                taken: (4, 50),
                ..balanced
            },
            Accounts {
                taken: (5, 49),
                ..balanced
            },
            Accounts {
                in_tables: 4,
                ..balanced
            },
        ];
        for accounts in wrong {
            assert_eq!(accounts.faults().len(), 1, "{accounts:?}");
        }
    }
}
