//! Objects of lists and pools: each is held by exactly one lane, or free. Its holder fills it with
//! a pattern of its own. An object that is given to two lanes shows at once, by its holder or its
//! pattern.

use std::ptr::NonNull;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use atomseq::percpu::{Link, Node};

use crate::engine::invariant::{Checked, Violation};
use crate::engine::lane::Lane;
use crate::engine::{Sabotage, mix};

/// An object: the link for a list, its holder, and what the last holder wrote.
#[derive(Debug, Default)]
pub struct Object {
    mark: AtomicU64,
    link: Link,
    /// 0 if it is free, else the holder's lane plus one.
    holder: AtomicU64,
    pattern: [AtomicU64; 5],
    /// Used by pools: whether it is not in the source.
    is_out: AtomicBool,
}

// SAFETY: the offset of the link.
unsafe impl Node for Object {
    const LINK: usize = std::mem::offset_of!(Object, link);
}

/// Where lanes keep what they have from a list, and from a pool: see [`Lane::held`].
pub const LIST_SHELF: usize = 0;
pub const POOL_SHELF: usize = 1;

/// A violation of lists and pools.
pub const GIVEN_TWICE: &str = "an object was given to a lane while another held it";

/// All objects of a round.
#[derive(Debug)]
pub struct Objects {
    objects: Box<[Object]>,
    /// Where lanes keep them.
    shelf: usize,
}

impl Objects {
    /// Returns so many objects, all of them free.
    pub fn new(count: usize, shelf: usize) -> Objects {
        let objects: Box<[Object]> = (0..count).map(|_| Object::default()).collect();
        objects.iter().for_each(|object| object.write(0));
        Objects { objects, shelf }
    }

    /// Makes a lane the holder of an object.
    pub fn take(&self, lane: &mut Lane, index: u32) -> Checked {
        let Some(object) = self.objects.get(index as usize) else {
            return Err(
                Violation::new("an object was taken out that does not exist")
                    .with("object", index.into()),
            );
        };
        let holder = lane.number as u64 + 1;
        // Relaxed: the structure under test must order it.
        let mut before = object.holder.swap(holder, Ordering::Relaxed);
        if lane.inject(Sabotage::Duplicate) {
            before = object.holder.swap(holder, Ordering::Relaxed);
        }
        if before != 0 {
            return Err(Violation::new(GIVEN_TWICE)
                .with("object", index.into())
                .with("held by lane", before - 1)
                .with("given to lane", lane.number as u64));
        }
        object.check(index)?;
        object.write(mix(holder << 32 ^ lane.rng.u64(..)));
        lane.held[self.shelf].push(index);
        Ok(())
    }

    /// Frees one of the objects that a lane holds, and returns it; `None` if it holds none.
    pub fn give_back(&self, lane: &mut Lane) -> Checked<Option<u32>> {
        let held = &mut lane.held[self.shelf];
        if held.is_empty() {
            return Ok(None);
        }
        let index = held.swap_remove(lane.rng.usize(..held.len()));
        let object = &self.objects[index as usize];
        object.check(index)?;
        let holder = object.holder.swap(0, Ordering::Relaxed);
        if holder != lane.number as u64 + 1 {
            return Err(
                Violation::new("an object changed its holder while it was held")
                    .with("object", index.into())
                    .with("held by lane", lane.number as u64),
            );
        }
        Ok(Some(index))
    }

    /// Checks that each object is either held by one lane or among those that are `free`.
    pub fn check_final(&self, lanes: &[Lane], free: &[u32]) -> Checked {
        let mut found = vec![0u32; self.objects.len()];
        let held = lanes.iter().flat_map(|lane| &lane.held[self.shelf]);
        held.chain(free)
            .for_each(|index| found[*index as usize] += 1);
        match found.iter().position(|times| *times != 1) {
            None => Ok(()),
            Some(index) if found[index] == 0 => {
                let lost = found.iter().filter(|times| **times == 0).count();
                Err(Violation::new("objects were lost")
                    .with("lost", lost as u64)
                    .with("object", index as u64))
            }
            Some(index) => Err(Violation::new("an object was in two places at the end")
                .with("object", index as u64)),
        }
    }

    /// Returns how many objects there are.
    pub fn count(&self) -> usize {
        self.objects.len()
    }

    /// Returns how many are free, by their holder.
    pub fn free(&self) -> usize {
        let free = self
            .objects
            .iter()
            .filter(|object| object.holder.load(Ordering::Relaxed) == 0);
        free.count()
    }

    /// Takes an object out of the source; false if it is not there.
    pub fn leave_source(&self, index: usize) -> bool {
        let is_out = &self.objects[index].is_out;
        // A load before the exchange: most are out. Acquire: pairs with the release in
        // `return_to_source`.
        !is_out.load(Ordering::Relaxed) && !is_out.swap(true, Ordering::Acquire)
    }

    /// Puts an object into the source; false if it is there, or does not exist.
    pub fn return_to_source(&self, index: usize) -> bool {
        let object = self.objects.get(index);
        // Release: pairs with the acquire in `leave_source`.
        object.is_some_and(|object| object.is_out.swap(false, Ordering::Release))
    }

    /// Returns the objects in the source.
    pub fn in_source(&self) -> impl Iterator<Item = u32> {
        let objects = self.objects.iter().zip(0..);
        objects
            .filter(|(object, _)| !object.is_out.load(Ordering::Relaxed))
            .map(|(_, index)| index)
    }

    /// Returns the address of an object.
    pub fn address(&self, index: u32) -> NonNull<Object> {
        NonNull::from(&self.objects[index as usize])
    }

    /// Returns the object at an address.
    ///
    /// # Errors
    ///
    /// If there is none.
    pub fn index(&self, address: NonNull<Object>) -> Checked<u32> {
        let offset = (address.as_ptr() as usize).wrapping_sub(self.objects.as_ptr() as usize);
        match offset % size_of::<Object>() {
            0 if offset / size_of::<Object>() < self.objects.len() => {
                Ok((offset / size_of::<Object>()) as u32)
            }
            _ => Err(Violation::new("a node was taken out that was never put in")
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
                return Err(Violation::new(
                    "an object's memory was changed by another than its holder",
                )
                .with("object", index.into())
                .with("word", place)
                .with("it reads", seen));
            }
        }
        Ok(())
    }
}
