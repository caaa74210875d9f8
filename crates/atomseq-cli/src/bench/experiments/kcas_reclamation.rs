//! `kcas-reclamation`: what it costs k-CAS to know which descriptors are free.

use atomseq::dcas::Bare;

use super::{Experiment, Method, Threads, Workload, cases};
use crate::bench::workloads::pair::{Counting, Pair};

/// The experiment.
pub const EXPERIMENT: Experiment = Experiment {
    name: "kcas-reclamation",
    about: "k-CAS of two words of one thread, whose descriptors are used again once they are free, or at once (always 1 thread)",
    cases: cases! {
        "reclaimed", "a thread takes a free descriptor of its block",
            |threads| Counting::boxed(threads, Bare::<true>::default());
        "unreclaimed",
            "a thread takes its next descriptor, free or not; correct for one thread only",
            |threads| Counting::boxed(threads, Bare::<false>::default());
    },
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
