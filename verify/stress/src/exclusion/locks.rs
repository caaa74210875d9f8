//! Locks that are called otherwise, by the names of the others.

use atomseq::mutex::Semaphore;
use atomseq_papers::reservation::Lamport;
use lock_api::{GuardNoSend, GuardSend, RawMutex};

/// A semaphore of one permit.
#[derive(Debug)]
pub struct OnePermit(Semaphore);

// SAFETY: there is one permit, which only `unlock` gives back.
unsafe impl RawMutex for OnePermit {
    #[allow(
        clippy::declare_interior_mutable_const,
        reason = "lock_api's way to make new ones"
    )]
    const INIT: OnePermit = OnePermit(Semaphore::new(1));
    type GuardMarker = GuardSend;

    fn lock(&self) {
        self.0.acquire().forget();
    }

    fn try_lock(&self) -> bool {
        self.0.try_acquire().map(|permit| permit.forget()).is_some()
    }

    unsafe fn unlock(&self) {
        self.0.release().expect("one permit was taken");
    }
}

/// Lamport's algorithm as printed, which has no way to try.
pub struct Figure1(Lamport);

// SAFETY: the algorithm lets one thread in at a time.
unsafe impl RawMutex for Figure1 {
    #[allow(
        clippy::declare_interior_mutable_const,
        reason = "lock_api's way to make new ones"
    )]
    const INIT: Figure1 = Figure1(Lamport::new());
    type GuardMarker = GuardNoSend;

    fn lock(&self) {
        self.0.enter();
    }

    fn try_lock(&self) -> bool {
        self.0.enter();
        true
    }

    unsafe fn unlock(&self) {
        // SAFETY: the caller has entered.
        unsafe { self.0.leave() }
    }
}
