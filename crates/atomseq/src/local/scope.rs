//! The trait of types that a thread may share with its signal handlers: [`Interruptible`].

use std::sync::atomic;

/// A type that a thread may share with its own signal handlers by reference, as [`Sync`] types are
/// shared between threads.
///
/// All structures of this module, atomics, and arrays of such types implement it. A struct of them
/// can implement it like this:
///
/// ```
/// use atomseq::local::{Counter, Interruptible, Stack, per_thread};
///
/// struct Statistics {
///     hits: Counter,
///     recent: Stack<usize, 16>,
/// }
///
/// // SAFETY: both fields are interruptible, and there is no other field.
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
/// A signal handler may do whatever safe code can do with `&Self`, to the same value, between any
/// two instructions of such code on the same thread. Neither of them may then observe the other
/// half done.
///
/// [`Cell`](std::cell::Cell) and [`RefCell`](std::cell::RefCell) are not interruptible, because a
/// handler can find their value half written.
#[diagnostic::on_unimplemented(
    message = "`{Self}` cannot be shared with the signal handlers of its thread",
    label = "a handler could find it half changed",
    note = "the structures of `atomseq::local`, atomics, and structs of them that implement \
            `Interruptible` can be shared"
)]
pub unsafe trait Interruptible {
    /// Whether values could be lost if this were never dropped. If so, the type cannot be a
    /// [`per_thread!`] static.
    ///
    /// [`per_thread!`]: super::per_thread!
    const NEEDS_DROP: bool = std::mem::needs_drop::<Self>();
}

macro_rules! atomics {
    ($($width:literal $atomic:ident $(<$parameter:ident>)?;)*) => {$(
        // SAFETY: an atomic's operations are indivisible, so no handler finds one half done.
        #[cfg(target_has_atomic = $width)]
        unsafe impl $(<$parameter>)? Interruptible for atomic::$atomic $(<$parameter>)? {}
    )*};
}

atomics! {
    "8" AtomicBool; "8" AtomicU8; "8" AtomicI8; "16" AtomicU16; "16" AtomicI16; "32" AtomicU32;
    "32" AtomicI32; "64" AtomicU64; "64" AtomicI64; "ptr" AtomicUsize; "ptr" AtomicIsize;
    "ptr" AtomicPtr<T>;
}

// SAFETY: an array gives access to its elements only, which are interruptible.
unsafe impl<T: Interruptible, const N: usize> Interruptible for [T; N] {
    const NEEDS_DROP: bool = N > 0 && T::NEEDS_DROP;
}
