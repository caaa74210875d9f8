//! A value that its first use makes, for statics.

use std::fmt;
use std::marker::PhantomData;
use std::ops::Deref;
use std::ptr::{NonNull, null_mut};

use crate::mappings;
use crate::sync::{AtomicPtr, Ordering};

/// A value that its first use makes: a static whose constructor is not `const`.
///
/// Unlike a [`LazyLock`](std::sync::LazyLock) it never waits for another thread. So a signal
/// handler may be its first user, if `make` may be called there. The constructors of
/// [`percpu`](crate::percpu) may, once [`status()`](crate::status()) has returned; those of
/// [`nonblocking`](crate::nonblocking) call the global allocator. After the first use, any handler
/// may use it.
///
/// Two threads, or a thread and its handler, may both call `make`. The value that is published
/// first is the one that every user gets; the other is dropped, by the user that made it. A panic
/// in `make` goes to its caller, and the next use tries again. A `make` that uses the same `Lazy`
/// recurses.
///
/// Costs one load and one branch at each use, and no atomic read-modify-write after the first. The
/// value lies in pages of its own. Lock-free, apart from `make` and the destructor of a value that
/// is dropped.
///
/// ```
/// use atomseq::Lazy;
/// use atomseq::percpu::Pool;
///
/// type Buffer = Box<[u8; 4096]>;
/// static BUFFERS: Lazy<Pool<Buffer, fn() -> Buffer>> =
///     Lazy::new(|| Pool::with_capacity_per_cpu(64, || Box::new([0; 4096])));
///
/// BUFFERS.lease().unwrap()[0] = 1;
/// assert_eq!(BUFFERS.cached(), 1);
/// ```
pub struct Lazy<T, F = fn() -> T> {
    /// Null, or the value, in a mapping that this owns. Set once.
    value: AtomicPtr<T>,
    make: F,
    /// It owns a `T`.
    owned: PhantomData<T>,
}

// SAFETY: users on several threads share the value, which needs `T: Sync`. One thread makes and
// another drops it, which needs `T: Send`. Several call `make` at a time, which needs `F: Sync`.
unsafe impl<T: Send + Sync, F: Sync> Sync for Lazy<T, F> {}

impl<T, F> Lazy<T, F> {
    /// Creates it without a value.
    pub const fn new(make: F) -> Lazy<T, F> {
        const {
            assert!(
                align_of::<T>() <= 4096,
                "a mapping is aligned to 4,096 bytes"
            )
        };
        Lazy {
            value: AtomicPtr::new(null_mut()),
            make,
            owned: PhantomData,
        }
    }

    /// Returns the value, or `None` if no use has made it yet.
    #[inline]
    pub fn get(this: &Lazy<T, F>) -> Option<&T> {
        // Acquire: pairs with the Release in `publish`, so the value is seen as it was made.
        let value = NonNull::new(this.value.load(Ordering::Acquire))?;
        // SAFETY: a published value stays in its place until `this` is dropped.
        Some(unsafe { value.as_ref() })
    }

    /// Publishes a value, or drops it if another is published, and returns the published one.
    /// Returns `None` if there is neither a published value nor memory for this one.
    fn publish(&self, own: T) -> Option<&T> {
        let Some(place) = mappings::map(size_of::<T>().max(1)).map(NonNull::cast::<T>) else {
            return Lazy::get(self);
        };
        // SAFETY: the mapping is large enough for a `T`, aligned to a page, and belongs to this
        // call.
        unsafe { place.write(own) };
        // Release: pairs with the Acquire in `get`. Relaxed on failure: `get` below loads it again.
        let (success, failure) = (Ordering::Release, Ordering::Relaxed);
        let first = self
            .value
            .compare_exchange(null_mut(), place.as_ptr(), success, failure);
        if first.is_err() {
            // SAFETY: it was not published, so this call owns it.
            drop(unsafe { take(place) });
        }
        Lazy::get(self)
    }
}

impl<T, F: Fn() -> T> Lazy<T, F> {
    /// Returns the value, and makes it if this is its first use. Dereferencing does the same.
    ///
    /// # Panics
    ///
    /// If `make` does, or if the operating system refuses the memory for the value. Also if the
    /// value was published meanwhile, and the destructor of the one made here panics.
    #[inline]
    #[track_caller]
    pub fn force(this: &Lazy<T, F>) -> &T {
        match Lazy::get(this) {
            Some(value) => value,
            None => this.make(),
        }
    }

