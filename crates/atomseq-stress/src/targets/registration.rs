//! The target `registration`: threads that make only a few operations, started by Rust and by C.
//! Their last operations come from destructors, when they may no longer be registered.

use std::cell::RefCell;
use std::ffi::c_void;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::thread;

use atomseq::percpu::Counter;

use super::bundle::Bundle;
use super::containers::OperationMix;
use crate::engine::disturb::while_interrupted;
use crate::engine::invariant::{Checked, Violation, equal};
use crate::engine::lane::{Activity, Lane};
use crate::engine::{Interruptions, Round, Setting, Target};
use crate::needs::Need;
use crate::system;

/// The target `registration`.
pub const TARGET: Target = Target {
    name: "registration",
    group: "percpu",
    about: "threads of std and of pthread_create operate from start to last destructor",
    round: |setting| Arc::new(RegistrationRound::new(setting)),
    steps: 128,
    interruptions: Interruptions::Sent,
    counts: "threads started",
};

struct RegistrationRound {
    bundle: Bundle,
    /// Counts the last operations of threads.
    last_operations: Arc<Counter>,
}

impl RegistrationRound {
    fn new(setting: &mut Setting) -> RegistrationRound {
        let mix = OperationMix::any(&mut setting.rng);
        RegistrationRound {
            bundle: Bundle::new(setting, mix),
            last_operations: Arc::new(Counter::new()),
        }
    }

    /// Runs a guest: a thread that uses the lanes of the worker that started it, which waits
    /// meanwhile.
    fn run_guest(&self, lane: &mut Lane) -> Checked {
        if lane.rng.bool() && count_at_exit(&self.last_operations) {
            lane.totals[LAST_OPERATIONS] += 1;
        }
        if lane.rng.bool() {
            LAST.with(|last| {
                *last.borrow_mut() = Some(LastOperation(self.last_operations.clone()))
            });
            lane.totals[LAST_OPERATIONS] += 1;
        }
        // Signals go to the guest instead of its worker. Moves do not: its thread ID may soon be
        // that of another process.
        let worker = lane.board().thread.load(Ordering::Relaxed);
        lane.board()
            .signalled
            .store(system::own_number(), Ordering::Relaxed);
        let Some(mut guests) = lane.guests.take() else {
            return Err(Violation::new("a guest has no lanes for its handlers"));
        };
        let checked = while_interrupted(&self.bundle, &mut guests, || {
            (0..lane.rng.u32(1..40)).try_for_each(|_| self.bundle.step(lane))
        });
        lane.board().signalled.store(worker, Ordering::Relaxed);
        lane.guests = Some(guests);
        checked
    }
}

/// The index of the lanes' sum of last operations to come; the bundle's sums lie below.
const LAST_OPERATIONS: usize = 250;

struct LastOperation(Arc<Counter>);

impl Drop for LastOperation {
    fn drop(&mut self) {
        self.0.increment();
    }
}

thread_local! {
    /// Makes the last operation in a Rust destructor.
    static LAST: RefCell<Option<LastOperation>> = const { RefCell::new(None) };
}

/// Makes the last operation in a C destructor, which runs after Rust's; false if there can be none.
fn count_at_exit(last_operations: &Arc<Counter>) -> bool {
    extern "C" fn count(counter: *mut c_void) {
        // SAFETY: the counter outlives the thread: its worker, which holds the round, joins the
        // thread.
        unsafe { &*counter.cast::<Counter>().cast_const() }.increment();
    }
    system::when_thread_exits(count, Arc::as_ptr(last_operations).cast())
}

impl Round for RegistrationRound {
    fn step(&self, lane: &mut Lane) -> Checked {
        lane.begin(Activity::Start);
        let by_std = lane.rng.bool();
        let mut checked = Ok(());
        let started = if by_std {
            thread::scope(|scope| {
                let guest = thread::Builder::new()
                    .stack_size(128 << 10)
                    .spawn_scoped(scope, || self.run_guest(lane))?;
                checked = guest
                    .join()
                    .unwrap_or_else(|panic| std::panic::resume_unwind(panic));
                std::io::Result::Ok(())
            })
        } else {
            system::run_on_c_thread(|| checked = self.run_guest(lane))
        };
        // Where the system refuses threads, less is tested; the summary says so.
        Need::Threads.record(started.as_ref());
        lane.counted += u64::from(started.is_ok());
        checked
    }

    fn finish(&mut self, lanes: &mut [Lane]) -> Checked {
        let expected = lanes.iter().map(|lane| lane.totals[LAST_OPERATIONS]).sum();
        equal(
            "threads' last operations were lost",
            self.last_operations.sum(),
            expected,
        )?;
        self.bundle.finish(lanes)
    }

    fn has_guests(&self) -> bool {
        true
    }
}
