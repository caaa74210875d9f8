//! Nobody knows who spins.

use atomseq::mutex::SpinLock;

static LOCK: SpinLock<u32> = SpinLock::new(0);

fn main() {
    lock_api::MutexGuard::unlock_fair(LOCK.lock());
}
