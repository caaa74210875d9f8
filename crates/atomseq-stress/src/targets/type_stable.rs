//! The target `type_stable`: descriptors that are allocated, filled, checked and freed, with a
//! limit, stale references, and pages that are returned to the system.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::time::Duration;

use atomseq::type_stable::{Error, Pool};

use crate::engine::invariant::{Checked, Violation};
use crate::engine::lane::{Activity, Lane, MAX_HELD};
use crate::engine::{Interruptions, Round, STEPS, Sabotage, Setting, Target, mix};

/// The target `type_stable`.
pub const TARGET: Target = Target {
    name: "type_stable",
    group: "type_stable",
    about: "no descriptor is lost or has two owners; stale references are detected",
    round,
    steps: STEPS,
    interruptions: Interruptions::Timed,
    counts: "",
};

/// Its owner, and three words that follow from the first.
type Descriptor = [AtomicU64; 4];

struct TypeStableRound {
    pool: Pool<Descriptor>,
    /// The addresses of what each lane owns; 0 for nothing.
    owned: Vec<[AtomicUsize; MAX_HELD]>,
    /// The number of the next owner.
    owners: AtomicU64,
}

fn round(setting: &mut Setting) -> Arc<dyn Round> {
    let options = Pool::options().cached(1 << setting.rng.u32(0..=6));
    // Sometimes fewer descriptors than lanes can own.
    let options = match setting.rng.bool() {
        true => options.limit(setting.rng.usize(1..setting.lanes * MAX_HELD * 2)),
        false => options,
    };
    let options = match setting.rng.bool() {
        true => options.stable_for(Duration::from_millis(1)),
        false => options,
    };
    let pool = options
        .try_build()
        .unwrap_or_else(|error| panic!("{error}"));
    Arc::new(TypeStableRound {
        pool,
        owned: (0..setting.lanes).map(|_| Default::default()).collect(),
        owners: AtomicU64::new(1),
    })
}

impl TypeStableRound {
    fn operate(&self, lane: &mut Lane) -> Checked {
        let slot = lane.rng.usize(..MAX_HELD);
        // Relaxed throughout: words that only this lane writes, or the owner of a descriptor.
        let entry = &self.owned[lane.number][slot];
        match entry.load(Ordering::Relaxed) {
            0 => self.allocate(lane, entry),
            address => self.free(lane, entry, address),
        }
    }

    fn allocate(&self, lane: &mut Lane, entry: &AtomicUsize) -> Checked {
        lane.begin(Activity::Get);
        let allocated = match self.pool.allocate() {
            Ok(allocated) => allocated,
            // All are owned, or on their way.
            Err(Error::LimitReached) => return Ok(()),
            Err(_) => return Err(Violation::new("there is no memory for a descriptor")),
        };
        let reference = allocated.reference();
        let before = allocated[0].swap(0, Ordering::Relaxed);
        // The lane that frees one clears the lowest bit. Pages that were returned to the system are
        // zeros.
        if before % 2 == 1 {
            let violation = Violation::new("a descriptor was allocated that another lane owns");
            return Err(violation.with("its owner", before / 2));
        }
        let owner = self.owners.fetch_add(1, Ordering::Relaxed) * 2 + 1;
        for (word, value) in allocated.iter().zip(contents(owner)) {
            word.store(value, Ordering::Relaxed);
        }
        let seen = reference.read(|words| words[0].load(Ordering::Relaxed));
        if seen != Some(owner) {
            return Err(
                Violation::new("a reference did not find its descriptor").with("owner", owner / 2)
            );
        }
        let address = allocated.address();
        if lane.inject(Sabotage::Duplicate) {
            allocated[0].store(owner, Ordering::Relaxed);
            drop(allocated);
        } else {
            allocated.into_raw();
        }
        if !lane.inject(Sabotage::Lose) {
            entry.store(address, Ordering::Relaxed);
        }
        Ok(())
    }

    fn free(&self, lane: &mut Lane, entry: &AtomicUsize, address: usize) -> Checked {
        lane.begin(Activity::Put);
        let strange = Violation::new("an owned descriptor is not in its pool");
        let descriptor = self.pool.descriptor_at(address).ok_or(strange)?;
        let words = descriptor
            .each_ref()
            .map(|word| word.load(Ordering::Relaxed));
        if words != contents(words[0]) || words[0] % 2 == 0 {
            let violation = Violation::new("a descriptor was changed by another than its owner");
            return Err(violation.with("its owner", words[0] / 2));
        }
        let reference = self.pool.reference_at(address);
        descriptor[0].store(words[0] - 1, Ordering::Relaxed);
        entry.store(0, Ordering::Relaxed);
        // SAFETY: this lane got it from `into_raw`, and does not use it any more.
        drop(unsafe { self.pool.adopt(descriptor) });
        match reference {
            Some(reference) if reference.is_current() => Err(Violation::new(
                "a stale reference did not detect that its descriptor was freed",
            )),
            Some(_) => Ok(()),
            None => Err(Violation::new("an owned descriptor was free")),
        }
    }
}

fn contents(owner: u64) -> [u64; 4] {
    [owner, mix(owner), mix(owner + 1), !owner]
}

impl Round for TypeStableRound {
    fn step(&self, lane: &mut Lane) -> Checked {
        if lane.one_in(500) {
            lane.begin(Activity::Drain);
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
            let owned = self.owned[lane.number].iter();
            owned
                .filter(|entry| entry.load(Ordering::Relaxed) != 0)
                .count() as u64
        };
        let held: u64 = lanes.iter().map(held).sum();
        let allocated = self.pool.allocated().count() as u64;
        if allocated != held {
            let violation = Violation::new(
                "descriptors are allocated that no lane owns, or free that a lane owns",
            );
            return Err(violation.with("allocated", allocated).with("owned", held));
        }
        for lane in lanes {
            for slot in 0..MAX_HELD {
                let entry = &self.owned[lane.number][slot];
                let address = entry.load(Ordering::Relaxed);
                if address != 0 {
                    self.free(lane, entry, address)?;
                }
            }
        }
        match self.pool.allocated().count() {
            0 => Ok(()),
            left => Err(Violation::new("descriptors stay allocated").with("how many", left as u64)),
        }
    }
}
