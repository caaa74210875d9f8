//! Values that a thread hands down to the threads that it spawns.
//!
//! As in S92, section 5.3.3, a new thread shares its creator's table, and the first of both to
//! change it makes a copy of its own. A table belongs to one thread: what several threads share is
//! constant.

use core::any::Any;
use core::cell::UnsafeCell;
use core::fmt;
use core::marker::PhantomData;
use core::sync::atomic::AtomicU8;
use std::sync::Arc;

use super::shared::Carrier;
use super::task::{Header, Task};
use super::thread::expect_carrier;

/// A value that a thread hands down to the threads that it spawns: the number of the request that
/// they work for, or a span of a trace.
///
/// A thread begins with the values that its spawner had at the spawn, if the spawner is a thread of
/// the same runtime, and else with none. A change is seen by the thread itself and by those that it
/// spawns afterwards, but by no other one.
///
/// ```
/// # use atomseq_threads::runtime::{self, Runtime};
/// use atomseq_threads::runtime::Inherited;
///
/// static REQUEST: Inherited<u32> = Inherited::new();
///
/// let runtime = Runtime::new()?;
/// let seen = runtime.run(|| {
///     REQUEST.set(7);
///     let child = runtime::spawn(|| REQUEST.get().as_deref().copied());
///     REQUEST.set(8);
///     child.join().unwrap()
/// });
/// assert_eq!(seen, Some(7));
/// # Ok::<(), runtime::Error>(())
/// ```
///
/// A spawn counts one reference, however many values there are, and none if there are none. The
/// first change after a spawn copies the spawner's table, which has a reference to each value.
///
/// A thread gives its references up when its closure has returned. The last thread to do so drops
/// the value. A generator that is suspended in a [`scope`](Inherited::scope) keeps the value that
/// the scope restores, also when that thread has finished. A coroutine has the values of the thread
/// that runs it. Not for signal handlers.
pub struct Inherited<T> {
    /// The address of this is the key. Not a constant, so that each has its own.
    key: AtomicU8,
    value: PhantomData<fn() -> T>,
}

impl<T: Send + Sync + 'static> Inherited<T> {
    /// Returns a value that no thread has yet, for a `static`.
    pub const fn new() -> Inherited<T> {
        Inherited {
            key: AtomicU8::new(0),
            value: PhantomData,
        }
    }

    /// Returns the current thread's value. It has none before the first `set`, and outside of a
    /// runtime.
    pub fn get(&'static self) -> Option<Arc<T>> {
        let current = Carrier::get()?.current()?;
        // SAFETY: the current thread's.
        let value = unsafe { current.inherited.get(self.key()) }?;
        // A key is of one type.
        value.downcast().ok()
    }

    /// Sets the value of the current thread, and of those that it spawns from now on. Returns the
    /// one before. In a destructor that runs after the thread's closure, has no effect and returns
    /// `value`.
    ///
    /// # Panics
    ///
    /// Outside of a runtime.
    #[track_caller]
    pub fn set(&'static self, value: T) -> Option<Arc<T>> {
        self.replace(Some(Arc::new(value)))
    }

    /// Calls `f` with this value, and restores the one before when `f` has returned or panicked.
    /// The thread that called this has it back, also if `f` suspends a
    /// [generator](crate::coroutine::Generator) that another thread resumes or drops.
    ///
    /// # Panics
    ///
    /// Outside of a runtime, and with the panic of `f`.
    #[track_caller]
    pub fn scope<R>(&'static self, value: T, f: impl FnOnce() -> R) -> R {
        struct Restore<T: Send + Sync + 'static>(&'static Inherited<T>, Task, Option<Arc<T>>);
        impl<T: Send + Sync + 'static> Drop for Restore<T> {
            fn drop(&mut self) {
                // SAFETY: of a thread that has finished, or that waits while this one runs on its
                // stack, or of the current one: a frame stays on its kernel thread.
                unsafe { self.0.replace_of(&self.1, self.2.take()) };
            }
        }
        let carrier = expect_carrier();
        let thread = carrier.shared().reference(carrier);
        let restore = Restore(self, thread, self.set(value));
        let result = f();
        // Not at the end: the compiler would leak the result if the value's destructor panicked.
        drop(restore);
        result
    }

    #[track_caller]
    fn replace(&'static self, value: Option<Arc<T>>) -> Option<Arc<T>> {
        let current = expect_carrier().current()?;
        // SAFETY: the current one.
        unsafe { self.replace_of(current, value) }
    }

    /// Replaces the value of a thread.
    ///
    /// # Safety
    ///
    /// The thread is the current one, or does not run while the caller does.
    unsafe fn replace_of(&'static self, thread: &Header, value: Option<Arc<T>>) -> Option<Arc<T>> {
        let value = value.map(|value| value as Arc<Value>);
        // SAFETY: the caller's promise.
        let before = unsafe { thread.inherited.replace(self.key(), value) };
        before.and_then(|before| before.downcast().ok())
    }

    fn key(&'static self) -> usize {
        (&raw const self.key).addr()
    }
}

