//! `kcas-reclamation`: what it costs k-CAS to know which descriptors are free.

use atomseq::dcas::Bare;

use super::{Experiment, Method, Threads, Workload, case};
use crate::bench::workloads::pair::{Counting, Pair};

/// The experiment.
pub const EXPERIMENT: Experiment = Experiment {
    name: "kcas-reclamation",
    about: "k-CAS of two words that one thread has, with descriptors that are used again when they are free, or in any case",
    cases: &[
        case(
            "reclaimed",
            "a descriptor says when it is free; a block of them a thread",
            |threads| Counting::boxed(threads, Bare::<true>::default()),
        ),
        case(
            "unreclaimed",
            "the thread's next one, free or not; right for one thread only",
            |threads| Counting::boxed(threads, Bare::<false>::default()),
        ),
    ],
    peers: &[],
    method: Method::Placed {
        threads: 1,
        workloads: &[Workload::WHOLE],
    },
    threads: Threads::Alone,
    beside: None,
};

impl<const RECLAIMS: bool> Pair for Bare<RECLAIMS> {
    type Hand = ();

    fn hand(&self) {}

    #[inline(always)]
    fn add(&self, _hand: &mut (), amount: u64) {
        loop {
            let old = self.load();
            // SAFETY: without reclamation there is one thread, see `method`.
            if unsafe { self.exchange(old, old.map(|word| word + amount)) } {
                return;
            }
        }
    }

    fn both(&self) -> (u64, u64) {
        let [a, b] = self.load();
        (a, b)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::bench::engine::{GRAIN, Subject};

    #[test]
    fn one_thread_counts_with_both() {
        for subject in [
            &Counting::of(1, Bare::<true>::default()) as &dyn Subject,
            &Counting::of(1, Bare::<false>::default()),
        ] {
            subject.run(0, GRAIN);
            assert_eq!(subject.check(GRAIN), Ok(()));
            assert!(subject.check(GRAIN + 1).is_err());
        }
    }
}
