//! A round on a list of objects that circulate.

use atomseq::percpu::{List, RawNode};

use super::objects::{LIST_SHELF, Object, Objects};
use crate::torture::harness::Round;
use crate::torture::harness::lane::{Doing, Lane, MAX_HELD};
use crate::torture::harness::law::Checked;
use crate::torture::harness::sabotage::Sabotage;

/// A list of objects; none is made or dropped.
pub struct Listed {
    // Before the objects: dropped first.
    list: List<RawNode<Object>>,
    objects: Objects,
}

impl Listed {
    /// A list of so many objects.
    pub fn new(count: usize) -> Listed {
        let listed = Listed {
            list: List::new(),
            objects: Objects::new(count, LIST_SHELF),
        };
        (0..count as u32).for_each(|index| listed.push(index));
        listed
    }

    /// The objects.
    pub fn objects(&self) -> &Objects {
        &self.objects
    }

    fn push(&self, index: u32) {
        // SAFETY: an object that nobody holds, in an arena that outlives the list.
        self.list
            .push(unsafe { RawNode::new(self.objects.address(index)) });
    }

    fn get(&self, lane: &mut Lane, node: RawNode<Object>) -> Checked {
        let index = self.objects.index(node.into_inner())?;
        self.objects.taken(lane, index)
    }

    /// Gets a node or gives one back.
    pub fn interrupt(&self, lane: &mut Lane) -> Checked {
        if lane.held[LIST_SHELF].len() < MAX_HELD && lane.rng.bool() {
            lane.begin(Doing::Pop);
            return self.list.pop().map_or(Ok(()), |node| self.get(lane, node));
        }
        lane.begin(Doing::Push);
        if let Some(index) = self.objects.given_back(lane)? {
            if !lane.strikes(Sabotage::Lose) {
                self.push(index);
            }
        }
        Ok(())
    }

    /// Takes every node out of the list and says how many there were.
    pub fn count_nodes(&self) -> Checked<u64> {
        let nodes = self.list.drain();
        nodes
            .map(|node| self.objects.index(node.into_inner()).map(|_| 1))
            .sum()
    }

    /// Takes every node out of the list.
    pub fn all_nodes(&self) -> Checked<Vec<u32>> {
        self.list
            .drain()
            .map(|node| self.objects.index(node.into_inner()))
            .collect()
    }
}

impl Round for Listed {
    fn step(&self, lane: &mut Lane) -> Checked {
        if lane.held[LIST_SHELF].len() == MAX_HELD || !lane.one_in(40) {
            return self.interrupt(lane);
        }
        lane.begin(Doing::Steal);
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
        self.objects.settle(lanes, &self.all_nodes()?)
    }
}
