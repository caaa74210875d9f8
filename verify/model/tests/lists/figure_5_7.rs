//! S92 figure 5.7 as printed, to find out what is wrong with it: the link of a deleted node leads
//! on to one that was deleted after it, and serves another purpose.

use std::sync::Arc;

use shuttle::thread;

use crate::dcas::{Protection, StableWord};
use crate::explore::fails;

/// Three nodes; a link is a node's number and one, or 0.
#[derive(Default)]
struct Nodes {
    next: [StableWord; 3],
    count: [StableWord; 3],
}

/// `VisitNextNode(current)`.
fn visit_next(nodes: &Nodes, current: usize) -> Option<usize> {
    loop {
        let link = &nodes.next[current];
        let next = link.get();
        if next == 0 {
            return None;
        }
        let count = &nodes.count[next as usize - 1];
        let old = count.get();
        if StableWord::cas2([link, count], [next, old], [next, old + 1]) {
            return Some(next as usize - 1);
        }
    }
}

#[test]
fn a_visitor_of_a_deleted_node_counts_itself_in_elsewhere() {
    let model = || {
        let nodes = Arc::new(Nodes::default());
        // 0 → 1 → 2, each counted once for being in the list, and 1 once more for the visitor.
        nodes.next[0].set(2);
        nodes.next[1].set(3);
        nodes.count.iter().for_each(|count| count.set(1));
        nodes.count[1].set(2);
        let deleter = Arc::clone(&nodes);
        let deleter = thread::spawn(move || {
            // Deletes 1, which its visitor keeps, and then 2, which nobody does: it is deallocated,
            // and serves another purpose, with a count of its own.
            deleter.next[0].set(3);
            deleter.count[1].set(1);
            deleter.next[0].set(0);
            deleter.count[2].set(0);
            deleter.count[2].set(100);
        });
        let visited = visit_next(&nodes, 1);
        deleter.join().unwrap();
        if visited == Some(2) {
            assert_ne!(nodes.count[2].get(), 101, "a guard of what is no node");
        }
    };
    fails(
        "figure 5.7 as printed",
        "a guard of what is no node",
        Protection::RemovedLink,
        model,
    );
}
