//! Tests of every structure, under both mechanisms.

use super::*;
use crate::dcas::{Cell, Change, Domain, Mechanism, Version};
use crate::tests::rounds;

mod arrays;
mod hash_map;
mod linked;
mod list;
mod list_cache;
mod multi_map;
mod one_visitor;
mod page_map;
mod panics;
mod plain;
mod priority_queue;
mod ref_hash_map;
mod ref_list;
mod server;
mod values;

const MECHANISMS: [Mechanism; 2] = [Mechanism::Assisted, Mechanism::Kcas];

/// Everything is slower without optimization, and under k-CAS, the only mechanism of the portable
/// build.
const SCALE: usize = if cfg!(any(not(atomseq_sections), debug_assertions)) {
    1
} else {
    8
};

/// Every structure counts versions from 1, under both mechanisms.
#[test]
fn a_version_is_one_more_than_the_modifications() {
    for mechanism in MECHANISMS {
        let (stack, linked) = (Stack::forced(4, mechanism), LinkedStack::forced(mechanism));
        let (list, counted) = (List::forced(mechanism), RefList::forced(mechanism));
        let visited = OneVisitorList::forced(mechanism);
        let domain = Domain::forced(Cell::new(0), mechanism);
        let versions = || {
            [
                stack.version(),
                domain.version(),
                linked.version(),
                list.version(),
                counted.version(),
                visited.version(),
            ]
            .map(Version::number)
        };
        assert_eq!(versions(), [1; 6], "{mechanism:?}");
        stack.push(1).unwrap();
        domain.compare_exchange(Change::of(&domain, 0, 1)).unwrap();
        linked.push(1).unwrap();
        list.try_insert(1, 1).unwrap();
        counted.push_front(1).unwrap();
        visited.push_front(1).unwrap();
        let [stack, others @ ..] = versions();
        assert_eq!(stack, 2, "{mechanism:?}");
        // In the others, interrupted attempts may count, if they are rolled back.
        let is_exact = linked.mechanism() == Mechanism::Kcas;
        let is_right = |version: &u64| *version == 2 || (*version > 2 && !is_exact);
        assert!(others.iter().all(is_right), "{mechanism:?}: {others:?}");
    }
}

/// The time for which the threads of a test wait for each other.
struct Patience(std::time::Instant);

impl Patience {
    fn new() -> Patience {
        Patience(std::time::Instant::now())
    }

    /// Yields the CPU.
    ///
    /// # Panics
    ///
    /// After a minute: the awaited value is lost, or another thread of the test has failed.
    fn wait(&self) {
        assert!(self.0.elapsed().as_secs() < 60, "it does not come");
        std::thread::yield_now();
    }
}
