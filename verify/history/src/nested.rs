//! Histories of one thread: a call is stopped at an instruction, and the handler makes calls of
//! other lanes, which are stopped in turn. To the structure, lanes are what threads are; a section
//! that a signal interrupts is aborted as by a preemption. No thread waits for another, so there
//! are many more histories than in [`crew`](crate::crew), and every one has a stop inside an
//! operation.
//!
//! ```text
//! lane 2   push ──┐ stop                                   ┌── goes on
//! lane 0          └ pop ─ push ──┐ stop       ┌── goes on ─┘
//! lane 1                         └ pop ── pop ┘
//! ```

use std::cell::Cell;

use crate::interrupt::{Others, begin};
use crate::stops::Places;

/// How deep stops lie in each other.
const DEPTH: u32 = 3;

/// The nest under way, as handlers reach it.
struct Nest {
    lanes: *const (dyn Others + 'static),
    places: *const Places,
    /// How many lanes there are.
    count: usize,
    /// Lanes that are inside a call, a bit each.
    inside: Cell<u32>,
    depth: Cell<u32>,
    stops: Cell<u64>,
    random: Cell<u64>,
}

thread_local! {
    // Constant, and nothing to drop: handlers may use it.
    static NEST: Cell<*const Nest> = const { Cell::new(std::ptr::null()) };
}

/// Makes all calls of the first `count` lanes. Returns how many of them were stopped inside.
pub fn run(lanes: &dyn Others, count: usize, places: &Places, seed: u64) -> u64 {
    struct Leave;
    impl Drop for Leave {
        fn drop(&mut self) {
            NEST.set(std::ptr::null());
        }
    }
    let lanes: *const (dyn Others + '_) = lanes;
    let nest = Nest {
        // SAFETY: only the lifetime changes; `Leave` takes the pointer away before the borrow ends.
        lanes: unsafe {
            std::mem::transmute::<*const (dyn Others + '_), *const (dyn Others + 'static)>(lanes)
        },
        places,
        count,
        inside: Cell::new(0),
        depth: Cell::new(0),
        stops: Cell::new(0),
        random: Cell::new(seed | 1),
    };
    let _leave = Leave;
    begin();
    NEST.set(&nest);
    let mut idle = 0;
    while idle < 64 {
        idle = if nest.step(true) { 0 } else { idle + 1 };
    }
    nest.stops.get()
}

/// In the handler of a stop: other lanes make calls.
fn stopped() {
    let nest = NEST.get();
    if nest.is_null() {
        return;
    }
    // SAFETY: `run` takes it away before it returns, and only its own thread sees it.
    let nest = unsafe { &*nest };
    nest.stops.set(nest.stops.get() + 1);
    nest.depth.set(nest.depth.get() + 1);
    for _ in 0..1 + nest.random(6) {
        nest.step(nest.depth.get() < DEPTH && nest.random(2) == 0);
    }
    nest.depth.set(nest.depth.get() - 1);
}

impl Nest {
    /// One call of a lane that is not inside one. `false`: the one that was chosen makes none.
    fn step(&self, with_stop: bool) -> bool {
        let lane = self.random(self.count as u64) as usize;
        let inside = self.inside.get();
        if inside >> lane & 1 == 1 {
            return false;
        }
        // SAFETY: `run` borrows both.
        let (lanes, places) = unsafe { (&*self.lanes, &*self.places) };
        // Up to the end of this step.
        let _stop =
            with_stop.then(|| places.plant(self.random(places.len() as u64) as usize, stopped));
        self.inside.set(inside | 1 << lane);
        let called = lanes.call_in(lane);
        self.inside.set(inside);
        called
    }

    /// A number below `most` (xorshift).
    fn random(&self, most: u64) -> u64 {
        let mut random = self.random.get();
        random ^= random << 13;
        random ^= random >> 7;
        random ^= random << 17;
        self.random.set(random);
        (random >> 11) % most
    }
}
