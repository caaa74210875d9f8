//! What a thread may share with its handlers, as a trait: [`Interruptible`].

use std::sync::atomic;

/// What a thread may share with its own signal handlers by reference: to them what [`Sync`] is to
/// threads.
///
/// All structures of this module are, and so are atomics, arrays of such types, and structs of
/// them, for which it is implemented like this:
///
/// ```
/// use atomseq::local::{Counter, Interruptible, Stack, per_thread};
///
/// struct Statistics {
///     hits: Counter,
///     recent: Stack<usize, 16>,
/// }
///
/// // SAFETY: both fields are, and there is nothing else to reach.
/// unsafe impl Interruptible for Statistics {
///     const NEEDS_DROP: bool = <Stack<usize, 16>>::NEEDS_DROP;
/// }
///
/// per_thread! {
///     static STATISTICS: Statistics = Statistics { hits: Counter::new(), recent: Stack::new() };
/// }
/// # STATISTICS.with(|statistics| statistics.hits.increment());
/// # assert!(STATISTICS.with(|statistics| statistics.recent.is_empty()));
/// ```
///
/// # Safety
///
/// Whatever safe code can do with a `&Self`, a signal handler may do with the same value between
/// any two instructions of it, on the same thread. Neither may then see the other half done.
///
/// [`Cell`](std::cell::Cell) and [`RefCell`](std::cell::RefCell) are not interruptible: a handler
/// can find their value half written.
#[diagnostic::on_unimplemented(
    message = "`{Self}` cannot be shared with the signal handlers of its thread",
    label = "a handler could find it half changed",
    note = "the structures of `atomseq::local`, atomics, and structs of them that implement \
            `Interruptible` can be shared"
)]
pub unsafe trait Interruptible {
    /// Could values be lost if this were never dropped? Then it cannot be a [`per_thread!`] static.
    ///
    /// [`per_thread!`]: super::per_thread!
    const NEEDS_DROP: bool = std::mem::needs_drop::<Self>();
}

macro_rules! atomics {
    ($($width:literal $atomic:ident $(<$parameter:ident>)?;)*) => {$(
        // SAFETY: the operations of an atomic are indivisible.
        #[cfg(target_has_atomic = $width)]
        unsafe impl $(<$parameter>)? Interruptible for atomic::$atomic $(<$parameter>)? {}
    )*};
}

atomics! {
    "8" AtomicBool; "8" AtomicU8; "8" AtomicI8; "16" AtomicU16; "16" AtomicI16; "32" AtomicU32;
    "32" AtomicI32; "64" AtomicU64; "64" AtomicI64; "ptr" AtomicUsize; "ptr" AtomicIsize;
    "ptr" AtomicPtr<T>;
}

// SAFETY: an array is its elements.
unsafe impl<T: Interruptible, const N: usize> Interruptible for [T; N] {
    const NEEDS_DROP: bool = N > 0 && T::NEEDS_DROP;
}
