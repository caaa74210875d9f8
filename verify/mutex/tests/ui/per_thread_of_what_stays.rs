//! A handler could be in the middle of another clone of it.

use std::rc::Rc;

use atomseq::local::per_thread;
use atomseq::mutex::{Restarting, SpinLock};

per_thread! {
    static SHARED: SpinLock<Option<Rc<u32>>, Restarting> = SpinLock::new(None);
}

fn main() {
    SHARED.with(|shared| *shared.lock() = Some(Rc::new(1)));
}
