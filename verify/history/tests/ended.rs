//! Threads exit inside every operation, at every instruction: at most the one value that the thread
//! holds is lost.
#![cfg(all(atomseq_sections, target_arch = "x86_64"))]

use atomseq::dcas::Mechanism;
use fastrand::Rng;
use verify_history::ended::{Deaths, Thoroughness, at_each_place};
use verify_history::record::Subject;
use verify_history::structures::Probe;
use verify_history::structures::ends::{Fifo, Lifo, OneToOne};
use verify_history::structures::guards::Counted;
use verify_history::structures::keys::{lists, reinserted};
use verify_history::structures::listed::Listed;
use verify_history::structures::pages::Mapped;
use verify_history::structures::pairs::Dependent;
use verify_history::structures::priorities::Pending;
use verify_history::structures::served::Served;
use verify_history::structures::visits::Visited;
use verify_history::structures::words::{Pair, Twins, Words};
use verify_history::structures::{BothEnds, Hashed, Lent, OldestFirst, newest_first};

const MECHANISMS: [Mechanism; 2] = [Mechanism::Assisted, Mechanism::Kcas];

/// All places in release builds; in debug builds, whose operations are several times as long, some
/// of them.
const THOROUGH: Thoroughness = if cfg!(debug_assertions) {
    Thoroughness {
        scripts: 1,
        calls: 6,
        places: 16,
        sparse: usize::MAX,
    }
} else {
    Thoroughness {
        scripts: 4,
        calls: 1,
        places: usize::MAX,
        sparse: 1,
    }
};

/// One in this number of places may stay unreached, besides those in searches for descriptors. The
/// fewer places there are, the larger that part may be.
const FEW: usize = if cfg!(debug_assertions) { 3 } else { 10 };

fn ends<S: Subject, M: FnMut(&mut Rng) -> (S, S::Model)>(
    name: &str,
    mechanism: Mechanism,
    fresh: impl Fn() -> M,
) {
    all_end(&format!("{name}, {mechanism:?}"), fresh);
}

fn all_end<S: Subject, M: FnMut(&mut Rng) -> (S, S::Model)>(
    name: &str,
    fresh: impl Fn() -> M,
) -> Deaths {
    let deaths = at_each_place(name, THOROUGH, fresh);
    assert!(deaths.ended() > FEW * deaths.missed, "{name}: {deaths}");
    deaths
}

#[test]
fn in_a_domain() {
    for mechanism in MECHANISMS {
        ends("Domain", mechanism, || {
            |_: &mut Rng| Words::fresh(mechanism)
        });
    }
}

/// No other call happens between the thread's exit and the domain's drop: the words' own destructor
/// must find the unfinished exchange completed or rolled back.
#[test]
fn in_a_domain_that_is_dropped_next() {
    for mechanism in MECHANISMS {
        let before = Twins::seen();
        ends("Domain that is dropped", mechanism, || {
            |_: &mut Rng| Twins::fresh(mechanism)
        });
        let after = Twins::seen();
        let (looks, unequal) = (after.0 - before.0, after.1 - before.1);
        println!("{mechanism:?}: {looks} domains dropped, {unequal} half changed");
        assert!(looks > 20, "{looks} domains dropped");
        assert_eq!(unequal, 0, "of {looks} domains");
    }
}

#[test]
fn in_adjacent_words() {
    for mechanism in MECHANISMS {
        ends("Adjacent", mechanism, || {
            |_: &mut Rng| Pair::fresh(mechanism)
        });
    }
}

#[test]
fn in_a_stack() {
    for mechanism in MECHANISMS {
        ends("Stack", mechanism, || {
            |rng: &mut Rng| Lifo::<Box<Probe>>::fresh(mechanism, rng)
        });
    }
}

#[test]
fn in_a_queue() {
    for mechanism in MECHANISMS {
        ends("Queue", mechanism, || {
            |rng: &mut Rng| Fifo::<Box<Probe>>::fresh(mechanism, rng)
        });
    }
}

#[test]
fn in_a_ring() {
    // The thread that exits is the producer's, or the consumer's.
    for (end, puts) in [("the producer", 0), ("the consumer", 1)] {
        all_end(&format!("Ring, {end}"), || {
            move |rng: &mut Rng| OneToOne::<Box<Probe>>::fresh(rng, puts)
        });
    }
}

#[test]
fn in_a_list_in_order() {
    for mechanism in MECHANISMS {
        ends("List", mechanism, || lists(mechanism));
    }
}

#[test]
fn in_a_list_that_nodes_come_back_to() {
    for mechanism in MECHANISMS {
        ends("List, reinserted", mechanism, || reinserted(mechanism));
    }
}

#[test]
fn in_a_list_without_order() {
    for mechanism in MECHANISMS {
        ends("List without order", mechanism, || newest_first(mechanism));
    }
}

#[test]
fn in_a_list_of_counted_values() {
    for mechanism in MECHANISMS {
        ends("RefList", mechanism, || {
            |_: &mut Rng| Counted::<Box<Probe>>::fresh(mechanism, false)
        });
    }
}

#[test]
fn in_a_list_of_visited_values() {
    for mechanism in MECHANISMS {
        ends("OneVisitorList", mechanism, || {
            |_: &mut Rng| Visited::<Box<Probe>>::fresh(mechanism)
        });
    }
}

#[test]
fn in_a_map_to_sets_of_values() {
    for mechanism in MECHANISMS {
        ends("MultiMap", mechanism, || {
            |rng: &mut Rng| Dependent::fresh(rng, mechanism)
        });
    }
}

#[test]
fn in_a_cache_with_lists() {
    for mechanism in MECHANISMS {
        ends("ListCache", mechanism, || {
            |_: &mut Rng| Listed::fresh(mechanism)
        });
    }
}

#[test]
fn in_a_priority_queue() {
    for mechanism in MECHANISMS {
        ends("PriorityQueue", mechanism, || {
            |_: &mut Rng| Pending::<Box<Probe>>::fresh(mechanism)
        });
    }
}

#[test]
fn in_a_page_map() {
    for mechanism in MECHANISMS {
        ends("PageMap", mechanism, || {
            |_: &mut Rng| Mapped::fresh(mechanism)
        });
    }
}

#[test]
fn in_a_stack_with_two_ends() {
    for mechanism in MECHANISMS {
        ends("LinkedStack", mechanism, || {
            |_: &mut Rng| BothEnds::<Box<Probe>>::fresh(mechanism)
        });
    }
}

#[test]
fn in_a_server() {
    for mechanism in MECHANISMS {
        ends("Server", mechanism, || {
            |_: &mut Rng| Served::fresh(mechanism)
        });
    }
}

#[test]
fn in_an_unbounded_queue() {
    for mechanism in MECHANISMS {
        ends("LinkedQueue", mechanism, || {
            |_: &mut Rng| OldestFirst::<Box<Probe>>::fresh(mechanism)
        });
    }
}

#[test]
fn in_a_hash_map() {
    all_end("HashMap", || |_: &mut Rng| Hashed::<true>::fresh());
}

/// A thread that exits keeps the guards that it has, until audits find that each node that is
/// allocated holds a value in the map.
#[test]
fn in_a_hash_map_of_counted_values() {
    let deaths = all_end("RefHashMap", || |_: &mut Rng| Lent::<Box<Probe>>::fresh());
    // Without a thread that held anything, the audits would prove nothing. In debug builds, there
    // may be none at these few places.
    assert!(deaths.recovered > 0 || cfg!(debug_assertions), "{deaths}");
}
