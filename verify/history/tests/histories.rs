//! Every structure under both mechanisms: each history has an order that explains it.
#![cfg(target_os = "linux")]

use atomseq::dcas::Mechanism;
use verify_history::crew::{Report, Trial, must_pass};
use verify_history::structures::counts::Set;
use verify_history::structures::ends::{Fifo, Lifo, OneToOne};
use verify_history::structures::guards::Counted;
use verify_history::structures::keys::{lists, reinserted};
use verify_history::structures::listed::Listed;
use verify_history::structures::pages::Mapped;
use verify_history::structures::pairs::Dependent;
use verify_history::structures::priorities::Pending;
use verify_history::structures::served::Served;
use verify_history::structures::visits::Visited;
use verify_history::structures::words::{Pair, Words};
use verify_history::structures::{BothEnds, Hashed, Lent, OldestFirst, Probe, newest_first};

/// Returns a trial of this number of histories. Calls of debug builds have many instructions, and
/// most of the time is spent following them: there, one structure's are followed. `.ci/soak` runs
/// these tests in release mode, with many more histories.
fn trial_of(histories: usize) -> Trial {
    Trial {
        followed: if cfg!(debug_assertions) { 1 } else { 2 },
        ..Trial::of(histories)
    }
}

/// Runs half of the histories under each mechanism.
fn under_both(histories: usize, trial: impl Fn(Mechanism, Trial) -> Report) {
    for mechanism in [Mechanism::Assisted, Mechanism::Kcas] {
        let report = trial(mechanism, trial_of(histories / 2));
        // Without stops, only a timer that expires at the right time interrupts an operation.
        let stops = cfg!(all(atomseq_sections, target_arch = "x86_64"));
        assert!(
            !stops || report.concurrent > 0 && report.stops > 0,
            "nothing met: {report}"
        );
    }
}

#[test]
fn words_of_a_domain() {
    under_both(1_000, |mechanism, trial| {
        must_pass(&format!("Domain, {mechanism:?}"), trial, |_| {
            Words::fresh(mechanism)
        })
    });
}

#[test]
fn adjacent_words() {
    under_both(1_000, |mechanism, trial| {
        must_pass(&format!("Adjacent, {mechanism:?}"), trial, |_| {
            Pair::fresh(mechanism)
        })
    });
}

#[test]
fn a_stack() {
    under_both(1_000, |mechanism, trial| {
        must_pass(&format!("Stack, {mechanism:?}"), trial, |rng| {
            Lifo::<u64>::fresh(mechanism, rng)
        })
    });
}

#[test]
fn a_queue() {
    under_both(1_000, |mechanism, trial| {
        must_pass(&format!("Queue, {mechanism:?}"), trial, |rng| {
            Fifo::<u64>::fresh(mechanism, rng)
        })
    });
}

#[test]
fn a_ring() {
    let trial = Trial {
        threads: 2,
        calls: 10,
        ..trial_of(1_000)
    };
    let report = must_pass("Ring", trial, |rng| OneToOne::<u64>::fresh(rng, 0));
    let stops = cfg!(all(atomseq_sections, target_arch = "x86_64"));
    assert!(!stops || report.concurrent > 0, "nothing met: {report}");
}

#[test]
fn a_list_in_order() {
    under_both(1_000, |mechanism, trial| {
        must_pass(&format!("List, {mechanism:?}"), trial, lists(mechanism))
    });
}

#[test]
fn a_list_that_nodes_come_back_to() {
    under_both(1_000, |mechanism, trial| {
        must_pass(
            &format!("List, reinserted, {mechanism:?}"),
            trial,
            reinserted(mechanism),
        )
    });
}

#[test]
fn a_list_without_order() {
    under_both(1_000, |mechanism, trial| {
        must_pass(
            &format!("List without order, {mechanism:?}"),
            trial,
            newest_first(mechanism),
        )
    });
}

#[test]
fn a_map_to_sets_of_values() {
    under_both(1_000, |mechanism, trial| {
        must_pass(&format!("MultiMap, {mechanism:?}"), trial, |rng| {
            Dependent::fresh(rng, mechanism)
        })
    });
}

#[test]
fn a_list_of_counted_values() {
    under_both(1_000, |mechanism, trial| {
        must_pass(&format!("RefList, {mechanism:?}"), trial, |_| {
            Counted::<u64>::fresh(mechanism, true)
        })
    });
}

#[test]
fn a_list_of_visited_values() {
    under_both(1_000, |mechanism, trial| {
        must_pass(&format!("OneVisitorList, {mechanism:?}"), trial, |_| {
            Visited::<u64>::fresh(mechanism)
        })
    });
}

#[test]
fn a_cache_with_lists() {
    under_both(1_000, |mechanism, trial| {
        must_pass(&format!("ListCache, {mechanism:?}"), trial, |_| {
            Listed::fresh(mechanism)
        })
    });
}

#[test]
fn a_priority_queue() {
    under_both(1_000, |mechanism, trial| {
        must_pass(&format!("PriorityQueue, {mechanism:?}"), trial, |_| {
            Pending::<u64>::fresh(mechanism)
        })
    });
}

#[test]
fn a_page_map() {
    under_both(1_000, |mechanism, trial| {
        must_pass(&format!("PageMap, {mechanism:?}"), trial, |_| {
            Mapped::fresh(mechanism)
        })
    });
    under_both(250, |mechanism, trial| {
        must_pass(&format!("PageMap of 48 bits, {mechanism:?}"), trial, |_| {
            Mapped::wide(mechanism)
        })
    });
}

#[test]
fn a_stack_with_two_ends() {
    under_both(1_000, |mechanism, trial| {
        must_pass(&format!("LinkedStack, {mechanism:?}"), trial, |_| {
            BothEnds::<u64>::fresh(mechanism)
        })
    });
}

#[test]
fn a_server() {
    under_both(1_000, |mechanism, trial| {
        must_pass(&format!("Server, {mechanism:?}"), trial, |_| {
            Served::fresh(mechanism)
        })
    });
}

#[test]
fn an_unbounded_queue() {
    under_both(1_000, |mechanism, trial| {
        must_pass(&format!("LinkedQueue, {mechanism:?}"), trial, |_| {
            OldestFirst::<u64>::fresh(mechanism)
        })
    });
}

/// It has one mechanism. Its buckets are split and merged between and inside the other calls.
#[test]
fn a_hash_map() {
    let report = must_pass("HashMap", trial_of(1_000), |_| Hashed::<true>::fresh());
    let stops = cfg!(all(atomseq_sections, target_arch = "x86_64"));
    assert!(
        !stops || report.concurrent > 0 && report.stops > 0,
        "nothing met: {report}"
    );
}

/// The same, with values that end.
#[test]
fn a_hash_map_of_counted_values() {
    let before = Probe::alive();
    let report = must_pass("RefHashMap", trial_of(1_000), |_| {
        Lent::<Box<Probe>>::fresh()
    });
    let stops = cfg!(all(atomseq_sections, target_arch = "x86_64"));
    assert!(
        !stops || report.concurrent > 0 && report.stops > 0,
        "nothing met: {report}"
    );
    assert_eq!(Probe::alive(), before, "values were lost");
}

#[test]
fn counters() {
    let report = must_pass("Counters", trial_of(1_000), |_| {
        Set::fresh(|count| count.take())
    });
    let stops = cfg!(all(atomseq_sections, target_arch = "x86_64"));
    assert!(
        !stops || report.concurrent > 0 && report.stops > 0,
        "nothing met: {report}"
    );
}
