//! Threads that borrow from the thread that waits for them.

use core::marker::PhantomData;
use core::sync::atomic::{
    AtomicBool, AtomicUsize,
    Ordering::{Relaxed, SeqCst},
};
use std::fmt;
use std::panic::{self, AssertUnwindSafe};
use std::sync::Arc;

use super::Error;
use super::linux::{Event, Patience};
use super::shared::{Carrier, Shared};
use super::task::Task;
use super::thread::{self, Builder, JoinHandle, Thread, expect_carrier};

/// A scope, in which threads may borrow what outlives it: see [`scope`].
pub struct Scope<'scope, 'env: 'scope> {
    shared: Arc<Shared>,
    /// Its threads use this after their closures, which may be after the scope's end.
    count: Arc<Count>,
    // As std: invariant in both.
    scope: PhantomData<&'scope mut &'scope ()>,
    env: PhantomData<&'env mut &'env ()>,
}

/// The threads of a scope.
pub(super) struct Count {
    /// Those that have not finished, and one more until the scope's closure has returned.
    running: AtomicUsize,
    /// There are none any more.
    is_over: Event,
    has_panicked: AtomicBool,
    /// The thread that waits, if it is one of a runtime.
    owner: Option<Task>,
}

impl Count {
    /// Notes a panic that no join reports.
    pub fn note_panic(&self) {
        // Relaxed: `finish` publishes it, or the scope's own thread.
        self.has_panicked.store(true, Relaxed);
    }

    /// Counts one more, which calls `finish`.
    pub fn begin(&self) {
        self.running.fetch_add(1, SeqCst);
    }

    /// Counts one fewer.
    pub fn finish(&self) {
        if self.running.fetch_sub(1, SeqCst) == 1 {
            // SAFETY: the caller has a reference.
            unsafe { Event::set(&self.is_over) };
            if let Some(owner) = &self.owner {
                thread::wake(owner);
            }
        }
    }

    fn wait(&self, patience: &Patience) {
        let owner = self.owner.as_ref().map(Task::as_ptr);
        // The scope of a generator or of a coroutine may end in another thread than it began in,
        // which `finish` does not wake.
        let is_owner = |carrier: &&Carrier| owner == Some(carrier.current.load(Relaxed));
        match Carrier::get().filter(is_owner) {
            Some(carrier) => {
                thread::wait_until(carrier, self, || self.is_over.has_happened());
            }
            None => self.is_over.wait(patience),
        }
    }
}

impl fmt::Debug for Scope<'_, '_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let running = self.count.running.load(SeqCst);
        f.debug_struct("Scope").field("running", &running).finish()
    }
}

/// A handle of a scope's thread to join. After its drop, only the scope waits for the thread.
pub struct ScopedJoinHandle<'scope, T> {
    handle: JoinHandle<T>,
    scope: PhantomData<&'scope ()>,
}

impl<T> fmt::Debug for ScopedJoinHandle<'_, T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.handle.fmt(f)
    }
}

impl<T> ScopedJoinHandle<'_, T> {
    /// Returns the thread.
    pub fn thread(&self) -> Thread {
        self.handle.thread()
    }

    /// Returns whether a join would return at once.
    pub fn is_finished(&self) -> bool {
        self.handle.is_finished()
    }

    /// Waits for the thread to finish, and returns the result of its closure: see
    /// [`JoinHandle::join`].
    ///
    /// # Errors
    ///
    /// The payload of its panic, or [`Destroyed`](super::Destroyed).
    ///
    /// # Panics
    ///
    /// If the thread joins itself.
    #[track_caller]
    pub fn join(self) -> std::thread::Result<T> {
        self.handle.join()
    }
}

impl<'scope> Scope<'scope, '_> {
    /// Spawns a thread in the scope.
    pub fn spawn<F, T>(&'scope self, f: F) -> ScopedJoinHandle<'scope, T>
    where
        F: FnOnce() -> T + Send + 'scope,
        T: Send + 'scope,
    {
        match self.spawn_with(Builder::new(), f) {
            Ok(handle) => handle,
            Err(error) => panic!("{error}"),
        }
    }

    pub(super) fn spawn_with<F, T>(
        &'scope self,
        builder: Builder,
        f: F,
    ) -> Result<ScopedJoinHandle<'scope, T>, Error>
    where
        F: FnOnce() -> T + Send + 'scope,
        T: Send + 'scope,
    {
        let scope = Some(Arc::clone(&self.count));
        // SAFETY: the scope waits until the thread has counted itself out, which it does after its
        // outcome was announced or dropped. An announced one is the handle's, which does not
        // outlive the scope.
        let handle = unsafe { builder.spawn_in(&self.shared, scope, f)? };
        Ok(ScopedJoinHandle {
            handle,
            scope: PhantomData,
        })
    }
}

/// Calls `f` with a scope on that runtime, and waits for its threads.
pub(super) fn scope_in<'env, F, R>(shared: &Arc<Shared>, f: F) -> R
where
    F: for<'scope> FnOnce(&'scope Scope<'scope, 'env>) -> R,
{
    let reference = |carrier: &Carrier| carrier.shared().reference(carrier);
    let scope = Scope {
        shared: Arc::clone(shared),
        count: Arc::new(Count {
            running: AtomicUsize::new(1),
            is_over: Event::new(),
            has_panicked: AtomicBool::new(false),
            owner: Carrier::get().map(reference),
        }),
        scope: PhantomData,
        env: PhantomData,
    };
    let result = panic::catch_unwind(AssertUnwindSafe(|| f(&scope)));
    scope.count.finish();
    // Also if `f` has panicked: the threads borrow what would be dropped.
    scope.count.wait(&shared.patience);
    match result {
        Err(payload) => panic::resume_unwind(payload),
        // Relaxed: see `note_panic`.
        Ok(_) if scope.count.has_panicked.load(Relaxed) => panic!("a scoped thread panicked"),
        Ok(result) => result,
    }
}

/// Calls `f` with a scope, in which threads of this one's runtime may borrow what outlives the
/// call: all of them have finished when it returns. As [`std::thread::scope`].
///
/// ```
/// # use atomseq_threads::runtime::{self, Runtime};
/// # let runtime = Runtime::new()?;
/// let sum: u64 = runtime.run(|| {
///     let numbers = Vec::from_iter(0..1000);
///     let (low, high) = numbers.split_at(500);
///     runtime::scope(|scope| {
///         let low = scope.spawn(|| low.iter().sum::<u64>());
///         high.iter().sum::<u64>() + low.join().unwrap()
///     })
/// });
/// assert_eq!(sum, 499_500);
/// # Ok::<(), runtime::Error>(())
/// ```
///
/// The wait at its end is no safepoint, but the end of it is where a thread stops that is suspended
/// meanwhile.
///
/// # Panics
///
/// With the panic of `f`; if a thread has panicked that was not joined; outside of a runtime.
#[track_caller]
pub fn scope<'env, F, R>(f: F) -> R
where
    F: for<'scope> FnOnce(&'scope Scope<'scope, 'env>) -> R,
{
    let shared = &expect_carrier().current().expect("checked").shared;
    scope_in(shared, f)
}
