//! Threads may share this one, but whoever sets it has to clear it.

use atomseq::mutex::{Interlocked, Mutex, TestAndSet};

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

static LOCK: Mutex<u32, Owned> = Mutex::new(0);

fn main() {
    let guard = LOCK.lock();
    std::thread::scope(|scope| {
        scope.spawn(move || drop(guard));
    });
}
