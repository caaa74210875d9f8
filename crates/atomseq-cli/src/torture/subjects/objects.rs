//! Objects that circulate: each is in exactly one pair of hands or at home, and whoever holds one fills it with a
//! pattern of its own. A double hand-out shows at once, by the state or by the pattern.

use std::ptr::NonNull;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use atomseq::percpu::{Batch, Link, List, Node, Pool, RawNode, Source};

use crate::torture::harness::lane::{Doing, Lane, MOST_HELD};
use crate::torture::harness::law::{Broken, Checked, report};
use crate::torture::harness::sabotage::Sabotage;
use crate::torture::harness::{Round, mix};

/// An object: the link for a list, who holds it, what the last holder wrote.
#[derive(Debug, Default)]
pub struct Object {
    mark: AtomicU64,
    link: Link,
    /// 0 at home, else the holder's lane plus one.
    holder: AtomicU64,
    pattern: [AtomicU64; 5],
    /// Only with a pool: not in the source.
    is_out: AtomicBool,
}

// SAFETY: the offset of the link.
unsafe impl Node for Object {
    const LINK: usize = std::mem::offset_of!(Object, link);
}

/// Where lanes keep what they have from a list, and from a pool.
const LIST_SHELF: usize = 0;
const POOL_SHELF: usize = 1;

/// All objects of a round.
#[derive(Debug)]
pub struct Objects {
    objects: Box<[Object]>,
    /// Where lanes keep them: see [`Lane::held`].
    shelf: usize,
}

impl Objects {
    /// So many objects, all at home.
    fn new(count: usize, shelf: usize) -> Objects {
        let objects: Box<[Object]> = (0..count).map(|_| Object::default()).collect();
        objects.iter().for_each(|object| object.write(0));
        Objects { objects, shelf }
    }

    /// A lane gets an object.
    pub fn taken(&self, lane: &mut Lane, index: u32) -> Checked {
        let Some(object) = self.objects.get(index as usize) else {
            return Err(
                Broken::new("an object came out that does not exist").with("object", index.into())
            );
        };
        let holder = lane.number as u64 + 1;
        // Relaxed: the structure orders it; that is what is being tested.
        let mut before = object.holder.swap(holder, Ordering::Relaxed);
        if lane.strikes(Sabotage::Duplicate) {
            before = object.holder.swap(holder, Ordering::Relaxed);
        }
        if before != 0 {
            return Err(
                Broken::new("an object was handed out while somebody held it")
                    .with("object", index.into())
                    .with("held by lane", before - 1)
                    .with("handed to lane", lane.number as u64),
            );
        }
        object.check(index)?;
        object.write(mix(holder << 32 ^ lane.rng.u64(..)));
        lane.held[self.shelf].push(index);
        Ok(())
    }

    /// A lane is about to give one of its objects back; `None` when it has none.
    pub fn given_back(&self, lane: &mut Lane) -> Checked<Option<u32>> {
        let held = &mut lane.held[self.shelf];
        if held.is_empty() {
            return Ok(None);
        }
        let index = held.swap_remove(lane.rng.usize(..held.len()));
        let object = &self.objects[index as usize];
        object.check(index)?;
        let holder = object.holder.swap(0, Ordering::Relaxed);
        if holder != lane.number as u64 + 1 {
            return Err(Broken::new("an object changed hands while it was held")
                .with("object", index.into())
                .with("held by lane", lane.number as u64));
        }
        Ok(Some(index))
    }

    /// At the end: every object is in the given hands, and in those only.
    pub fn settle(&self, lanes: &[Lane], home: &[u32]) -> Checked {
        let mut found = vec![0u32; self.objects.len()];
        let held = lanes.iter().flat_map(|lane| &lane.held[self.shelf]);
        held.chain(home)
            .for_each(|index| found[*index as usize] += 1);
        match found.iter().position(|times| *times != 1) {
            None => Ok(()),
            Some(index) if found[index] == 0 => {
                let lost = found.iter().filter(|times| **times == 0).count();
                Err(Broken::new("objects were lost")
                    .with("lost", lost as u64)
                    .with("object", index as u64))
            }
            Some(index) => {
                Err(Broken::new("an object was in two places at the end")
                    .with("object", index as u64))
            }
        }
    }

    /// How many there are.
    pub fn count(&self) -> usize {
        self.objects.len()
    }

    /// How many are at home, by what they say.
    pub fn at_home(&self) -> usize {
        let home = self
            .objects
            .iter()
            .filter(|object| object.holder.load(Ordering::Relaxed) == 0);
        home.count()
    }

    /// How many are in no source.
    pub fn out_of_source(&self) -> usize {
        self.objects
            .iter()
            .filter(|object| object.is_out.load(Ordering::Relaxed))
            .count()
    }

    fn address(&self, index: u32) -> NonNull<Object> {
        NonNull::from(&self.objects[index as usize])
    }

    fn index(&self, address: NonNull<Object>) -> Checked<u32> {
        let offset = (address.as_ptr() as usize).wrapping_sub(self.objects.as_ptr() as usize);
        match offset % size_of::<Object>() {
            0 if offset / size_of::<Object>() < self.objects.len() => {
                Ok((offset / size_of::<Object>()) as u32)
            }
            _ => Err(Broken::new("a node came out that nobody put in")
                .with("address", address.as_ptr() as u64)),
        }
    }
}

