//! Trims and audits that are delayed and overtaken by others. Whatever happens at the points where
//! they read the clock, no page goes back and no descriptor is reported too early.
//!
//! The test owns the clock and advances it. Before and after each reading, owners and further trims
//! and audits run at random, and are interrupted in turn.

use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;
use std::time::Duration;

use super::*;
use crate::type_stable::moment::Moment;

/// How long pages stay and claims last, in milliseconds.
const TIME: u64 = 20;

const SEEDS: u64 = 40;

/// When a trim or an audit reads the clock.
#[derive(Clone, Copy)]
enum Reads {
    WhereItMust,
    /// Once, when it starts: the negative control.
    Early,
}

struct World<'a> {
    pool: &'a Pool<Words>,
    reads: Reads,
    now: Cell<u64>,
    random: Cell<u64>,
    depth: Cell<usize>,
    owned: RefCell<Vec<Allocated<'a, Words>>>,
    /// The time when each free descriptor was freed, by address, while its contents remain.
    freed: RefCell<BTreeMap<usize, u64>>,
    /// The time when each allocated descriptor was last claimed, by address.
    claimed: RefCell<BTreeMap<usize, u64>>,
    wrong: RefCell<Vec<String>>,
    pages_gone: Cell<usize>,
    found: Cell<usize>,
}

