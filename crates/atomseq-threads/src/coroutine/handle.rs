//! How a coroutine is made, and its handles.

use core::cell::UnsafeCell;
use core::fmt;
use core::mem::ManuallyDrop;
use core::ptr::NonNull;
use std::panic::{self, AssertUnwindSafe};
use std::thread;

use super::scheduler::{Control, Spawned, State, expect_scheduler, inside, release, scheduler};
use super::{Error, MIN_STACK_SIZE};
use crate::arch;

/// The top of a coroutine's stack.
#[repr(C)]
struct Packet<F, T> {
    control: Control,
    body: UnsafeCell<Body<F, T>>,
}

/// The function of a coroutine, and later its outcome. Both lie at its beginning.
#[repr(C)]
union Body<F, T> {
    function: ManuallyDrop<F>,
    outcome: ManuallyDrop<thread::Result<T>>,
}

/// Makes a coroutine that calls `f`, and returns its handle. It runs when its turn comes.
///
/// A result that no handle waits for is dropped by the coroutine; a panic of that aborts the
/// process.
///
/// # Panics
///
/// Outside of [`run`](super::run), and if [`try_spawn`] fails.
#[track_caller]
pub fn spawn<F, T>(f: F) -> JoinHandle<T>
where
    F: FnOnce() -> T + 'static,
    T: 'static,
{
    match try_spawn(f) {
        Ok(handle) => handle,
        Err(error) => panic!("{error}"),
    }
}

/// As [`spawn`], where the system may refuse memory.
///
/// # Errors
///
/// [`Error::Stack`], and [`Error::StackTooSmall`] if what `f` owns or returns leaves less than half
/// of the stack. `f` is dropped then. The coroutine moves both to its frames, so a closure or a
/// result that takes nearly half of the stack overflows it.
///
/// # Panics
///
/// Outside of [`run`](super::run).
#[track_caller]
pub fn try_spawn<F, T>(f: F) -> Result<JoinHandle<T>, Error>
where
    F: FnOnce() -> T + 'static,
    T: 'static,
{
    // SAFETY: neither borrows.
    unsafe { spawn_borrowing(f, None) }
}

/// As [`try_spawn`], of a scope.
///
/// # Safety
///
/// What `f` and its result borrow lives until the coroutine has finished and its handle, if it was
/// not forgotten, has been dropped; the scope lives as long.
#[track_caller]
pub(super) unsafe fn spawn_borrowing<F, T>(
    f: F,
    scope: Option<NonNull<Spawned>>,
) -> Result<JoinHandle<T>, Error>
where
    F: FnOnce() -> T,
{
    let scheduler = expect_scheduler();
    let (bytes, align) = (
        size_of::<Packet<F, T>>(),
        align_of::<Packet<F, T>>().max(16),
    );
    let taken = bytes.saturating_add(align);
    let stack = scheduler.stack().map_err(Error::Stack)?;
    if taken > stack.size() / 2 {
        let size = stack.size();
        let needs = taken.saturating_mul(2).max(MIN_STACK_SIZE);
        return Err(Error::StackTooSmall { size, needs });
    }
    let top = stack.top().wrapping_sub(bytes);
    let top = top.wrapping_sub(top as usize % align);
    let packet = top.cast::<Packet<F, T>>();
    // SAFETY: inside the stack, aligned, and below nothing else's; `prepare` writes below it. The
    // coroutine and the handle have a reference each.
    unsafe {
        let control = &raw mut (*packet).control;
        control.write(Control::new(scheduler.run(), Some(stack), 2, scope));
        (&raw mut (*packet).body).write(UnsafeCell::new(Body {
            function: ManuallyDrop::new(f),
        }));
        let packet = NonNull::new_unchecked(packet);
        let sp = arch::prepare(top, body::<F, T>, packet.as_ptr().cast());
        scheduler.start(packet.cast(), sp);
        Ok(JoinHandle {
            coroutine: Coroutine(packet.cast()),
            outcome: NonNull::new_unchecked((&raw mut (*packet.as_ptr()).body).cast()),
        })
    }
}

/// The whole life of a coroutine.
///
/// # Safety
///
/// The first switch to it calls this, with its packet.
unsafe extern "C" fn body<F, T>(packet: *const ()) -> !
where
    F: FnOnce() -> T,
{
    let scheduler = expect_scheduler();
    scheduler.end();
    // SAFETY: the packet lives until the last reference is released, which is not before `finish`.
    // The function is taken out once, and the outcome is written before anything looks for it.
    unsafe {
        let packet = &*packet.cast::<Packet<F, T>>();
        let function = ManuallyDrop::take(&mut (*packet.body.get()).function);
        let outcome = panic::catch_unwind(AssertUnwindSafe(function));
        if packet.control.is_wanted.get() {
            packet.body.get().write(Body {
                outcome: ManuallyDrop::new(outcome),
            });
        } else {
            drop_unwanted(&packet.control, outcome);
        }
        scheduler.finish()
    }
}

