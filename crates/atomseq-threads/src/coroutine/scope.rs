//! Coroutines that borrow from the one that makes them.

use core::fmt;
use core::marker::PhantomData;
use core::ptr::NonNull;
use std::panic::{self, AssertUnwindSafe};
use std::thread;

use super::Error;
use super::handle::{self, Coroutine, JoinHandle};
use super::scheduler::{Spawned, expect_scheduler, scheduler};

/// Calls `f` with a scope in which coroutines can be spawned that borrow what outlives the scope.
/// Returns when all of them have finished, as [`std::thread::scope`] does.
///
/// ```
/// use atomseq_threads::coroutine;
///
/// let words = ["a", "few", "words"];
/// let lengths = || {
///     coroutine::scope(|scope| {
///         let handles = words.each_ref().map(|word| scope.spawn(|| word.len()));
///         handles.map(|handle| handle.join().unwrap())
///     })
/// };
/// // SAFETY: switches outside of thread-locals.
/// assert_eq!(unsafe { coroutine::run(lengths) }, [1, 3, 5]);
/// ```
///
/// # Panics
///
/// Outside of [`run`](super::run). With the panic of `f`, and if a coroutine has panicked that was
/// not joined; in both cases when all have finished.
///
/// # Deadlocks
///
/// If some cannot finish, since all coroutines wait, `scope` does not return: they borrow what a
/// panic would drop. The process ends with a message. If another coroutine than the first one has
/// called `scope`, the run may panic instead, as [`Builder::run`](super::Builder::run) says, and
/// leak the stacks of all that wait.
#[track_caller]
pub fn scope<'env, F, T>(f: F) -> T
where
    F: for<'scope> FnOnce(&'scope Scope<'scope, 'env>) -> T,
{
    expect_scheduler();
    let scope = Scope {
        spawned: Spawned::new(),
        scope: PhantomData,
        environment: PhantomData,
    };
    let outcome = panic::catch_unwind(AssertUnwindSafe(|| f(&scope)));
    // Not the scheduler from above: the function of a generator may be resumed after its run.
    match scheduler() {
        Some(scheduler) => scheduler.wait_for_scope(&scope.spawned),
        None => scope.spawned.expect_none(),
    }
    match outcome {
        Err(payload) => panic::resume_unwind(payload),
        Ok(_) if scope.spawned.has_panicked.get() => panic!("a scoped coroutine panicked"),
        Ok(result) => result,
    }
}

/// A scope in which coroutines can be spawned that borrow: see [`scope`](scope()).
#[derive(Debug)]
pub struct Scope<'scope, 'env: 'scope> {
    spawned: Spawned,
    /// Both are invariant, as in `std`.
    scope: PhantomData<&'scope mut &'scope ()>,
    environment: PhantomData<&'env mut &'env ()>,
}

impl<'scope> Scope<'scope, '_> {
    /// Makes a coroutine that calls `f`, as [`spawn`](super::spawn) does, and that may borrow what
    /// outlives the scope.
    ///
    /// # Panics
    ///
    /// If [`try_spawn`](Scope::try_spawn) fails.
    #[track_caller]
    pub fn spawn<F, T>(&'scope self, f: F) -> ScopedJoinHandle<'scope, T>
    where
        F: FnOnce() -> T + 'scope,
        T: 'scope,
    {
        match self.try_spawn(f) {
            Ok(handle) => handle,
            Err(error) => panic!("{error}"),
        }
    }

    /// As [`spawn`](Scope::spawn), where the system may refuse memory.
    ///
    /// # Errors
    ///
    /// As [`try_spawn`](super::try_spawn).
    #[track_caller]
    pub fn try_spawn<F, T>(&'scope self, f: F) -> Result<ScopedJoinHandle<'scope, T>, Error>
    where
        F: FnOnce() -> T + 'scope,
        T: 'scope,
    {
        // SAFETY: `scope` returns when the coroutine has finished, and so has dropped `f`; it never
        // returns if that cannot be. The handle, which has what `f` returns, does not outlive the
        // scope.
        let handle = unsafe { handle::spawn_borrowing(f, Some(NonNull::from(&self.spawned)))? };
        Ok(ScopedJoinHandle {
            handle,
            scope: PhantomData,
        })
    }
}

/// As [`JoinHandle`], for a coroutine of a [`Scope`].
#[must_use = "the coroutine continues, but its result is dropped"]
pub struct ScopedJoinHandle<'scope, T> {
    handle: JoinHandle<T>,
    scope: PhantomData<&'scope ()>,
}

impl<T> ScopedJoinHandle<'_, T> {
    /// As [`JoinHandle::join`].
    ///
    /// # Errors
    ///
    /// If the coroutine has panicked, with the payload.
    ///
    /// # Panics
    ///
    /// If it cannot finish, since all coroutines wait.
    #[inline(always)] // as `yield_now`
    #[track_caller]
    pub fn join(self) -> thread::Result<T> {
        self.handle.join()
    }

    /// Returns whether the coroutine has finished.
    pub fn is_finished(&self) -> bool {
        self.handle.is_finished()
    }

    /// Returns a reference to the coroutine.
    pub fn coroutine(&self) -> &Coroutine {
        self.handle.coroutine()
    }
}

impl<T> fmt::Debug for ScopedJoinHandle<'_, T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ScopedJoinHandle")
            .field("coroutine", self.coroutine())
            .finish_non_exhaustive()
    }
}
