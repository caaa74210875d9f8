//! Memory: descriptors allocated, filled, checked and freed, with a limit, stale references, and
//! pages given back.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::time::Duration;

use atomseq::type_stable::{Error, Pool};

use crate::torture::harness::lane::{Doing, Lane, MAX_HELD};
use crate::torture::harness::law::{Broken, Checked};
use crate::torture::harness::sabotage::Sabotage;
use crate::torture::harness::{Interruptions, Round, STEPS, Setting, Target, mix};

/// The target.
pub const TARGET: Target = Target {
    name: "memory",
    about: "no descriptor is handed to two owners, changed while held, or lost; stale references know it",
    round,
    steps: STEPS,
    interruptions: Interruptions::Timed,
    counts: "",
};

/// Who has it, and three words that follow from the first.
type Descriptor = [AtomicU64; 4];

struct Memory {
    pool: Pool<Descriptor>,
    /// What each lane has, by address; 0 for nothing.
    hands: Vec<[AtomicUsize; MAX_HELD]>,
    /// Each owner's number is another one.
    owners: AtomicU64,
}

fn round(setting: &mut Setting) -> Arc<dyn Round> {
    let options = Pool::options().cached(1 << setting.rng.u32(0..=6));
    // Now and then fewer descriptors than hands.
    let options = match setting.rng.bool() {
        true => options.limit(setting.rng.usize(1..setting.lanes * MAX_HELD * 2)),
        false => options,
    };
    let options = match setting.rng.bool() {
        true => options.stable_for(Duration::from_millis(1)),
        false => options,
    };
    let pool = options.build().unwrap_or_else(|error| panic!("{error}"));
    Arc::new(Memory {
        pool,
        hands: (0..setting.lanes).map(|_| Default::default()).collect(),
        owners: AtomicU64::new(1),
    })
}

impl Memory {
    fn operate(&self, lane: &mut Lane) -> Checked {
        let slot = lane.rng.usize(..MAX_HELD);
        // Relaxed throughout: the lane's own, and what is in a descriptor is its owner's.
        let hand = &self.hands[lane.number][slot];
        match hand.load(Ordering::Relaxed) {
            0 => self.allocate(lane, hand),
            address => self.free(lane, hand, address),
        }
    }

    fn allocate(&self, lane: &mut Lane, hand: &AtomicUsize) -> Checked {
        lane.begin(Doing::Get);
        let allocated = match self.pool.allocate() {
            Ok(allocated) => allocated,
            // All are in somebody's hands, or on their way.
            Err(Error::LimitReached) => return Ok(()),
            Err(_) => return Err(Broken::new("there is no memory for a descriptor")),
        };
        let reference = allocated.reference();
        let before = allocated[0].swap(0, Ordering::Relaxed);
        // Who frees one says so in it. Pages that were given back are zeros.
        if before % 2 == 1 {
            let broken = Broken::new("a descriptor was handed out that somebody has");
            return Err(broken.with("its owner", before / 2));
        }
        let owner = self.owners.fetch_add(1, Ordering::Relaxed) * 2 + 1;
        for (word, value) in allocated.iter().zip(contents(owner)) {
            word.store(value, Ordering::Relaxed);
        }
        let seen = reference.read(|words| words[0].load(Ordering::Relaxed));
        if seen != Some(owner) {
            return Err(
                Broken::new("a reference did not find its descriptor").with("owner", owner / 2)
            );
        }
        let address = allocated.address();
        if lane.strikes(Sabotage::Duplicate) {
            allocated[0].store(owner, Ordering::Relaxed);
            drop(allocated);
        } else {
            allocated.into_raw();
        }
        if !lane.strikes(Sabotage::Lose) {
            hand.store(address, Ordering::Relaxed);
        }
        Ok(())
    }

    fn free(&self, lane: &mut Lane, hand: &AtomicUsize, address: usize) -> Checked {
        lane.begin(Doing::Put);
        let strange = Broken::new("a descriptor in somebody's hands is none of its pool");
        let descriptor = self.pool.descriptor_at(address).ok_or(strange)?;
        let words = descriptor
            .each_ref()
            .map(|word| word.load(Ordering::Relaxed));
        if words != contents(words[0]) || words[0] % 2 == 0 {
            let broken = Broken::new("a descriptor was changed while somebody had it");
            return Err(broken.with("its owner", words[0] / 2));
        }
        let reference = self.pool.reference_at(address);
        descriptor[0].store(words[0] - 1, Ordering::Relaxed);
        hand.store(0, Ordering::Relaxed);
        // SAFETY: this lane had it from `into_raw`, and has just let go of it.
        drop(unsafe { self.pool.adopt(descriptor) });
        match reference {
            Some(reference) if reference.is_current() => {
                Err(Broken::new("a stale reference does not know it"))
            }
            Some(_) => Ok(()),
            None => Err(Broken::new("a descriptor in somebody's hands was free")),
        }
    }
}

fn contents(owner: u64) -> [u64; 4] {
    [owner, mix(owner), mix(owner + 1), !owner]
}

impl Round for Memory {
    fn step(&self, lane: &mut Lane) -> Checked {
        if lane.one_in(500) {
            lane.begin(Doing::Drain);
            self.pool.trim();
            return Ok(());
        }
        self.operate(lane)
    }

    fn interrupt(&self, lane: &mut Lane) -> Checked {
        self.operate(lane)
    }

    fn finish(&mut self, lanes: &mut [Lane]) -> Checked {
        let held = |lane: &Lane| {
            let hands = self.hands[lane.number].iter();
            hands
                .filter(|hand| hand.load(Ordering::Relaxed) != 0)
                .count() as u64
        };
        let held: u64 = lanes.iter().map(held).sum();
        let allocated = self.pool.allocated().count() as u64;
        if allocated != held {
            let broken =
                Broken::new("descriptors are allocated that nobody has, or free that somebody has");
            return Err(broken.with("allocated", allocated).with("in hands", held));
        }
        for lane in lanes {
            for slot in 0..MAX_HELD {
                let hand = &self.hands[lane.number][slot];
                let address = hand.load(Ordering::Relaxed);
                if address != 0 {
                    self.free(lane, hand, address)?;
                }
            }
        }
        match self.pool.allocated().count() {
            0 => Ok(()),
            left => Err(Broken::new("descriptors stay allocated").with("how many", left as u64)),
        }
    }
}
