//! Objects that circulate: each is in exactly one pair of hands or at home, and whoever holds one
//! fills it with a pattern of its own. A double hand-out shows at once, by the state or by the
//! pattern.

use std::ptr::NonNull;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use atomseq::percpu::{Link, Node};

use crate::torture::harness::lane::Lane;
use crate::torture::harness::law::{Broken, Checked};
use crate::torture::harness::mix;
use crate::torture::harness::sabotage::Sabotage;

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
pub const LIST_SHELF: usize = 0;
pub const POOL_SHELF: usize = 1;

/// All objects of a round.
#[derive(Debug)]
pub struct Objects {
    objects: Box<[Object]>,
    /// Where lanes keep them: see [`Lane::held`].
    shelf: usize,
}

impl Objects {
    /// So many objects, all at home.
    pub fn new(count: usize, shelf: usize) -> Objects {
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

    /// Takes an object out of the source; false if it is not in it.
    pub fn leaves_source(&self, index: usize) -> bool {
        let is_out = &self.objects[index].is_out;
        // A look before the exchange: most are out. Acquire: pairs with the release in
        // `returns_to_source`.
        !is_out.load(Ordering::Relaxed) && !is_out.swap(true, Ordering::Acquire)
    }

    /// Puts an object into the source; false if it was in it, or does not exist.
    pub fn returns_to_source(&self, index: usize) -> bool {
        let object = self.objects.get(index);
        // Release: pairs with the acquire in `leaves_source`.
        object.is_some_and(|object| object.is_out.swap(false, Ordering::Release))
    }

    /// The objects in the source.
    pub fn in_source(&self) -> impl Iterator<Item = u32> {
        let objects = self.objects.iter().zip(0..);
        objects
            .filter(|(object, _)| !object.is_out.load(Ordering::Relaxed))
            .map(|(_, index)| index)
    }

    /// Where an object lies.
    pub fn address(&self, index: u32) -> NonNull<Object> {
        NonNull::from(&self.objects[index as usize])
    }

    /// Which object lies there.
    pub fn index(&self, address: NonNull<Object>) -> Checked<u32> {
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
