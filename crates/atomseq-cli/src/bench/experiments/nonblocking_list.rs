//! `nonblocking-list`: keys that come and go, and are looked for.

use std::collections::BTreeMap;

use atomseq::dcas::Mechanism;
use atomseq::nonblocking::List;
use crossbeam_skiplist::SkipMap;

use super::{Experiment, Method, Threads, cases};
use crate::bench::peers::harris_michael::HarrisMichael;
use crate::bench::peers::mutexed::Mutexed;
use crate::bench::workloads::ordered::{Coming, Ordered};

/// The experiment.
pub const EXPERIMENT: Experiment = Experiment {
    name: "nonblocking-list",
    about: "removing a key, inserting it again and looking for another, in an ordered list of 16 keys a thread",
    cases: cases! {
        "atomseq", "nonblocking::List, by the mechanism of this process",
            |threads| Coming::boxed(threads, List::new());
        "atomseq-kcas", "nonblocking::List by k-CAS, which is portable",
            |threads| Coming::boxed(threads, List::forced(Mechanism::Kcas));
        "harris-michael", "Harris's and Michael's list, compare-and-swap of one word",
            |threads| Coming::boxed(threads, HarrisMichael::new());
        "crossbeam-skip", "crossbeam_skiplist::SkipMap",
            |threads| Coming::boxed(threads, SkipMap::new());
        "mutex", "std::sync::Mutex<BTreeMap>",
            |threads| Coming::boxed(threads, Mutexed::<BTreeMap<u64, u64>>::default());
    },
    peers: &["harris-michael", "crossbeam-skip", "mutex"],
    method: Method::Timed,
    threads: Threads::Crowded,
    beside: None,
};

// Nothing here removes entries for change, which is all that could be in the way.
impl Ordered for List<u64, u64> {
    #[inline(always)]
    fn insert(&self, key: u64, value: u64) -> bool {
        self.try_insert(key, value).is_ok()
    }

    #[inline(always)]
    fn remove(&self, key: u64) -> Option<u64> {
        Self::remove(self, &key).ok().flatten()
    }

    #[inline(always)]
    fn get(&self, key: u64) -> Option<u64> {
        Self::get(self, &key).ok().flatten()
    }
}

#[cfg(test)]
mod tests {
    use super::super::all_is_accounted_for;
    use super::*;

    #[test]
    fn every_list_keeps_every_key() {
        all_is_accounted_for(&EXPERIMENT, |_| true);
    }
}
