//! `mutex`: a lock that all threads contend for, held for no longer than it takes to count, for
//! about 100 ns and for about 1 µs.

use std::time::Duration;

use atomseq::mutex::{Biased, Mutex, SpinLock};

use super::{Experiment, Method, Threads};
use crate::bench::engine::Case;
use crate::bench::locking::{Contention, Hold, Tally};
use crate::bench::peers::backoff::BackoffLock;
use crate::bench::peers::queue_lock::QueueLock;

/// The experiment.
pub const EXPERIMENT: Experiment = Experiment {
    name: "mutex",
    about: "a lock that all threads contend for, held for no, a short and a longer time",
    cases: &[
        ("hold-0:mutex", "atomseq's mutex::Mutex, held to count"),
        ("hold-0:spin", "atomseq's mutex::SpinLock"),
        ("hold-0:biased", "atomseq's mutex::Biased"),
        ("hold-0:queue-lock", "Mellor-Crummey and Scott's queue lock"),
        (
            "hold-0:backoff",
            "test-and-test-and-set with exponential backoff",
        ),
        ("hold-0:std", "std::sync::Mutex"),
        ("hold-0:parking_lot", "parking_lot::Mutex"),
        (
            "hold-100ns:mutex",
            "the same, held for about 100 ns more, here and below",
        ),
        ("hold-100ns:spin", "atomseq's mutex::SpinLock"),
        ("hold-100ns:biased", "atomseq's mutex::Biased"),
        ("hold-100ns:queue-lock", "Mellor-Crummey and Scott's"),
        ("hold-100ns:backoff", "with exponential backoff"),
        ("hold-100ns:std", "std::sync::Mutex"),
        ("hold-100ns:parking_lot", "parking_lot::Mutex"),
        (
            "hold-1us:mutex",
            "the same, held for about 1 µs more, here and below",
        ),
        ("hold-1us:spin", "atomseq's mutex::SpinLock"),
        ("hold-1us:biased", "atomseq's mutex::Biased"),
        ("hold-1us:queue-lock", "Mellor-Crummey and Scott's"),
        ("hold-1us:backoff", "with exponential backoff"),
        ("hold-1us:std", "std::sync::Mutex"),
        ("hold-1us:parking_lot", "parking_lot::Mutex"),
    ],
    peers: &["std", "parking_lot", "backoff", "queue-lock"],
    method: Method::Timed(cases),
    threads: Threads::Crowded,
    beside: None,
};

fn cases(_threads: usize) -> Vec<Case> {
    let short = Hold::of(Duration::from_nanos(100));
    let long = Hold::of(Duration::from_micros(1));
    vec![
        Contention::<Mutex<Tally>>::case("hold-0:mutex", Hold::NONE),
        Contention::<SpinLock<Tally>>::case("hold-0:spin", Hold::NONE),
        Contention::<Biased<Tally>>::case("hold-0:biased", Hold::NONE),
        Contention::<QueueLock>::case("hold-0:queue-lock", Hold::NONE),
        Contention::<BackoffLock>::case("hold-0:backoff", Hold::NONE),
        Contention::<std::sync::Mutex<Tally>>::case("hold-0:std", Hold::NONE),
        Contention::<parking_lot::Mutex<Tally>>::case("hold-0:parking_lot", Hold::NONE),
        Contention::<Mutex<Tally>>::case("hold-100ns:mutex", short),
        Contention::<SpinLock<Tally>>::case("hold-100ns:spin", short),
        Contention::<Biased<Tally>>::case("hold-100ns:biased", short),
        Contention::<QueueLock>::case("hold-100ns:queue-lock", short),
        Contention::<BackoffLock>::case("hold-100ns:backoff", short),
        Contention::<std::sync::Mutex<Tally>>::case("hold-100ns:std", short),
        Contention::<parking_lot::Mutex<Tally>>::case("hold-100ns:parking_lot", short),
        Contention::<Mutex<Tally>>::case("hold-1us:mutex", long),
        Contention::<SpinLock<Tally>>::case("hold-1us:spin", long),
        Contention::<Biased<Tally>>::case("hold-1us:biased", long),
        Contention::<QueueLock>::case("hold-1us:queue-lock", long),
        Contention::<BackoffLock>::case("hold-1us:backoff", long),
        Contention::<std::sync::Mutex<Tally>>::case("hold-1us:std", long),
        Contention::<parking_lot::Mutex<Tally>>::case("hold-1us:parking_lot", long),
    ]
}

#[cfg(test)]
mod tests {
    use std::thread;

    use super::*;
    use crate::bench::engine::GRAIN;

    #[test]
    fn every_lock_excludes() {
        const THREADS: usize = 4;
        for case in cases(THREADS) {
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
