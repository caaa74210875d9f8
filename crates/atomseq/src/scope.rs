//! Scopes as types: the interference that a structure or mechanism is atomic against.
//!
//! | scope | atomic against | so it may be reached by |
//! |---|---|---|
//! | [`SameThread`] | the signal handlers of this thread | one thread and its handlers |
//! | [`SameCpu`] | every thread and handler on this CPU | threads of one CPU at a time |
//! | [`Machine`] | every CPU | all threads and their handlers |
//!
//! A type that contains a scope inherits its restrictions. With [`SameThread`] or [`SameCpu`]
//! inside, it is neither [`Send`] nor [`Sync`], unless it admits other CPUs in another way and
//! implements the traits itself.

use std::marker::PhantomData;

/// Their names appear in compiler errors and state the reason.
struct SharedWithTheSignalHandlersOfThisThreadOnly;
struct SharedByThreadsOfOneCpuOnly;

/// This thread and the signal handlers that interrupt it.
///
/// Neither `Send` nor `Sync`, and neither is any type that contains it.
#[derive(Clone, Copy, Default)]
pub struct SameThread(PhantomData<*mut SharedWithTheSignalHandlersOfThisThreadOnly>);

/// The threads that run on one CPU, and their signal handlers.
///
/// Neither `Send` nor `Sync`, because the scheduler may move a thread to another CPU at any time.
#[derive(Clone, Copy, Default)]
pub struct SameCpu(PhantomData<*mut SharedByThreadsOfOneCpuOnly>);

/// All threads on all CPUs, and their signal handlers.
#[derive(Clone, Copy, Default)]
pub struct Machine;

/// A scope: [`SameThread`], [`SameCpu`] or [`Machine`].
pub trait Scope: sealed::Sealed + 'static {
    /// The name of the scope.
    const NAME: &'static str;

    /// Whether waiting for a holder can succeed. It cannot in [`SameThread`]: the waiter is a
    /// handler that has interrupted the holder.
    const WAITING_HELPS: bool;
}

mod sealed {
    pub trait Sealed {}
}

macro_rules! scopes {
    ($($scope:ident $waiting_helps:literal;)*) => {$(
        impl $scope {
            /// Creates the scope.
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
