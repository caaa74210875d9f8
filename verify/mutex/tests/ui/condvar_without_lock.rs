//! There is nothing to let go of.

use atomseq::mutex::Condvar;

fn main() {
    let changed = Condvar::new();
    changed.wait(&mut 7);
}
