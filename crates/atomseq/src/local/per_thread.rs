//! Statics with one value per thread, which the thread's signal handlers can access at any time.

use std::cell::UnsafeCell;
use std::fmt;

use super::Interruptible;

/// A static with one value per thread; declared with [`per_thread!`](super::per_thread!).
pub struct PerThread<T: 'static> {
    address: fn() -> *const T,
}

impl<T> PerThread<T> {
    /// Creates the handle. `address` returns the address of the calling thread's value.
    ///
    /// # Safety
    ///
    /// `address` always returns the same valid pointer in one thread, and a different one in each
    /// thread. The pointer stays valid until the thread exits.
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

    /// Calls `work` with this thread's value. Finding it takes two instructions, no test and no
    /// lock.
    ///
    /// May be called from a thread's first instruction to its last, and in signal handlers.
    #[inline]
    pub fn with<R>(&self, work: impl FnOnce(&T) -> R) -> R {
        // SAFETY: `new` requires that the pointer is valid until this thread exits, and `work`
        // returns before that. Handlers also get a shared reference, which is sound because `new`
        // requires `T: Interruptible`.
        work(unsafe { &*(self.address)() })
    }
}

impl<T: fmt::Debug> fmt::Debug for PerThread<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.with(|value| f.debug_tuple("PerThread").field(value).finish())
    }
}

/// The initial value of a per-thread static. The linker places it in the initial image of
/// thread-local storage, so its own address is meaningless. Only the assembly that finds a thread's
/// copy refers to it.
#[repr(transparent)]
pub struct Image<T>(UnsafeCell<T>);

// SAFETY: each thread accesses a copy of its own, and no code accesses this value.
unsafe impl<T> Sync for Image<T> {}

impl<T: 'static> Image<T> {
    /// Creates the initial value.
    pub const fn new(value: T) -> Image<T> {
        Image(UnsafeCell::new(value))
    }

    /// Casts the address of a thread's copy to the type of the image that `_image` could hold. It
    /// is always `None`, because the image itself must not be accessed.
    #[inline(always)]
    pub fn copy_at(_image: Option<&'static Image<T>>, address: *const ()) -> *const T {
        address.cast()
    }
}

impl<T> fmt::Debug for Image<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Image")
    }
}

/// Declares statics with one value per thread, which the thread's signal handlers may access.
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
/// // In a handler or outside, whatever code was interrupted:
/// INTERRUPTIONS.with(|interruptions| interruptions.increment());
/// BY_SIGNAL.with(|map| map.add(SIGUSR1, 1)).unwrap();
/// # assert_eq!(BY_SIGNAL.with(|map| map.get(SIGUSR1)), Some(1));
///
/// // Another thread has a value of its own.
/// let elsewhere = std::thread::spawn(|| INTERRUPTIONS.with(|interruptions| interruptions.sum()));
/// assert_eq!(elsewhere.join().unwrap(), 0);
/// ```
///
/// Each name is a [`PerThread`]. [`PerThread::with`] accesses this thread's value.
///
/// # Differences from `std::thread_local!`
///
/// `std::thread_local!` may initialize a value on first use, and may then register a destructor. In
/// a shared object it calls the C library's `__tls_get_addr`, which may allocate. A signal handler
/// that has interrupted `malloc` must do none of these.
///
/// A `per_thread!` static exists from a thread's first instruction to its last. Its initial value
/// is a constant that the C library copies when it creates the thread. An access is two
/// instructions that call nothing (the *initial-exec* model of thread-local storage), in
/// executables, static executables and shared objects. On systems other than Linux and with
/// `--cfg atomseq_portable` it is a `std::thread_local!` without a destructor.
///
/// This has four consequences:
///
/// * The initial value must be constant. It is stored in the executable, and copied whole for each
///   thread.
/// * The type must be [`Interruptible`](crate::local::Interruptible): a handler may do with it
///   whatever the thread may, at any instruction of the thread's own access.
/// * Nothing is dropped when a thread exits. A type that needs dropping, such as a structure of
///   elements that own memory, therefore does not compile. Elements that a thread leaves in a value
///   are lost when it exits.
/// * A shared object that is loaded with `dlopen` shares the small space that the C library
///   reserves for this with other objects, and `dlopen` fails if it does not suffice. With glibc it
///   is about 1.5 KiB, or what the environment variable
///   `GLIBC_TUNABLES=glibc.rtld.optional_static_tls=…` sets. With musl there is none. Executables
///   and the objects they are linked with have no such limit.
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

/// Finds this thread's copy of a static. It is a separate macro, so that an attribute on the static
/// receives it unexpanded.
#[doc(hidden)]
#[macro_export]
macro_rules! __this_thread {
    ($type:ty, $value:expr) => {{
        #[inline]
        fn __atomseq_address() -> *const $type {
            $crate::__thread_storage!($type, $value)
        }
        // SAFETY: `__thread_storage!` returns the address of the calling thread's storage for this
        // static, which is valid until the thread exits.
        unsafe { $crate::local::PerThread::new(__atomseq_address) }
    }};
}
