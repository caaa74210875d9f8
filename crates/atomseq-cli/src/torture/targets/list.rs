//! List: nodes that circulate, and nodes that are owned.

use std::sync::Arc;

use atomseq::percpu::{Link, List, Node};

use crate::torture::harness::lane::{Doing, Lane, MAX_HELD};
use crate::torture::harness::law::{Broken, Checked, report};
use crate::torture::harness::ledger::Ledger;
use crate::torture::harness::{Interruptions, Round, STEPS, Setting, Target};
use crate::torture::subjects::listed::Listed;

/// The target.
pub const TARGET: Target = Target {
    name: "list",
    about: "no node is lost, linked twice or handed to two threads; owned nodes are dropped once",
    round,
    steps: STEPS,
    interruptions: Interruptions::Sent,
    counts: "",
};

fn round(setting: &mut Setting) -> Arc<dyn Round> {
    match setting.rng.u32(..3) {
        0 => Arc::new(OwnedNodes::new(setting)),
        // Now and then more hands than nodes.
        _ => {
            let most = setting.lanes * MAX_HELD * 2;
            Arc::new(Listed::new(setting.rng.usize(1..most)))
        }
    }
}

/// A node that says when it is dropped.
struct OwnedNode {
    value: u64,
    link: Link,
    ledger: Arc<Ledger>,
}

// SAFETY: the offset of the link.
unsafe impl Node for OwnedNode {
    const LINK: usize = std::mem::offset_of!(OwnedNode, link);
}

impl Drop for OwnedNode {
    fn drop(&mut self) {
        if let Err(broken) = self.ledger.out(self.value) {
            report(broken);
        }
    }
}

/// A list of boxes; handlers have no part in it, since boxes come from an allocator.
struct OwnedNodes {
    /// `None` only at the very end.
    list: Option<List<Box<OwnedNode>>>,
    ledger: Arc<Ledger>,
}

impl OwnedNodes {
    fn new(setting: &Setting) -> OwnedNodes {
        OwnedNodes {
            list: Some(List::new()),
            ledger: Arc::new(Ledger::new(setting.salt, setting.lanes, STEPS)),
        }
    }

    fn step(&self, list: &List<Box<OwnedNode>>, lane: &mut Lane) -> Checked {
        let node = match lane.rng.u32(..100) {
            0..50 => {
                let Some(value) = self.ledger.issue(lane) else {
                    return Ok(());
                };
                lane.begin(Doing::Push);
                list.push(Box::new(OwnedNode {
                    value,
                    link: Link::new(),
                    ledger: self.ledger.clone(),
                }));
                return Ok(());
            }
            50..96 => {
                lane.begin(Doing::Pop);
                list.pop()
            }
            96 => {
                lane.begin(Doing::Steal);
                list.steal()
            }
            97..99 => {
                lane.begin(Doing::Steal);
                list.steal_from(lane.rng.usize(..list.cpus()))
            }
            _ => {
                lane.begin(Doing::Drain);
                // Those that are taken out but not asked for must be dropped, too.
                list.drain().take(lane.rng.usize(..20)).for_each(drop);
                None
            }
        };
        match node {
            Some(node) => self.ledger.read(node.value).map(drop),
            None => Ok(()),
        }
    }
}

impl Round for OwnedNodes {
    fn step(&self, lane: &mut Lane) -> Checked {
        match &self.list {
            Some(list) => self.step(list, lane),
            None => Err(Broken::new("a list was used after its end")),
        }
    }

    fn finish(&mut self, _lanes: &mut [Lane]) -> Checked {
        drop(self.list.take());
        self.ledger.settle()
    }
}
