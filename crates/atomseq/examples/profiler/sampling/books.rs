//! Do the books balance? What came in on one side against what is there on the other, counted by different
//! means on purpose.

use super::passes::Outcome;

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