    #[cold]
    #[inline(never)]
    #[track_caller]
    fn make(&self) -> &T {
        self.publish((self.make)())
            .expect("the operating system refused the memory for a lazy value")
    }
}

/// Moves a value out of its mapping, and returns the mapping to the system.
///
/// # Safety
///
/// The place is that of a value in [`Lazy::publish`], and nothing uses it any more.
unsafe fn take<T>(place: NonNull<T>) -> T {
    // SAFETY: the place holds a value, and nothing uses it after this.
    let value = unsafe { place.read() };
    // SAFETY: the mapping was made for this size, and the value has left it.
    unsafe { mappings::unmap(place.cast(), size_of::<T>().max(1)) };
    value
}

impl<T, F: Fn() -> T> Deref for Lazy<T, F> {
    type Target = T;

    #[inline]
    #[track_caller]
    fn deref(&self) -> &T {
        Lazy::force(self)
    }
}

impl<T, F> Drop for Lazy<T, F> {
    fn drop(&mut self) {
        if let Some(place) = NonNull::new(*self.value.get_mut()) {
            // SAFETY: the value was published here, and no use outlives `self`.
            drop(unsafe { take(place) });
        }
    }
}

impl<T: fmt::Debug, F> fmt::Debug for Lazy<T, F> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut tuple = f.debug_tuple("Lazy");
        match Lazy::get(self) {
            Some(value) => tuple.field(value),
            None => tuple.field(&format_args!("<not made>")),
        }
        .finish()
    }
}

#[cfg(test)]
mod tests {
    use std::cell::Cell;
    use std::panic::{AssertUnwindSafe, catch_unwind};
    use std::sync::Barrier;
    use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};
    use std::thread;

    use super::*;
    use crate::tests::rounds;

    /// Counts itself while it lives.
    struct Counted<'a>(&'a AtomicUsize);

    impl<'a> Counted<'a> {
        fn new(living: &'a AtomicUsize) -> Counted<'a> {
            living.fetch_add(1, Relaxed);
            Counted(living)
        }
    }

    impl Drop for Counted<'_> {
        fn drop(&mut self) {
            self.0.fetch_sub(1, Relaxed);
        }
    }

    #[test]
    fn all_threads_get_one_value_and_the_others_are_dropped() {
        const THREADS: usize = 4;
        for _ in 0..rounds(2000) {
            let living = AtomicUsize::new(0);
            let lazy = Lazy::new(|| Counted::new(&living));
            let start = Barrier::new(THREADS);
            let places = thread::scope(|scope| {
                let threads = [(); THREADS].map(|()| {
                    scope.spawn(|| {
                        start.wait();
                        (&raw const *lazy).addr()
                    })
                });
                threads.map(|thread| thread.join().unwrap())
            });
            assert_eq!(places, [places[0]; THREADS]);
            assert_eq!(living.load(Relaxed), 1);
            drop(lazy);
            assert_eq!(living.load(Relaxed), 0);
        }
    }

    /// A use inside the first call of `make` stands for a handler that interrupts it.
    #[test]
    fn a_use_inside_the_first_use_decides() {
        static LIVING: AtomicUsize = AtomicUsize::new(0);
        static CALLS: AtomicUsize = AtomicUsize::new(0);
        static LAZY: Lazy<(usize, Counted<'static>)> = Lazy::new(|| {
            let call = CALLS.fetch_add(1, Relaxed);
            if call == 0 {
                assert_eq!(LAZY.0, 1);
            }
            (call, Counted::new(&LIVING))
        });
        assert_eq!(LAZY.0, 1);
        assert_eq!((LIVING.load(Relaxed), CALLS.load(Relaxed)), (1, 2));
    }

    #[test]
    fn a_panic_leaves_no_value_and_the_next_use_tries_again() {
        let calls = Cell::new(0);
        let lazy = Lazy::new(|| {
            calls.set(calls.get() + 1);
            assert!(calls.get() > 1, "the first call");
            calls.get()
        });
        assert!(catch_unwind(AssertUnwindSafe(|| *lazy)).is_err());
        assert_eq!(Lazy::get(&lazy), None);
        assert_eq!((*lazy, *lazy), (2, 2));
    }

    #[test]
    fn a_lazy_value_that_nothing_used_is_not_made() {
        let lazy = Lazy::<(), _>::new(|| unreachable!("nothing uses it"));
        assert_eq!(format!("{lazy:?}"), "Lazy(<not made>)");
        drop(lazy);
    }
}