impl Object {
    fn write(&self, mark: u64) {
        self.mark.store(mark, Ordering::Relaxed);
        for (word, index) in self.pattern.iter().zip(1..) {
            word.store(mix(mark.wrapping_add(index)), Ordering::Relaxed);
        }
    }

    fn check(&self, index: u32) -> Checked {
        let mark = self.mark.load(Ordering::Relaxed);
        for (word, place) in self.pattern.iter().zip(1..) {
            let seen = word.load(Ordering::Relaxed);
            if seen != mix(mark.wrapping_add(place)) {
                return Err(
                    Broken::new("an object's memory changed outside its holder's hands")
                        .with("object", index.into())
                        .with("word", place)
                        .with("it reads", seen),
                );
            }
        }
        Ok(())
    }
}

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
        if lane.held[LIST_SHELF].len() < MOST_HELD && lane.rng.bool() {
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
        if lane.held[LIST_SHELF].len() == MOST_HELD || !lane.one_in(40) {
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

/// A source that hands out the objects of an arena, without lock or allocation.
#[derive(Debug)]
pub struct Store(Arc<Objects>);

/// How many objects the store hands out at once.
const REFILL: usize = 12;

impl Source<usize> for Store {
    fn refill(&self, batch: &mut Batch<usize>) {
        for (index, object) in self.0.objects.iter().enumerate() {
            // A look before the exchange: most are out.
            let is_in = !object.is_out.load(Ordering::Relaxed);
            if is_in && !object.is_out.swap(true, Ordering::Acquire) && batch.push(index).is_err() {
                report(Broken::new("a batch had no room for a refill"));
            }
            if batch.len() == REFILL {
                break;
            }
        }
    }

    fn spill(&self, batch: &mut Batch<usize>) {
        for index in batch {
            // Release: pairs with the acquire in `refill`.
            let was_out = self
                .0
                .objects
                .get(index)
                .is_some_and(|object| object.is_out.swap(false, Ordering::Release));
            if !was_out {
                report(
                    Broken::new("a pool gave the source what it had not got")
                        .with("object", index as u64),
                );
            }
        }
    }
}

/// A pool of objects over a store of them.
pub struct Pooled {
    /// `None` only at the very end.
    pool: Option<Pool<usize, Store>>,
    objects: Arc<Objects>,
}

impl Pooled {
    /// A pool of up to `capacity` a CPU, over so many objects.
    pub fn new(capacity: usize, count: usize) -> Pooled {
        let objects = Arc::new(Objects::new(count, POOL_SHELF));
        Pooled {
            pool: Some(Pool::new(capacity, Store(objects.clone()))),
            objects,
        }
    }

    /// The objects.
    pub fn objects(&self) -> &Objects {
        &self.objects
    }

    /// The pool.
    pub fn pool(&self) -> &Pool<usize, Store> {
        self.pool
            .as_ref()
            .expect("the pool goes when the round is finished")
    }

    /// Gets an object or gives one back.
    pub fn interrupt(&self, lane: &mut Lane) -> Checked {
        let pool = self.pool();
        if lane.held[POOL_SHELF].len() < MOST_HELD && lane.rng.bool() {
            lane.begin(Doing::Get);
            let object = match lane.one_in(8) {
                true => pool.lease().map(atomseq::percpu::Lease::into_inner),
                false => pool.get(),
            };
            return object.map_or(Ok(()), |index| self.objects.taken(lane, number(index)));
        }
        lane.begin(Doing::Put);
        if let Some(index) = self.objects.given_back(lane)? {
            if !lane.strikes(Sabotage::Lose) {
                pool.put(index as usize);
            }
        }
        Ok(())
    }
}

/// A pool's object as a number; no object has the number that stands for those that do not exist.
fn number(index: usize) -> u32 {
    u32::try_from(index).unwrap_or(u32::MAX)
}

impl Round for Pooled {
    fn step(&self, lane: &mut Lane) -> Checked {
        if lane.held[POOL_SHELF].len() == MOST_HELD || !lane.one_in(40) {
            return self.interrupt(lane);
        }
        lane.begin(Doing::Steal);
        let object = match lane.rng.bool() {
            true => self.pool().steal(),
            false => self.pool().steal_from(lane.rng.usize(..self.pool().cpus())),
        };
        let Some(index) = object else { return Ok(()) };
        lane.closings += 1;
        self.objects.taken(lane, number(index))
    }

    fn interrupt(&self, lane: &mut Lane) -> Checked {
        self.interrupt(lane)
    }

    fn finish(&mut self, lanes: &mut [Lane]) -> Checked {
        // Dropped, a pool gives everything it has back to its source.
        drop(self.pool.take());
        let home = self
            .objects
            .objects
            .iter()
            .zip(0..)
            .filter(|(object, _)| !object.is_out.load(Ordering::Relaxed));
        let home: Vec<u32> = home.map(|(_, index)| index).collect();
        self.objects.settle(lanes, &home)
    }
}
