//! The target `list`: nodes that lanes pop and push again, and nodes that are owned.

use std::sync::Arc;

use atomseq::percpu::{Link, List, Node, RawNode};

use super::objects::{LIST_SHELF, Object, Objects};
use crate::engine::Sabotage;
use crate::engine::invariant::{Checked, Violation, report};
use crate::engine::lane::{Activity, Lane, MAX_HELD};
use crate::engine::ledger::Ledger;
use crate::engine::{Interruptions, Round, STEPS, Setting, Target};

/// A list of objects, which are neither made nor dropped during the round.
pub struct ListRound {
    // Before the objects, so that it is dropped first.
    list: List<RawNode<Object>>,
    objects: Objects,
}

impl ListRound {
    /// Returns a list of so many objects.
    pub fn new(count: usize) -> ListRound {
        let listed = ListRound {
            list: List::new(),
            objects: Objects::new(count, LIST_SHELF),
        };
        (0..count as u32).for_each(|index| listed.push(index));
        listed
    }

    /// Returns the objects.
    pub fn objects(&self) -> &Objects {
        &self.objects
    }

    fn push(&self, index: u32) {
        // SAFETY: an object that no lane holds, in an arena that outlives the list.
        self.list
            .push(unsafe { RawNode::new(self.objects.address(index)) });
    }

    fn get(&self, lane: &mut Lane, node: RawNode<Object>) -> Checked {
        let index = self.objects.index(node.into_inner())?;
        self.objects.take(lane, index)
    }

    /// Pops a node, or pushes one back.
    pub fn interrupt(&self, lane: &mut Lane) -> Checked {
        if lane.held[LIST_SHELF].len() < MAX_HELD && lane.rng.bool() {
            lane.begin(Activity::Pop);
            return self.list.pop().map_or(Ok(()), |node| self.get(lane, node));
        }
        lane.begin(Activity::Push);
        if let Some(index) = self.objects.give_back(lane)? {
            if !lane.inject(Sabotage::Lose) {
                self.push(index);
            }
        }
        Ok(())
    }

    /// Drains the list; returns how many nodes there were.
    pub fn count_nodes(&self) -> Checked<u64> {
        let nodes = self.list.drain();
        nodes
            .map(|node| self.objects.index(node.into_inner()).map(|_| 1))
            .sum()
    }

    /// Drains the list; returns the nodes.
    pub fn all_nodes(&self) -> Checked<Vec<u32>> {
        self.list
            .drain()
            .map(|node| self.objects.index(node.into_inner()))
            .collect()
    }
}

impl Round for ListRound {
    fn step(&self, lane: &mut Lane) -> Checked {
        if lane.held[LIST_SHELF].len() == MAX_HELD || !lane.one_in(40) {
            return self.interrupt(lane);
        }
        lane.begin(Activity::Steal);
        let node = match lane.rng.bool() {
            true => self.list.steal(),
            false => self.list.steal_from(lane.rng.usize(..self.list.cpus())),
        };
        let Some(node) = node else { return Ok(()) };
        lane.closings += 1;
        self.get(lane, node)
    }

    fn interrupt(&self, lane: &mut Lane) -> Checked {
        self.interrupt(lane)
    }

    fn finish(&mut self, lanes: &mut [Lane]) -> Checked {
        self.objects.check_final(lanes, &self.all_nodes()?)
    }
}

/// The target `list`.
pub const TARGET: Target = Target {
    name: "list",
    group: "percpu",
    about: "no node is lost, linked twice or popped twice; owned nodes are dropped once",
    round,
    steps: STEPS,
    interruptions: Interruptions::Sent,
    counts: "",
};

fn round(setting: &mut Setting) -> Arc<dyn Round> {
    match setting.rng.u32(..3) {
        0 => Arc::new(OwnedNodes::new(setting)),
        // Sometimes fewer nodes than lanes can hold.
        _ => {
            let max = setting.lanes * MAX_HELD * 2;
            Arc::new(ListRound::new(setting.rng.usize(1..max)))
        }
    }
}

/// A node that counts as taken out when it is dropped.
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
        if let Err(violation) = self.ledger.out(self.value) {
            report(violation);
        }
    }
}

/// A list of boxes. Handlers do not use it: they must not allocate.
struct OwnedNodes {
    /// `None` only at the end of the round.
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
                lane.begin(Activity::Push);
                list.push(Box::new(OwnedNode {
                    value,
                    link: Link::new(),
                    ledger: self.ledger.clone(),
                }));
                return Ok(());
            }
            50..96 => {
                lane.begin(Activity::Pop);
                list.pop()
            }
            96 => {
                lane.begin(Activity::Steal);
                list.steal()
            }
            97..99 => {
                lane.begin(Activity::Steal);
                list.steal_from(lane.rng.usize(..list.cpus()))
            }
            _ => {
                lane.begin(Activity::Drain);
                // Dropping the iterator must drop the nodes that it has taken out.
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
            None => Err(Violation::new("a list was used after its end")),
        }
    }

    fn finish(&mut self, _lanes: &mut [Lane]) -> Checked {
        drop(self.list.take());
        self.ledger.check_final()
    }
}
