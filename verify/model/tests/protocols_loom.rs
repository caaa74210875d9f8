//! The protocols around sections under loom, which tries every value that a relaxed load may
//! return, and reports two unordered accesses to memory. Loom prunes the orders of steps, and
//! sometimes one too many: `protocols_shuttle` tries them all.

#[path = "../../../crates/atomseq/src/percpu/baseline.rs"]
mod baseline;
#[path = "../../../crates/atomseq/src/mutex/bias/mod.rs"]
mod bias;
#[path = "protocols/drains.rs"]
mod drains;
#[path = "protocols/first_uses.rs"]
mod first_uses;
#[path = "protocols/forks.rs"]
mod forks;
#[path = "protocols/gates.rs"]
mod gates;
#[path = "protocols/homes.rs"]
mod homes;
#[path = "../../../crates/atomseq/src/percpu/lazy.rs"]
mod lazy;
#[allow(dead_code, reason = "no model tries to lock")]
#[path = "../../../crates/atomseq/src/percpu/lock.rs"]
mod lock;
#[path = "protocols/machine.rs"]
mod machine;
#[path = "../../../crates/atomseq/src/mutex/notification.rs"]
mod notification;
#[path = "../../../crates/atomseq/src/mutex/parking.rs"]
mod parking;
#[path = "../../../crates/atomseq/src/mutex/permits.rs"]
mod permits;
#[path = "../../../crates/atomseq/src/mutex/readers.rs"]
mod readers;
#[path = "protocols/readers.rs"]
mod reading;
#[path = "protocols/sleepers.rs"]
mod sleepers;
#[path = "protocols/loom.rs"]
mod sync;
#[path = "../../../crates/atomseq/src/linux/traffic.rs"]
mod traffic;

// The library's names of these modules.
use homes as home;
use machine as end;

/// The protocols without their orderings.
mod orderings {
    use crate::drains::unordered_drains;
    use crate::first_uses;
    use crate::gates::pop_and_drain;
    use crate::homes::Protections;
    use crate::homes::{Habit, Holder, each_adds_one};
    use crate::lock::FOR_GOOD;
    use crate::machine::{Fence, Rules};
    use crate::sync::Size::{Large, Small};
    use crate::sync::{AtomicU32, Ordering, misses, races, wake_one};

    #[test]
    fn without_its_orderings_a_section_misses_the_work_under_the_gate() {
        let relaxed_load = Rules {
            acquire: Ordering::Relaxed,
            ..Rules::ALL
        };
        races("gate: the test without acquire", Small, move || {
            pop_and_drain(relaxed_load);
        });
        fn relaxed_unlock(gate: &AtomicU32) {
            gate.fetch_and(FOR_GOOD, Ordering::Relaxed);
            wake_one(gate);
        }
        let relaxed_store = Rules {
            unlock: relaxed_unlock,
            ..Rules::ALL
        };
        races("gate: opened without release", Small, move || {
            pop_and_drain(relaxed_store);
        });
    }

    /// The accesses that are unordered without the fence, whatever their result.
    #[test]
    fn without_the_fence_closers_work_while_a_section_does() {
        let rules = Rules {
            fence: Fence::Never,
            ..Rules::ALL
        };
        races("gate: no fence", Small, move || pop_and_drain(rules));
    }

    #[test]
    fn without_its_orderings_a_drained_sum_is_negative() {
        misses(
            "drain: without orderings",
            "negative",
            Large,
            unordered_drains,
        );
    }

    #[test]
    fn without_the_barrier_a_writer_sleeps_through_the_last_leave() {
        use crate::reading::{Protections, READS, READS_AND_MIGRATES, TRIES_THEN_WRITES, meet};

        let protections = Protections {
            barrier: false,
            ..Protections::ALL
        };
        for (name, reads) in [("stays", READS), ("migrates", READS_AND_MIGRATES)] {
            let name = format!("readers: no barrier, the reader {name}");
            misses(&name, "deadlock", Large, move || {
                meet(protections, &[reads, TRIES_THEN_WRITES]);
            });
        }
    }

    #[test]
    fn without_its_orderings_a_first_use_finds_no_memory() {
        let relaxed_load = first_uses::Rules {
            is_published: |lazy| lazy.rseq_offset.load(Ordering::Relaxed) != 0,
            ..first_uses::Rules::ALL
        };
        misses(
            "first uses: the test without acquire",
            "without memory",
            Small,
            move || first_uses::first_uses(relaxed_load),
        );
        let relaxed_store = first_uses::Rules {
            publish: |lazy| lazy.rseq_offset.store(64, Ordering::Relaxed),
            ..first_uses::Rules::ALL
        };
        misses(
            "first uses: published without release",
            "without memory",
            Small,
            move || first_uses::first_uses(relaxed_store),
        );
    }

    /// The holder's store may not be visible yet when it looks for waiters, and the waiter's look
    /// may come before it.
    #[test]
    fn without_the_barrier_a_wake_up_is_lost() {
        let protections = Protections {
            barrier: false,
            ..Protections::ALL
        };
        for (name, holder) in [
            ("on its home CPU", Holder::Stays),
            ("migrated", Holder::Migrates),
        ] {
            for habit in [Habit::Stays, Habit::Interlocks, Habit::Returns] {
                let name = format!("home: no barrier, the holder {name}, {habit:?}");
                misses(&name, "deadlock", Large, move || {
                    each_adds_one(2, holder, habit, protections);
                });
            }
        }
    }
}
