//! The crate mwcas (0.2.0), after Wang, Levandoski and Larson (2018): each operation allocates a
//! descriptor, which epochs free. Its words are numbers in place, which it calls the form without
//! allocation, and a guard is pinned for each operation, as its documentation does.

use crossbeam_utils::CachePadded;
use mwcas::{MwCas, U64Pointer};

use crate::bench::workloads::pair::Pair;

/// Two words.
pub struct CrateMwcas([CachePadded<U64Pointer>; 2]);

impl Default for CrateMwcas {
    fn default() -> Self {
        Self([0, 0].map(|word| CachePadded::new(U64Pointer::new(word))))
    }
}

impl Pair for CrateMwcas {
    type Hand = ();

    fn hand(&self) {}

    #[inline(always)]
    fn add(&self, _hand: &mut (), amount: u64) {
        let [first, second] = &self.0;
        loop {
            let guard = crossbeam_epoch::pin();
            let (a, b) = (first.read(&guard), second.read(&guard));
            let mut change = MwCas::new();
            change.compare_exchange_u64(first, a, a + amount);
            change.compare_exchange_u64(second, b, b + amount);
            if change.exec(&guard) {
                return;
            }
        }
    }

    fn both(&self) -> (u64, u64) {
        let guard = crossbeam_epoch::pin();
        (self.0[0].read(&guard), self.0[1].read(&guard))
    }
}
