//! Statics: a value whose clone a handler could meet, one that must be dropped when the thread
//! exits, and more permits than there can be.

use std::rc::Rc;

use atomseq::local::per_thread;
use atomseq::mutex::{Restarting, Semaphore, SpinLockBy};

per_thread! {
    static SHARED: SpinLockBy<Restarting, Option<Rc<u32>>> = SpinLockBy::new(None);
}

per_thread! {
    static TEXT: SpinLockBy<Restarting, String> = SpinLockBy::new(String::new());
}

static PERMITS: Semaphore = Semaphore::new(Semaphore::MAX + 1);

fn main() {
    SHARED.with(|shared| *shared.lock() = Some(Rc::new(1)));
    TEXT.with(|text| text.lock().push('a'));
    PERMITS.acquire().forget();
}
