//! Statics: a value whose clone a handler could meet, one that must be dropped when the thread
//! exits, and more permits than there can be.

use std::rc::Rc;

use atomseq::local::per_thread;
use atomseq::mutex::{Restarting, Semaphore, SpinLock};

per_thread! {
    static SHARED: SpinLock<Option<Rc<u32>>, Restarting> = SpinLock::new(None);
}

per_thread! {
    static TEXT: SpinLock<String, Restarting> = SpinLock::new(String::new());
}

static PERMITS: Semaphore = Semaphore::new(Semaphore::MAX + 1);

fn main() {
    SHARED.with(|shared| *shared.lock() = Some(Rc::new(1)));
    TEXT.with(|text| text.lock().push('a'));
    PERMITS.acquire().forget();
}
