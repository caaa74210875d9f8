//! One more than there can be.

use atomseq::mutex::Semaphore;

static PERMITS: Semaphore = Semaphore::new(Semaphore::MAX + 1);

fn main() {
    PERMITS.acquire().forget();
}