impl<T: Send + Sync + 'static> Default for Inherited<T> {
    fn default() -> Inherited<T> {
        Inherited::new()
    }
}

impl<T: Send + Sync + fmt::Debug + 'static> fmt::Debug for Inherited<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Inherited").finish_non_exhaustive()
    }
}

type Value = dyn Any + Send + Sync;

/// Keys and values, few of them.
type Entries = Vec<(usize, Arc<Value>)>;

/// The values of a thread. No code of a user but a global allocator runs while it changes, and that
/// finds it closed.
pub(super) struct Table(UnsafeCell<State>);

enum State {
    /// Without a value, if there is no vector.
    Open(Option<Arc<Entries>>),
    /// Of a thread whose closure has returned.
    Closed,
}

impl Default for Table {
    fn default() -> Table {
        Table(UnsafeCell::new(State::Open(None)))
    }
}

impl Table {
    /// Returns another reference to the values of the current thread.
    ///
    /// # Safety
    ///
    /// The table of the current thread.
    pub unsafe fn share(&self) -> Table {
        // SAFETY: the caller's promise: only the current thread accesses it, and not meanwhile.
        let entries = match unsafe { &*self.0.get() } {
            // None of values that were all taken away again.
            State::Open(entries) => entries.as_ref().filter(|all| !all.is_empty()).cloned(),
            State::Closed => None,
        };
        Table(UnsafeCell::new(State::Open(entries)))
    }

    /// # Safety
    ///
    /// As `share`.
    unsafe fn get(&self, key: usize) -> Option<Arc<Value>> {
        // SAFETY: as in `share`.
        let State::Open(Some(entries)) = (unsafe { &*self.0.get() }) else {
            return None;
        };
        let found = entries.iter().find(|(of, _)| *of == key);
        found.map(|(_, value)| Arc::clone(value))
    }

    /// # Safety
    ///
    /// The table of the current thread, or of one that does not run meanwhile.
    unsafe fn replace(&self, key: usize, value: Option<Arc<Value>>) -> Option<Arc<Value>> {
        // SAFETY: as in `share`. Taken out meanwhile: a global allocator may look for a value here.
        let State::Open(before) = (unsafe { self.0.get().replace(State::Closed) }) else {
            return value;
        };
        let mut entries = before.unwrap_or_default();
        // What is dropped below are references that are not the last: the copy has them, too. The
        // value before is returned, and the one after is the caller's.
        let all = Arc::make_mut(&mut entries);
        let place = all.iter().position(|(of, _)| *of == key);
        let before = match (place, value) {
            (Some(place), Some(value)) => Some(core::mem::replace(&mut all[place].1, value)),
            (Some(place), None) => Some(all.swap_remove(place).1),
            (None, Some(value)) => {
                all.push((key, value));
                None
            }
            (None, None) => None,
        };
        // SAFETY: as above. What it replaces has no destructor to run.
        unsafe { self.0.get().write(State::Open(Some(entries))) };
        before
    }
}

/// Gives the references of a thread's table up, at the end of its closure: destructors are a user's
/// code, as those of procedures that were not run. They find the table closed.
pub(super) struct Closes<'a>(pub &'a Table);

impl Drop for Closes<'_> {
    fn drop(&mut self) {
        // SAFETY: made by the thread itself, whose table it is.
        drop(unsafe { self.0.0.get().replace(State::Closed) });
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_is_shared_of_values_that_were_taken_away() {
        let table = Table::default();
        let is_shared = || {
            // SAFETY: of this thread.
            let shared = unsafe { table.share() };
            matches!(shared.0.into_inner(), State::Open(Some(_)))
        };
        // SAFETY: of this thread.
        let replace = |value| unsafe { table.replace(1, value) };
        assert!(!is_shared());
        replace(Some(Arc::new(7)));
        assert!(is_shared());
        replace(None);
        assert!(!is_shared());
    }
}