/// Drops an outcome that no handle takes. A scope reports a panic among them.
fn drop_unwanted<T>(control: &Control, outcome: thread::Result<T>) {
    if let (Err(_), Some(scope)) = (&outcome, control.scope) {
        // SAFETY: this is the coroutine, or its handle, and the scope outlives both.
        unsafe { scope.as_ref() }.has_panicked.set(true);
    }
    drop(outcome);
}

/// A reference to a coroutine: [`std::thread::Thread`] for coroutines.
pub struct Coroutine(NonNull<Control>);

/// Returns a reference to the running coroutine.
///
/// # Panics
///
/// Outside of [`run`](super::run).
#[track_caller]
pub fn current() -> Coroutine {
    let scheduler = expect_scheduler();
    scheduler.begin();
    scheduler.current().add_reference();
    scheduler.end();
    Coroutine(scheduler.current_pointer())
}

impl Coroutine {
    fn control(&self) -> &Control {
        // SAFETY: a reference.
        unsafe { self.0.as_ref() }
    }

    /// Lets the coroutine's next, or current, [`park`](super::park) return. Does nothing if its
    /// run has ended.
    pub fn unpark(&self) {
        if let Some(scheduler) =
            scheduler().filter(|scheduler| scheduler.run() == self.control().run)
        {
            scheduler.unpark(self.0);
        }
    }

    /// Lets the coroutine run next, and returns true when it is the caller's turn again. The order
    /// of turns stays the same and continues after that coroutine, so those between the caller and
    /// it miss a turn.
    ///
    /// Returns false at once if the coroutine is not ready: it waits, has finished, or is of
    /// another run.
    #[inline(always)] // as `yield_now`
    pub fn yield_to(&self) -> bool {
        // SAFETY: a reference.
        scheduler().is_some_and(|scheduler| unsafe { scheduler.yield_to(self.0) })
    }

    /// Returns whether its function has returned or panicked.
    pub fn is_finished(&self) -> bool {
        self.control().state.get() == State::Finished
    }
}

impl Clone for Coroutine {
    fn clone(&self) -> Coroutine {
        inside(|_| self.control().add_reference());
        Coroutine(self.0)
    }
}

impl Drop for Coroutine {
    #[inline]
    fn drop(&mut self) {
        // SAFETY: this one's reference. The handle that wants the outcome has taken it before.
        unsafe { release(self.0) };
    }
}

impl PartialEq for Coroutine {
    fn eq(&self, other: &Coroutine) -> bool {
        self.0 == other.0
    }
}

impl Eq for Coroutine {}

impl fmt::Debug for Coroutine {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Coroutine")
            .field("state", &self.control().state.get())
            .finish_non_exhaustive()
    }
}

/// The right to wait for a coroutine and to get its result. If the handle is dropped, the coroutine
/// continues, and its result is dropped.
#[must_use = "the coroutine continues, but its result is dropped"]
pub struct JoinHandle<T> {
    coroutine: Coroutine,
    outcome: NonNull<ManuallyDrop<thread::Result<T>>>,
}

impl<T> JoinHandle<T> {
    /// Waits until the coroutine has finished, and returns what it returned, or the payload of its
    /// panic.
    ///
    /// # Errors
    ///
    /// If it has panicked.
    ///
    /// # Panics
    ///
    /// If the coroutine cannot finish: all coroutines wait, or its run has ended.
    #[inline(always)] // as `yield_now`
    #[track_caller]
    pub fn join(self) -> thread::Result<T> {
        if !self.is_finished() && !self.wait() {
            panic!("all coroutines wait, so the one to join cannot finish");
        }
        self.coroutine.control().is_wanted.set(false);
        // SAFETY: it has finished and was wanted until now, so the outcome is there; the flag says
        // that it is no more.
        unsafe { ManuallyDrop::take(&mut *self.outcome.as_ptr()) }
    }

    #[inline(always)] // as `yield_now`
    fn wait(&self) -> bool {
        let target = self.coroutine.control();
        scheduler().is_some_and(|scheduler| {
            scheduler.run() == target.run && scheduler.wait_for_end_of(target)
        })
    }

    /// Returns whether the coroutine has finished, so that [`join`](JoinHandle::join) returns at
    /// once.
    pub fn is_finished(&self) -> bool {
        self.coroutine.is_finished()
    }

    /// Returns a reference to the coroutine.
    pub fn coroutine(&self) -> &Coroutine {
        &self.coroutine
    }
}

impl<T> Drop for JoinHandle<T> {
    fn drop(&mut self) {
        let control = self.coroutine.control();
        // Both or neither: a coroutine that finishes between them drops its outcome itself.
        let is_left = || {
            control.is_wanted.set(false);
            self.is_finished()
        };
        if control.is_wanted.get() && inside(|_| is_left()) {
            // SAFETY: it has finished and was wanted then, so the outcome is there; the flag says
            // that it is no more.
            drop_unwanted(control, unsafe {
                ManuallyDrop::take(&mut *self.outcome.as_ptr())
            });
        }
    }
}

impl<T> fmt::Debug for JoinHandle<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("JoinHandle")
            .field("coroutine", &self.coroutine)
            .finish_non_exhaustive()
    }
}
