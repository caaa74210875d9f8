//! A thread ends without dropping what is left.

use atomseq::local::per_thread;
use atomseq::mutex::{Restarting, SpinLock};

per_thread! {
    static TEXT: SpinLock<String, Restarting> = SpinLock::new(String::new());
}

fn main() {
    TEXT.with(|text| text.lock().push('a'));
}
