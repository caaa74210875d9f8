//! What each scope allows.

use atomseq::local::per_thread;
use atomseq::mutex::{Condvar, Counted, Interlocked, Masked, Mutex, Restarting, Semaphore, SpinLock, counts};

static ALL: Mutex<Vec<u32>> = Mutex::new(Vec::new());
static COUNTED: SpinLock<u32, Counted<Interlocked>> = SpinLock::new(0);
static CHANGED: Condvar = Condvar::new();
static PERMITS: Semaphore = Semaphore::new(1);

per_thread! {
    static OWN: SpinLock<u32, Restarting> = SpinLock::new(0);
    static MASKED: Mutex<u32, Counted<Masked>> = Mutex::new(0);
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
    let local = Mutex::<std::rc::Rc<u32>, Restarting>::new(std::rc::Rc::new(1));
    assert_eq!(**local.lock(), 1);
}
