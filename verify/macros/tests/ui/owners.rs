//! Locks that only the thread that locked them may unlock, as their mechanism says, are neither
//! handed over nor unlocked elsewhere. A spin lock does not know its waiters.

use atomseq::mutex::{Interlocked, MutexBy, SpinLock, TestAndSet, lock_api};

struct Owned(Interlocked);

unsafe impl TestAndSet for Owned {
    type Scope = atomseq::scope::Machine;
    type GuardMarker = lock_api::GuardNoSend;
    const NAME: &'static str = "owned";
    const CLEAR: Owned = Owned(Interlocked::CLEAR);
    fn test_and_set(&self) -> bool {
        self.0.test_and_set()
    }
    unsafe fn clear(&self) {
        unsafe { self.0.clear() }
    }
    fn is_set(&self) -> bool {
        self.0.is_set()
    }
    unsafe fn clear_then_look(&self) {
        unsafe { self.0.clear_then_look() }
    }
    fn waiter_barrier(&self) {
        self.0.waiter_barrier()
    }
}

static LOCK: MutexBy<Owned, u32> = MutexBy::new(0);

fn fair_bound() {
    lock_api::MutexGuard::unlock_fair(LOCK.lock());
}

fn sent_guard_bound() {
    let guard = LOCK.lock();
    std::thread::scope(|scope| {
        scope.spawn(move || drop(guard));
    });
}

fn fair_spin(lock: &SpinLock<u32>) {
    lock_api::MutexGuard::unlock_fair(lock.lock());
}

fn main() {}
