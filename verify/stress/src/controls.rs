//! Locks that must be detected: one without protection, and those whose scope is too small for
//! where they are used.

pub use atomseq_stress::targets::section::Unprotected;

use std::sync::OnceLock;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;

use atomseq::mutex::TestAndSet;
use atomseq::scope::Machine;
use lock_api::{GuardSend, RawMutex};

use crate::exclusion::cpus;

atomseq::sequence! {
    /// Sets the flag if this CPU is its home and it is clear, as the library's sequence does.
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

/// A flag whose home is the first CPU of the process. Visitors take the home away, but no fence
/// aborts the sequences that run there.
#[derive(Debug)]
#[repr(C)]
pub struct VisitedUnfenced {
    home: AtomicUsize,
    held: AtomicUsize,
}

/// No visitor has the flag.
const HOME: usize = 0;
const CLAIM: usize = 1 << 62;

// SAFETY: it does not exclude, which must be detected. It guards only atomic words, so that only
// numbers are wrong.
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
        let first = *FIRST.get_or_init(|| cpus()[0]);
        // SAFETY: the two words of this flag.
        if unsafe { take::on_cpu(std::ptr::from_ref(self) as usize, first) } == Ok(true) {
            return true;
        }
        // Another CPU is the home, or the sequence was aborted.
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

/// A lock that is used where its type does not allow it.
#[derive(Debug)]
pub struct Anywhere<R>(R);

// SAFETY: it does not exclude, which must be detected. It guards only atomic words, so that only
// numbers are wrong.
unsafe impl<R> Send for Anywhere<R> {}
// SAFETY: as for `Send`.
unsafe impl<R> Sync for Anywhere<R> {}

// SAFETY: as for `Send`.
unsafe impl<R: RawMutex> RawMutex for Anywhere<R> {
    #[allow(
        clippy::declare_interior_mutable_const,
        reason = "lock_api's way to make new ones"
    )]
    const INIT: Anywhere<R> = Anywhere(R::INIT);
    type GuardMarker = R::GuardMarker;

    fn lock(&self) {
        // Locks of scope `SameThread` do not wait.
        while !self.0.try_lock() {
            thread::yield_now();
        }
    }

    fn try_lock(&self) -> bool {
        self.0.try_lock()
    }

    unsafe fn unlock(&self) {
        // SAFETY: by this function's contract.
        unsafe { self.0.unlock() }
    }
}
