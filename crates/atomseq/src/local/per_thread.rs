//! Statics of which each thread has its own, reachable from its signal handlers at any time.

use std::cell::UnsafeCell;
use std::fmt;

use super::Interruptible;

/// A static of which each thread has its own; made by [`per_thread!`](super::per_thread!).
pub struct PerThread<T: 'static> {
    address: fn() -> *const T,
}

impl<T> PerThread<T> {
    /// The static whose value in the calling thread `address` finds.
    ///
    /// # Safety
    ///
    /// `address` returns a valid pointer, the same every time in a thread, another one in each,
    /// good until the thread ends.
    #[doc(hidden)]
    pub const unsafe fn new(address: fn() -> *const T) -> PerThread<T>
    where
        T: Interruptible,
    {
        assert!(
            !T::NEEDS_DROP,
            "a per-thread static may hold nothing that has to be dropped: a thread ends without dropping what is left in it"
        );
        PerThread { address }
    }

    /// Calls `work` with this thread's value: two instructions that find it, no test, no lock.
    ///
    /// Works from the first instruction of a thread to its last, in signal handlers as anywhere.
    #[inline]
    pub fn with<R>(&self, work: impl FnOnce(&T) -> R) -> R {
        // SAFETY: `new`'s caller: a valid pointer, good as long as this thread runs, and `work`
        // returns before that ends. Handlers come in by shared reference too, and may: `new` takes
        // interruptible types only.
        work(unsafe { &*(self.address)() })
    }
}

impl<T: fmt::Debug> fmt::Debug for PerThread<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.with(|value| f.debug_tuple("PerThread").field(value).finish())
    }
}

/// What each thread's value starts out as. The linker keeps it among the initial images of
/// thread-local storage, so its own address means nothing, and nobody takes it but the assembly
/// that finds a thread's copy.
#[repr(transparent)]
pub struct Image<T>(UnsafeCell<T>);

// SAFETY: each thread reaches a copy of its own, never this value.
unsafe impl<T> Sync for Image<T> {}

impl<T: 'static> Image<T> {
    /// The initial value.
    pub const fn new(value: T) -> Image<T> {
        Image(UnsafeCell::new(value))
    }

    /// The address of a thread's copy of the image that `image` names, with the image's type.
    /// `image` is never called, for the image itself must not be reached.
    #[inline(always)]
    pub fn copy_at(_image: impl FnOnce() -> &'static Image<T>, address: *const ()) -> *const T {
        address.cast()
    }
}

impl<T> fmt::Debug for Image<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Image")
    }
}

/// Declares statics of which each thread has its own, which its signal handlers may use too.
///
/// ```
/// use atomseq::local::{Counter, Map};
///
/// atomseq::local::per_thread! {
///     /// How often this thread was interrupted.
///     pub static INTERRUPTIONS: Counter = Counter::new();
///     static BY_SIGNAL: Map<u32, u64, 64> = Map::new();
/// }
///
/// # const SIGUSR1: u32 = 10;
/// // In a handler or outside, whatever was interrupted:
/// INTERRUPTIONS.with(|interruptions| interruptions.increment());
/// BY_SIGNAL.with(|map| map.add(SIGUSR1, 1)).unwrap();
/// # assert_eq!(BY_SIGNAL.with(|map| map.get(SIGUSR1)), Some(1));
///
/// // Another thread has its own.
/// let elsewhere = std::thread::spawn(|| INTERRUPTIONS.with(|interruptions| interruptions.sum()));
/// assert_eq!(elsewhere.join().unwrap(), 0);
/// ```
///
/// Each name is a [`PerThread`]; [`PerThread::with`] reaches this thread's value.
///
/// # What is different from `std::thread_local!`
///
/// `std`'s may be set up on first use, may register a destructor then, and in a shared object calls
/// the C library's `__tls_get_addr`, which may allocate: nothing that a signal handler should do
/// that has interrupted `malloc`. This one is there from the first instruction of each thread to
/// its last: the initial value is a constant that the C library copies when it makes the thread,
/// and an access is two instructions that call nothing (the *initial-exec* model of thread-local
/// storage), in executables, static ones and shared objects alike. (On systems other than Linux and
/// with `--cfg atomseq_portable` it is a `std::thread_local!` without a destructor.)
///
/// So
///
/// * the initial value must be constant: it is written to the executable, and copied whole for each
///   thread;
/// * the type must be [`Interruptible`](crate::local::Interruptible): all that a handler may do to
///   it while the thread is anywhere in doing the same must be sound;
/// * nothing is dropped when a thread ends, so a value that would have to be (with elements that
///   own memory) does not compile. What is not taken out before the thread's end, is lost with it;
/// * a shared object that is loaded by `dlopen` shares with others the little room that the C
///   library keeps for this. With glibc that is about 1.5 KiB, and more if the environment variable
///   `GLIBC_TUNABLES=glibc.rtld.optional_static_tls=…` says so; with musl there is none. `dlopen`
///   fails if there is too little. Executables and the objects they are linked with have no such
///   limit.
#[doc(hidden)]
#[macro_export]
macro_rules! __per_thread {
    () => {};
    ($(#[$attribute:meta])* $visibility:vis static $name:ident: $type:ty = $value:expr $(; $($rest:tt)*)?) => {
        $(#[$attribute])*
        $visibility const $name: $crate::local::PerThread<$type> = $crate::__this_thread! { $type, $value };
        $($crate::__per_thread! { $($rest)* })?
    };
}

/// What finds this thread's copy of a static: out of an attribute's reach, as a macro that is not
/// expanded yet.
#[doc(hidden)]
#[macro_export]
macro_rules! __this_thread {
    ($type:ty, $value:expr) => {{
        #[inline]
        fn __atomseq_address() -> *const $type {
            $crate::__thread_storage!($type, $value)
        }
        // SAFETY: what `__thread_storage!` expands to is the address of this thread's storage for
        // this static.
        unsafe { $crate::local::PerThread::new(__atomseq_address) }
    }};
}
