//! What the signal handlers do: one operation on the round's structure, on a lane of their own.

use std::cell::{Cell, UnsafeCell};
use std::ptr;
use std::sync::atomic::{AtomicU64, Ordering, compiler_fence};

use super::lane::{LANES_PER_WORKER, Lane};
use super::{Interruptions, Round, law};
use crate::torture::system::{self, Signal};

/// The lanes of one thread's handlers.
pub type HandlerLanes = [Lane; LANES_PER_WORKER - 1];

/// What this thread's handlers work on.
struct Context<'a> {
    round: &'a dyn Round,
    lanes: &'a [UnsafeCell<Lane>; LANES_PER_WORKER - 1],
}

thread_local! {
    /// Null while handlers have nothing to do. Needs neither initialiser nor destructor, so a
    /// handler may look at it.
    static CONTEXT: Cell<*const Context<'static>> = const { Cell::new(ptr::null()) };
}

/// How many signals have reached their handler, in this process.
static DELIVERED: AtomicU64 = AtomicU64::new(0);

/// How many signals have reached their handler so far.
pub fn delivered() -> u64 {
    DELIVERED.load(Ordering::Relaxed)
}

/// Lets signals reach `handle` from now on: by way of `atomseq::signal`, or as another library
/// would.
pub fn install(interruptions: Interruptions) {
    system::install_handlers(handle, interruptions.are_managed());
}

/// Does the work; wherever a signal interrupts it, the handler does an operation on one of the
/// lanes.
pub fn while_interrupted<R>(
    round: &dyn Round,
    lanes: &mut HandlerLanes,
    work: impl FnOnce() -> R,
) -> R {
    // SAFETY: `UnsafeCell` has its content's layout, and nobody else has the lanes while the
    // context is published.
    let lanes =
        unsafe { &*ptr::from_mut(lanes).cast::<[UnsafeCell<Lane>; LANES_PER_WORKER - 1]>() };
    let context = Context { round, lanes };
    let _published = Published::new(&context);
    work()
}

/// Handlers find the context while this lives; a panic ends it too.
struct Published;

impl Published {
    fn new(context: &Context<'_>) -> Published {
        // The lifetime ends here in name only: `drop` takes the pointer back while the context
        // still lives.
        CONTEXT.set(ptr::from_ref(context).cast());
        compiler_fence(Ordering::SeqCst);
        Published
    }
}

impl Drop for Published {
    fn drop(&mut self) {
        compiler_fence(Ordering::SeqCst);
        CONTEXT.set(ptr::null());
        compiler_fence(Ordering::SeqCst);
    }
}

fn handle(signal: Signal) {
    DELIVERED.fetch_add(1, Ordering::Relaxed);
    // SAFETY: published by this thread, which is inside the work for as long as the handler runs.
    let Some(context) = (unsafe { CONTEXT.get().as_ref() }) else {
        return;
    };
    if law::any() {
        return;
    }
    let lane = context.lanes[signal as usize].get();
    // SAFETY: each signal has its own lane on each thread, and is masked while its handler runs.
    let lane = unsafe { &mut *lane };
    if let Err(broken) = context.round.interrupt(lane) {
        law::report(broken);
    }
    lane.rest();
}
