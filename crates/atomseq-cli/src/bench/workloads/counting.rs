//! The workload of counters: a thread adds one, again and again. In the end the sum must be exact.

use std::hint::black_box;

use crate::bench::engine::Subject;
use crate::bench::fault::Fault;

/// Something that counts.
pub trait Count: Sync {
    /// Adds to the count.
    fn add(&self, amount: u64);

    /// Called by a thread at the end of a run, for counts that only their thread can read before.
    fn hand_in(&self) {}

    /// The whole count.
    fn sum(&self) -> u64;
}

/// Something that all threads add to.
pub struct Counting<C>(pub C);

impl<C: Count> Subject for Counting<C> {
    fn run(&self, _thread: usize, operations: u64) {
        for _ in 0..operations {
            self.0.add(black_box(1));
        }
        self.0.hand_in();
    }

    fn check(&self, operations: u64) -> Result<(), Fault> {
        let sum = self.0.sum();
        if sum == operations {
            return Ok(());
        }
        let sentence = format!("it counted {sum} where {operations} were added");
        Err(Fault::count(operations, [sum], sentence))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::bench::engine::GRAIN;
    use crate::bench::peers::counts::{Interlocked, ThreadLocal};

    /// Forgets what does not fit.
    #[derive(Default)]
    struct Forgetful(Interlocked);

    impl Count for Forgetful {
        fn add(&self, amount: u64) {
            if self.0.sum() < 5 {
                self.0.add(amount);
            }
        }

        fn sum(&self) -> u64 {
            self.0.sum()
        }
    }

    fn judge(count: impl Count) -> Result<(), String> {
        let counting = Counting(count);
        counting.run(0, GRAIN);
        counting.check(GRAIN).map_err(|fault| fault.sentence)
    }

    #[test]
    fn the_check_tells_a_whole_count_from_a_forgetful_one() {
        assert_eq!(judge(Interlocked::default()), Ok(()));
        assert_eq!(judge(ThreadLocal::default()), Ok(()));
        let fault = judge(Forgetful::default()).unwrap_err();
        assert_eq!(fault, "it counted 5 where 64 were added");
    }
}
