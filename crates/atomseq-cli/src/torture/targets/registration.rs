//! Registration: threads that live for a few operations, started by Rust and by C, whose last ones
//! come from destructors, when their registration may be gone already.

use std::cell::RefCell;
use std::ffi::c_void;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::thread;

use atomseq::percpu::Counter;

use super::counter::equal;
use crate::torture::harness::interrupts::while_interrupted;
use crate::torture::harness::lane::{Doing, Lane};
use crate::torture::harness::law::{Broken, Checked};
use crate::torture::harness::{Interruptions, Round, Setting, Target};
use crate::torture::needs::Need;
use crate::torture::subjects::bundle::Bundle;
use crate::torture::subjects::conserving::Mood;
use crate::torture::system;

/// The target.
pub const TARGET: Target = Target {
    name: "registration",
    about: "threads started at a high rate, by std and by pthread_create, that work from first breath to last destructor",
    round: |setting| Arc::new(Crowd::new(setting)),
    steps: 128,
    interruptions: Interruptions::Sent,
    counts: "threads started",
};

struct Crowd {
    bundle: Bundle,
    /// Counts the farewells of threads.
    farewells: Arc<Counter>,
}

impl Crowd {
    fn new(setting: &mut Setting) -> Crowd {
        let mood = Mood::any(&mut setting.rng);
        Crowd {
            bundle: Bundle::new(setting, mood),
            farewells: Arc::new(Counter::new()),
        }
    }

    /// A guest's life: the worker that started it waits meanwhile, so it has the worker's lanes.
    fn live(&self, lane: &mut Lane) -> Checked {
        if lane.rng.bool() && says_farewell(&self.farewells) {
            lane.totals[FAREWELLS] += 1;
        }
        if lane.rng.bool() {
            LAST.with(|last| *last.borrow_mut() = Some(Farewell(self.farewells.clone())));
            lane.totals[FAREWELLS] += 1;
        }
        // Signals find the guest instead of its worker. (Moves do not: its number may soon be
        // another process's.)
        let worker = lane.board().thread.load(Ordering::Relaxed);
        lane.board()
            .signalled
            .store(system::own_number(), Ordering::Relaxed);
        let Some(mut guests) = lane.guests.take() else {
            return Err(Broken::new("a guest has no lanes for its handlers"));
        };
        let lived = while_interrupted(&self.bundle, &mut guests, || {
            (0..lane.rng.u32(1..40)).try_for_each(|_| self.bundle.step(lane))
        });
        lane.board().signalled.store(worker, Ordering::Relaxed);
        lane.guests = Some(guests);
        lived
    }
}

/// Where lanes count the farewells that are to come; the bundle's sums lie below.
const FAREWELLS: usize = 250;

struct Farewell(Arc<Counter>);

impl Drop for Farewell {
    fn drop(&mut self) {
        self.0.increment();
    }
}

thread_local! {
    /// Says farewell by Rust's destructor.
    static LAST: RefCell<Option<Farewell>> = const { RefCell::new(None) };
}

/// Says farewell by C's, which runs after Rust's.
fn says_farewell(farewells: &Arc<Counter>) -> bool {
    extern "C" fn farewell(counter: *mut c_void) {
        // SAFETY: the counter outlives the thread: its worker waits for the thread's end, and holds
        // the round.
        unsafe { &*counter.cast::<Counter>().cast_const() }.increment();
    }
    system::when_thread_ends(farewell, Arc::as_ptr(farewells).cast())
}

impl Round for Crowd {
    fn step(&self, lane: &mut Lane) -> Checked {
        lane.begin(Doing::Start);
        let by_std = lane.rng.bool();
        let mut lived = Ok(());
        let started = if by_std {
            thread::scope(|scope| {
                let guest = thread::Builder::new()
                    .stack_size(128 << 10)
                    .spawn_scoped(scope, || self.live(lane))?;
                lived = guest
                    .join()
                    .unwrap_or_else(|panic| std::panic::resume_unwind(panic));
                std::io::Result::Ok(())
            })
        } else {
            system::run_on_c_thread(|| lived = self.live(lane))
        };
        // A machine with no thread to spare tortures less, which the summary tells.
        Need::Threads.asked(started.as_ref());
        lane.counted += u64::from(started.is_ok());
        lived
    }

    fn finish(&mut self, lanes: &mut [Lane]) -> Checked {
        let expected = lanes.iter().map(|lane| lane.totals[FAREWELLS]).sum();
        equal(
            "threads' last operations were lost",
            self.farewells.sum(),
            expected,
        )?;
        self.bundle.finish(lanes)
    }

    fn has_guests(&self) -> bool {
        true
    }
}
