//! `mutex`: a lock that all threads contend for, held for no longer than it takes to count, for
//! about 100 ns and for about 1 µs.

use std::time::Duration;

use atomseq::mutex::{Biased, Mutex, SpinLock};

use super::{Experiment, Method, Threads, cases};
use crate::bench::peers::locks::BackoffLock;
use crate::bench::peers::locks::QueueLock;
use crate::bench::workloads::locking::{Contention, Hold, Tally};

/// The experiment.
pub const EXPERIMENT: Experiment = Experiment {
    name: "mutex",
    about: "a lock that all threads contend for, held to count, for 100 ns more and for 1 µs more",
    cases: cases! {
        "hold-0:mutex", "mutex::Mutex, held to count",
            |_| Contention::<Mutex<Tally>>::boxed(Hold::NONE);
        "hold-0:spin", "mutex::SpinLock, held to count",
            |_| Contention::<SpinLock<Tally>>::boxed(Hold::NONE);
        "hold-0:biased", "mutex::Biased, held to count",
            |_| Contention::<Biased<Tally>>::boxed(Hold::NONE);
        "hold-0:queue-lock", "Mellor-Crummey and Scott's queue lock, held to count",
            |_| Contention::<QueueLock>::boxed(Hold::NONE);
        "hold-0:backoff", "test-and-test-and-set with exponential backoff, held to count",
            |_| Contention::<BackoffLock>::boxed(Hold::NONE);
        "hold-0:std", "std::sync::Mutex, held to count",
            |_| Contention::<std::sync::Mutex<Tally>>::boxed(Hold::NONE);
        "hold-0:parking_lot", "parking_lot::Mutex, held to count",
            |_| Contention::<parking_lot::Mutex<Tally>>::boxed(Hold::NONE);
        "hold-100ns:mutex", "mutex::Mutex, held for about 100 ns more",
            |_| Contention::<Mutex<Tally>>::boxed(short());
        "hold-100ns:spin", "mutex::SpinLock, held for about 100 ns more",
            |_| Contention::<SpinLock<Tally>>::boxed(short());
        "hold-100ns:biased", "mutex::Biased, held for about 100 ns more",
            |_| Contention::<Biased<Tally>>::boxed(short());
        "hold-100ns:queue-lock",
            "Mellor-Crummey and Scott's queue lock, held for about 100 ns more",
            |_| Contention::<QueueLock>::boxed(short());
        "hold-100ns:backoff",
            "test-and-test-and-set with exponential backoff, held for about 100 ns more",
            |_| Contention::<BackoffLock>::boxed(short());
        "hold-100ns:std", "std::sync::Mutex, held for about 100 ns more",
            |_| Contention::<std::sync::Mutex<Tally>>::boxed(short());
        "hold-100ns:parking_lot", "parking_lot::Mutex, held for about 100 ns more",
            |_| Contention::<parking_lot::Mutex<Tally>>::boxed(short());
        "hold-1us:mutex", "mutex::Mutex, held for about 1 µs more",
            |_| Contention::<Mutex<Tally>>::boxed(long());
        "hold-1us:spin", "mutex::SpinLock, held for about 1 µs more",
            |_| Contention::<SpinLock<Tally>>::boxed(long());
        "hold-1us:biased", "mutex::Biased, held for about 1 µs more",
            |_| Contention::<Biased<Tally>>::boxed(long());
        "hold-1us:queue-lock", "Mellor-Crummey and Scott's queue lock, held for about 1 µs more",
            |_| Contention::<QueueLock>::boxed(long());
        "hold-1us:backoff",
            "test-and-test-and-set with exponential backoff, held for about 1 µs more",
            |_| Contention::<BackoffLock>::boxed(long());
        "hold-1us:std", "std::sync::Mutex, held for about 1 µs more",
            |_| Contention::<std::sync::Mutex<Tally>>::boxed(long());
        "hold-1us:parking_lot", "parking_lot::Mutex, held for about 1 µs more",
            |_| Contention::<parking_lot::Mutex<Tally>>::boxed(long());
    },
    peers: &["std", "parking_lot", "backoff", "queue-lock"],
    method: Method::Timed,
    threads: Threads::Crowded,
    beside: None,
};

/// About 100 ns.
fn short() -> Hold {
    Hold::of(Duration::from_nanos(100))
}

/// About 1 µs.
fn long() -> Hold {
    Hold::of(Duration::from_micros(1))
}

#[cfg(test)]
mod tests {
    use std::thread;

    use super::*;
    use crate::bench::engine::GRAIN;

    #[test]
    fn every_lock_excludes() {
        const THREADS: usize = 4;
        for case in EXPERIMENT.make(THREADS, |_| true) {
            let operations = match case.name.starts_with("hold-0:") {
                true => 256 * GRAIN,
                false => 8 * GRAIN,
            };
            thread::scope(|scope| {
                for thread in 0..THREADS {
                    let subject = &case.subject;
                    scope.spawn(move || subject.run(thread, operations));
                }
            });
            assert_eq!(
                case.subject.check(THREADS as u64 * operations),
                Ok(()),
                "{}",
                case.name
            );
        }
    }
}
