//! Threads ended inside every operation, at every instruction: at most the one value in their hands is lost.
#![cfg(all(atomseq_sections, target_arch = "x86_64"))]

use atomseq::dcas::Mechanism;
use fastrand::Rng;
use verify_history::ended::at_each_place;
use verify_history::record::Subject;
use verify_history::subjects::element::Probe;
use verify_history::subjects::ends::{Fifo, Lifo, OneToOne};
use verify_history::subjects::guards::Counted;
use verify_history::subjects::keys::lists;
use verify_history::subjects::linked::{BothEnds, newest_first};
use verify_history::subjects::visits::Visited;
use verify_history::subjects::words::{Pair, Words};

const MECHANISMS: [Mechanism; 2] = [Mechanism::Assisted, Mechanism::Kcas];

/// All places in release, and in debug builds, whose operations are several times as long, some of them.
const MOST: usize = if cfg!(debug_assertions) {
    40
} else {
    usize::MAX
};

fn ends<S: Subject>(name: &str, mechanism: Mechanism, make: impl FnMut(&mut Rng) -> (S, S::Model)) {
    let deaths = at_each_place(&format!("{name}, {mechanism:?}"), MOST, make);
    // Places are found step by step, which ends sections: what lies behind that is not come by again.
    assert!(
        deaths.ended > deaths.missed / 16 && deaths.ended > 0,
        "{deaths:?}"
    );
}

#[test]
fn in_a_domain() {
    for mechanism in MECHANISMS {
        ends("Domain", mechanism, |_| Words::fresh(mechanism));
    }
}

#[test]
fn in_adjacent_words() {
    for mechanism in MECHANISMS {
        ends("Adjacent", mechanism, |_| Pair::fresh(mechanism));
    }
}

#[test]
fn in_a_stack() {
    for mechanism in MECHANISMS {
        ends("Stack", mechanism, |rng| {
            Lifo::<Box<Probe>>::fresh(mechanism, rng)
        });
    }
}

#[test]
fn in_a_queue() {
    for mechanism in MECHANISMS {
        ends("Queue", mechanism, |rng| {
            Fifo::<Box<Probe>>::fresh(mechanism, rng)
        });
    }
}

#[test]
fn in_a_ring() {
    // The thread that ends is the producer's, or the consumer's.
    for (end, puts) in [("the producer", 0), ("the consumer", 1)] {
        let deaths = at_each_place(&format!("Ring, {end}"), MOST, |rng| {
            OneToOne::<Box<Probe>>::fresh(rng, puts)
        });
        assert!(
            deaths.ended > deaths.missed / 4 && deaths.ended > 0,
            "{deaths:?}"
        );
    }
}

#[test]
fn in_a_list_in_order() {
    for mechanism in MECHANISMS {
        ends("List", mechanism, lists(mechanism));
    }
}

#[test]
fn in_a_list_without_order() {
    for mechanism in MECHANISMS {
        ends("List without order", mechanism, newest_first(mechanism));
    }
}

#[test]
fn in_a_list_of_counted_values() {
    for mechanism in MECHANISMS {
        ends("RefList", mechanism, |_| {
            Counted::<Box<Probe>>::fresh(mechanism, false)
        });
    }
}

#[test]
fn in_a_list_of_visited_values() {
    for mechanism in MECHANISMS {
        ends("OneVisitorList", mechanism, |_| {
            Visited::<Box<Probe>>::fresh(mechanism)
        });
    }
}

#[test]
fn in_a_stack_with_two_ends() {
    for mechanism in MECHANISMS {
        ends("LinkedStack", mechanism, |_| {
            BothEnds::<Box<Probe>>::fresh(mechanism)
        });
    }
}
