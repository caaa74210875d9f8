//! What is counted during a run, and whether the books balance: what came in on one side against
//! what is there on the other, counted by different means on purpose.

use super::passes::Outcome;

/// The books of a thread, or of several added up.
#[derive(Clone, Copy, Debug, Default)]
pub struct Books {
    /// How many times the handler was called.
    pub entries: u64,
    /// Of these, not for a tick: somebody else sent the signal.
    pub strangers: u64,
    /// Ticks that came while the one before had not been handled, as the kernel reports them.
    pub overruns: u64,
    /// Handler entries that found a sequence and made it start again.
    pub restarted: u64,
    /// Handler entries that found a sequence and ran it to its end first.
    pub rolled_forward: u64,
    /// Handler entries that found a sequence which could not be run to its end.
    pub left_alone: u64,
    /// Words and their bytes that handlers took.
    pub words: u64,
    pub bytes: u64,
    /// Nanoseconds from beginnings of the handler to its ends.
    pub inside: u64,
    /// Ticks by the clock.
    pub ticks: u64,
    /// Of these, after the handler's last entry.
    pub after_last: u64,
    /// How many timers there were.
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

/// Both sides of every account.
#[derive(Clone, Copy, Debug, Default)]
pub struct Accounts {
    /// Calls of the handler, as each thread's handler counted them.
    pub entries: u64,
    /// Samples in the table.
    pub recorded: u64,
    /// Samples that found no room in it.
    pub no_room: u64,
    /// Signals that were no tick of the thread's timer.
    pub strangers: u64,
    /// Words and bytes that threads counted themselves.
    pub counted: (u64, u64),
    /// Words and bytes that handlers took from them, and what no handler came for.
    pub taken: (u64, u64),
}

impl Accounts {
    /// `astray` signals came to threads that had no timer.
    pub fn new(outcome: &Outcome, recorded: u64, no_room: u64, astray: u64) -> Accounts {
        let (books, rest) = (&outcome.books, outcome.rest);
        Accounts {
            entries: books.entries + astray,
            recorded,
            no_room,
            strangers: books.strangers + astray,
            counted: (outcome.words, outcome.bytes),
            taken: (books.words + rest.0, books.bytes + rest.1),
        }
    }

    /// Handler entries whose sample was not recorded, for whatever reason.
    pub fn dropped(&self) -> u64 {
        self.no_room + self.strangers
    }

    /// A sentence for each account that does not balance.
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
        faults
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn whatever_is_missing_is_told() {
        let balanced = Accounts {
            entries: 10,
            recorded: 7,
            no_room: 2,
            strangers: 1,
            counted: (5, 50),
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
        ];
        for accounts in wrong {
            assert_eq!(accounts.faults().len(), 1, "{accounts:?}");
        }
    }
}
