//! What the code that [`sequence!`](crate::sequence!) generates asks of this build: sections run
//! here.

use core::sync::atomic::Ordering;

/// The offset of the thread's `struct rseq` from its thread pointer.
#[inline(always)]
pub fn rseq_offset() -> isize {
    // Relaxed: written before the first area exists, and a sequence needs an area or a start-up of
    // its own.
    super::RSEQ_OFFSET.load(Ordering::Relaxed)
}

/// The same for a sequence without a slot, which needs no area and so may be the first to ask.
#[inline(always)]
pub fn started_rseq_offset() -> isize {
    super::start();
    rseq_offset()
}

/// Picks the architecture's code.
#[doc(hidden)]
#[macro_export]
macro_rules! __assembly {
    (x86_64 { $($x86_64:tt)* } aarch64 { $($aarch64:tt)* } otherwise { $($otherwise:tt)* }) => {
        #[cfg(target_arch = "x86_64")]
        { $($x86_64)* }
        #[cfg(target_arch = "aarch64")]
        { $($aarch64)* }
    };
}

/// The compare-and-swap of processors that have an instruction for it.
#[doc(hidden)]
#[macro_export]
#[cfg(target_feature = "lse")]
macro_rules! __interlocked {
    ($lse:literal, $exclusive:literal) => {
        $lse
    };
}

/// The compare-and-swap of every AArch64 processor.
#[doc(hidden)]
#[macro_export]
#[cfg(not(target_feature = "lse"))]
macro_rules! __interlocked {
    ($lse:literal, $exclusive:literal) => {
        $exclusive
    };
}

/// The load-acquire that allows later loads of other words to pass earlier releases, where the
/// processor has it.
#[doc(hidden)]
#[macro_export]
#[cfg(target_feature = "rcpc")]
macro_rules! __load_acquire {
    () => {
        "ldapr"
    };
}

/// The load-acquire every AArch64 processor has.
#[doc(hidden)]
#[macro_export]
#[cfg(not(target_feature = "rcpc"))]
macro_rules! __load_acquire {
    () => {
        "ldar"
    };
}
