//! Nothing was counted.

use atomseq::mutex::{Mutex, counts};

static LOCK: Mutex<u32> = Mutex::new(0);

fn main() {
    println!("{}", counts(&LOCK));
}
