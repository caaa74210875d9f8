//! Locks that must be found out: one without protection, and those whose scope is too small for
//! where they are used.

pub use atomseq_stress::targets::section::Unprotected;

use std::sync::OnceLock;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;

use atomseq::mutex::TestAndSet;
use atomseq::scope::Machine;
use lock_api::{GuardSend, RawMutex};

use crate::torment;

atomseq::sequence! {
    /// As the library's: sets the flag if this CPU is its home and it is clear.
    unsafe fn take(flag: Word, first: Word) -> bool {
        let here = cpu();
        if here != first { return false }
        let home = load_acquire(flag);
        if home != 0 { return false }
        let held = load_acquire(flag + 8);
        if held != 0 { return false }
        commit(flag + 8, 1);
        true
    }
}

/// At home on the first CPU that the process may use; visitors take the home away, and no fence
/// aborts the sequences that are under way there.
#[derive(Debug)]
#[repr(C)]
pub struct VisitedUnfenced {
    home: AtomicUsize,
    held: AtomicUsize,
}

/// Nobody visits it.
const HOME: usize = 0;
const CLAIM: usize = 1 << 62;

// SAFETY: it is none, which must be found out; what it guards is atomic, so that nothing but
// numbers is wrong.
unsafe impl TestAndSet for VisitedUnfenced {
    type Scope = Machine;
    type GuardMarker = GuardSend;
    const NAME: &'static str = "visited without a fence";
    const CLEAR: VisitedUnfenced = VisitedUnfenced {
        home: AtomicUsize::new(HOME),
        held: AtomicUsize::new(0),
    };

    fn test_and_set(&self) -> bool {
        static FIRST: OnceLock<usize> = OnceLock::new();
        let first = *FIRST.get_or_init(|| torment::cpus()[0]);
        // SAFETY: the two words are the flag's.
        if unsafe { take::on_cpu(std::ptr::from_ref(self) as usize, first) } == Ok(true) {
            return true;
        }
        // Not at home, or so it seemed.
        let (seqcst, relaxed) = (Ordering::SeqCst, Ordering::Relaxed);
        let claim = self.home.compare_exchange(HOME, CLAIM, seqcst, relaxed);
        if claim.is_err() {
            return false;
        }
        let was_clear = self.held.load(Ordering::SeqCst) == 0;
        if was_clear {
            self.held.store(1, Ordering::SeqCst);
        }
        self.home.store(HOME, Ordering::SeqCst);
        was_clear
    }

    unsafe fn clear(&self) {
        self.held.store(0, Ordering::Release);
    }

    fn is_set(&self) -> bool {
        self.held.load(Ordering::Acquire) != 0
    }

    unsafe fn clear_then_look(&self) {
        self.held.swap(0, Ordering::SeqCst);
    }

    fn waiter_barrier(&self) {}
}

/// A lock that goes where its type does not let it.
#[derive(Debug)]
pub struct Anywhere<R>(R);

// SAFETY: it is none, which must be found out; what it guards is atomic, so that nothing but
// numbers is wrong.
unsafe impl<R> Send for Anywhere<R> {}
// SAFETY: as above.
unsafe impl<R> Sync for Anywhere<R> {}

// SAFETY: as above.
unsafe impl<R: RawMutex> RawMutex for Anywhere<R> {
    #[allow(
        clippy::declare_interior_mutable_const,
        reason = "lock_api's way to make new ones"
    )]
    const INIT: Anywhere<R> = Anywhere(R::INIT);
    type GuardMarker = R::GuardMarker;

    fn lock(&self) {
        // Those of scope `SameThread` refuse to wait.
        while !self.0.try_lock() {
            thread::yield_now();
        }
    }

    fn try_lock(&self) -> bool {
        self.0.try_lock()
    }

    unsafe fn unlock(&self) {
        // SAFETY: the caller's promise.
        unsafe { self.0.unlock() }
    }
}
