//! What each scope allows.

use atomseq::local::per_thread;
use atomseq::mutex::{Condvar, Counted, Interlocked, Masked, Mutex, MutexBy, Restarting, Semaphore, SpinLockBy, counts};

static ALL: Mutex<Vec<u32>> = Mutex::new(Vec::new());
static COUNTED: SpinLockBy<Counted<Interlocked>, u32> = SpinLockBy::new(0);
static CHANGED: Condvar = Condvar::new();
static PERMITS: Semaphore = Semaphore::new(1);

per_thread! {
    static OWN: SpinLockBy<Restarting, u32> = SpinLockBy::new(0);
    static MASKED: MutexBy<Counted<Masked>, u32> = MutexBy::new(0);
}

fn main() {
    let guard = ALL.lock();
    // Another thread unlocks it.
    std::thread::scope(|scope| {
        scope.spawn(move || drop(guard));
    });
    *COUNTED.lock() += 1;
    assert_eq!(counts(&COUNTED).acquisitions, 1);
    CHANGED.notify_one();
    drop(PERMITS.acquire());
    OWN.with(|own| *own.lock() += 1);
    MASKED.with(|own| *own.lock() += 1);
    let local = MutexBy::<Restarting, std::rc::Rc<u32>>::new(std::rc::Rc::new(1));
    assert_eq!(**local.lock(), 1);
}