impl<'a> World<'a> {
    fn new(pool: &'a Pool<Words>, reads: Reads, seed: u64) -> World<'a> {
        // Includes the points where the clock and moments wrap around.
        let starts = [0, (1 << 30) - 50, (1 << 31) - 50, (1 << 32) - 50];
        World {
            pool,
            reads,
            now: Cell::new(starts[seed as usize % starts.len()]),
            random: Cell::new(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1),
            depth: Cell::new(0),
            owned: RefCell::default(),
            freed: RefCell::default(),
            claimed: RefCell::default(),
            wrong: RefCell::default(),
            pages_gone: Cell::new(0),
            found: Cell::new(0),
        }
    }

    fn below(&self, bound: usize) -> usize {
        let mut random = self.random.get();
        random ^= random << 13;
        random ^= random >> 7;
        random ^= random << 17;
        self.random.set(random);
        (random >> 33) as usize % bound
    }

    fn moment(&self) -> Moment {
        Moment::after(Duration::from_millis(self.now.get()))
    }

    fn is_wrong(&self, what: String) {
        self.wrong.borrow_mut().push(what);
    }

    /// Checks that everything discarded by now was free for long enough.
    fn check(&self) {
        let now = self.now.get();
        self.freed.borrow_mut().retain(|&address, &mut freed| {
            let words = self.pool.descriptor_at(address).unwrap();
            let is_gone = words[0].load(Relaxed) == 0;
            if is_gone && now - freed <= TIME {
                self.is_wrong(format!("gone {} ms after it was freed", now - freed));
            }
            !is_gone
        });
    }

    fn pass(&self, milliseconds: u64) {
        self.check();
        self.now.set(self.now.get() + milliseconds);
    }

    fn allocate(&self) {
        if let Ok(words) = self.pool.allocate() {
            self.check();
            words[0].store(7, Relaxed);
            self.freed.borrow_mut().remove(&words.address());
            self.claimed
                .borrow_mut()
                .insert(words.address(), self.now.get());
            self.owned.borrow_mut().push(words);
        }
    }

    fn free(&self) {
        let count = self.owned.borrow().len();
        if count > 0 {
            let words = self.owned.borrow_mut().swap_remove(self.below(count));
            self.freed
                .borrow_mut()
                .insert(words.address(), self.now.get());
            self.claimed.borrow_mut().remove(&words.address());
        }
    }

    /// Makes pages that are all free frequent.
    fn free_all(&self) {
        let count = self.owned.borrow().len();
        (0..count).for_each(|_| self.free());
    }

    fn claim(&self) {
        let owned = self.owned.borrow();
        if !owned.is_empty() {
            let words = &owned[self.below(owned.len())];
            words.reference().claim();
            self.claimed
                .borrow_mut()
                .insert(words.address(), self.now.get());
        }
    }

    /// Returns the clock for a trim or an audit.
    fn clock(&self) -> impl Fn() -> Option<Moment> {
        let early = self.moment();
        move || {
            self.come_in();
            let moment = match self.reads {
                Reads::WhereItMust => self.moment(),
                Reads::Early => early,
            };
            self.come_in();
            Some(moment)
        }
    }

    fn come_in(&self) {
        if self.depth.get() < 3 && self.below(2) == 0 {
            self.depth.set(self.depth.get() + 1);
            (0..self.below(4)).for_each(|_| self.act());
            self.depth.set(self.depth.get() - 1);
        }
    }

    fn trim(&self) {
        /// Acts like the system, on every platform.
        unsafe fn discard(start: std::ptr::NonNull<u8>, bytes: usize) -> bool {
            // SAFETY: by the contract, the range is owned by the caller; the test has one thread.
            unsafe { start.write_bytes(0, bytes) };
            true
        }
        let bytes = self.pool.trim_by(discard, self.clock());
        let pages = bytes / self.pool.shared().geometry().page;
        self.pages_gone.set(self.pages_gone.get() + pages);
        self.check();
    }

    fn audit(&self) {
        let time = Duration::from_millis(TIME);
        self.pool.audit_by(time, self.clock(), |unclaimed| {
            self.found.set(self.found.get() + 1);
            let now = self.now.get();
            let claimed = self.claimed.borrow();
            match claimed.get(&unclaimed.reference().address()) {
                Some(claimed) if now - claimed > TIME => {}
                claimed => self.is_wrong(format!("found at {now}, claimed at {claimed:?}")),
            }
        });
    }

    fn act(&self) {
        match self.below(14) {
            0..=1 => self.pass(1 + self.below(5) as u64),
            2 => self.pass(self.below(2 * TIME as usize) as u64),
            3 => (0..self.below(100)).for_each(|_| self.allocate()),
            4 => self.allocate(),
            5..=6 => self.free_all(),
            7..=8 => self.claim(),
            9..=11 => self.trim(),
            _ => self.audit(),
        }
    }
}

/// Returns the errors, and the number of pages given back and descriptors found.
fn run(seed: u64, reads: Reads) -> (Vec<String>, usize, usize) {
    let options = Pool::<Words>::options().limit(3 * 64).cached(1);
    let stable = Duration::from_millis(TIME);
    let pool = options.stable_for(stable).try_build().unwrap();
    let world = World::new(&pool, reads, seed);
    for _ in 0..200 {
        world.act();
    }
    // Undisturbed, everything completes: unclaimed descriptors are found, and free pages go back.
    world.depth.set(usize::MAX / 2);
    (0..50).for_each(|_| world.allocate());
    let count = world.owned.borrow().len();
    for is_over in [false, true] {
        let before = world.found.get();
        world.audit();
        if is_over && world.found.get() - before != count {
            world.is_wrong("not all of the unclaimed ones were found".to_owned());
        }
        world.pass(TIME + 1);
    }
    world.free_all();
    world.trim();
    world.pass(TIME + 1);
    world.trim();
    world.check();
    if !world.freed.borrow().is_empty() {
        world.is_wrong("not all of the free pages went back".to_owned());
    }
    let wrong = world.wrong.take();
    (wrong, world.pages_gone.get(), world.found.get())
}

#[test]
#[cfg_attr(miri, ignore = "takes long to interpret")]
fn nothing_goes_back_or_is_reported_before_its_time() {
    let (mut pages_gone, mut found) = (0, 0);
    for seed in 0..SEEDS {
        let (wrong, pages, descriptors) = run(seed, Reads::WhereItMust);
        assert!(wrong.is_empty(), "seed {seed}: {wrong:?}");
        pages_gone += pages;
        found += descriptors;
    }
    println!("{pages_gone} pages went back, {found} descriptors were found");
    assert!(pages_gone > 300 && found > 300, "{pages_gone}, {found}");
}

/// Negative control of the test above.
#[test]
#[cfg_attr(miri, ignore = "takes long to interpret")]
fn a_clock_that_is_read_too_early_is_found_out() {
    let (mut gone, mut found) = (0, 0);
    for seed in 0..SEEDS {
        let wrong = run(seed, Reads::Early).0;
        let any = |kind: &str| usize::from(wrong.iter().any(|wrong| wrong.starts_with(kind)));
        gone += any("gone");
        found += any("found");
    }
    println!("{gone} of {SEEDS} seeds lost contents, {found} found what was claimed");
    assert!(gone > 3 && found > 3, "{gone}, {found} of {SEEDS}");
}
