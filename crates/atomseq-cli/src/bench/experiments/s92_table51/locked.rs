//! The same objects in a lock: S92's way, signals masked and a spin lock, and without the mask (its
//! footnote 2).

use atomseq::mutex::SpinLock;

use super::{Attempts, Pair};
use crate::bench::experiments::signal_sequence::Shield;

/// An object without synchronization of its own, under a spin lock, behind a mask.
#[derive(Default)]
pub struct Locked<P, S> {
    lock: SpinLock<P>,
    shield: S,
}

impl<P: Pair + Send, S: Shield> Pair for Locked<P, S> {
    #[inline(always)]
    fn put(&self, value: u64) -> Attempts {
        let _masked = self.shield.mask();
        self.lock.lock().put(value)
    }

    #[inline(always)]
    fn take(&self) -> (u64, Attempts) {
        let _masked = self.shield.mask();
        self.lock.lock().take()
    }
}

/// No mask.
#[derive(Default)]
pub struct Open;

impl Shield for Open {
    type Guard = ();

    #[inline(always)]
    fn mask(&self) {}
}
