//! Who may interfere, as types: what a structure or a mechanism is atomic against.
//!
//! | scope | atomic against | so it may be reached by |
//! |---|---|---|
//! | [`SameThread`] | the signal handlers of this thread | one thread and its handlers |
//! | [`SameCpu`] | every thread and handler on this CPU | threads of one CPU at a time |
//! | [`Machine`] | every CPU | everybody |
//!
//! A type that contains a scope inherits what the scope allows: with [`SameThread`] or [`SameCpu`]
//! inside it is neither [`Send`] nor [`Sync`], unless it has another way to let other CPUs in, and
//! says so.

use std::marker::PhantomData;

/// The names that error messages give the reason.
struct SharedWithTheSignalHandlersOfThisThreadOnly;
struct SharedByThreadsOfOneCpuOnly;

/// This thread and the signal handlers that interrupt it.
///
/// Neither `Send` nor `Sync`, and so is everything that contains one.
#[derive(Clone, Copy, Default)]
pub struct SameThread(PhantomData<*mut SharedWithTheSignalHandlersOfThisThreadOnly>);

/// The threads that run on one CPU, and their signal handlers.
///
/// Neither `Send` nor `Sync`: a thread is on one CPU only until it is moved.
#[derive(Clone, Copy, Default)]
pub struct SameCpu(PhantomData<*mut SharedByThreadsOfOneCpuOnly>);

/// All threads on all CPUs, and their signal handlers.
#[derive(Clone, Copy, Default)]
pub struct Machine;

/// One of [`SameThread`], [`SameCpu`] and [`Machine`].
pub trait Scope: sealed::Sealed + 'static {
    /// What to call it.
    const NAME: &'static str;

    /// Could waiting ever help? In [`SameThread`] it could not: whoever holds what is waited for
    /// has been interrupted by the one who waits.
    const WAITING_HELPS: bool;
}

mod sealed {
    pub trait Sealed {}
}

macro_rules! scopes {
    ($($scope:ident $waiting_helps:literal;)*) => {$(
        impl $scope {
            /// The scope.
            pub const fn new() -> $scope {
                scopes!(@value $scope)
            }
        }

        impl std::fmt::Debug for $scope {
            fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                f.write_str(Self::NAME)
            }
        }

        impl sealed::Sealed for $scope {}

        impl Scope for $scope {
            const NAME: &'static str = stringify!($scope);
            const WAITING_HELPS: bool = $waiting_helps;
        }
    )*};
    (@value Machine) => { Machine };
    (@value $scope:ident) => { $scope(PhantomData) };
}

scopes! {
    SameThread false;
    SameCpu true;
    Machine true;
}
