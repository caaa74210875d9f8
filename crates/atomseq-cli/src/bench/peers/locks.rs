//! Locks, atomseq's and others', each around a tally. std's is used as it comes, poisoning
//! included, and so is parking_lot's: neither has a setting that is documented to make it faster.

use std::sync::PoisonError;

use lock_api::RawMutex;

use crate::bench::locking::{Exclusive, Tally};

/// parking_lot's and atomseq's own, whose guards are lock_api's.
impl<R: RawMutex> Exclusive for lock_api::Mutex<R, Tally> {
    #[inline(always)]
    fn with(&self, work: impl FnOnce(&Tally)) {
        work(&self.lock());
    }
}

impl Exclusive for std::sync::Mutex<Tally> {
    #[inline(always)]
    fn with(&self, work: impl FnOnce(&Tally)) {
        work(&self.lock().unwrap_or_else(PoisonError::into_inner));
    }
}
