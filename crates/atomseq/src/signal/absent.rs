//! Systems without signals: no handler can be installed, and a mask does nothing.

use core::ffi::c_void;
use std::time::Duration;

use super::audit::Audit;
use super::options::{Error, Options};

/// A signal handler: a plain function.
pub type Handler = fn(&mut Event<'_>);

/// One delivery of a signal. There are none on this system.
#[derive(Debug)]
pub struct Event<'a> {
    never: core::convert::Infallible,
    _info: core::marker::PhantomData<&'a ()>,
}

/// What a signal interrupted.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Interrupted {
    /// No sequence.
    Plain,
    /// A `restarting` sequence.
    Restarted,
    /// A `rolling` sequence.
    RolledForward,
    /// A sequence, in the middle.
    Inside,
}

/// The outcome of [`Event::chain`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Chained {
    /// There was a handler, and it was called.
    Called,
    /// There was the default action.
    Default,
    /// The signal was ignored.
    Ignored,
}

impl Event<'_> {
    /// Returns the signal's number.
    pub fn signal(&self) -> i32 {
        match self.never {}
    }

    /// Returns the instruction at which the thread continues after the handler.
    pub fn program_counter(&self) -> usize {
        match self.never {}
    }

    /// Returns the instruction that the signal interrupted.
    pub fn original_pc(&self) -> usize {
        match self.never {}
    }

    /// Returns what the signal interrupted.
    pub fn interrupted(&self) -> Interrupted {
        match self.never {}
    }

    /// Returns the interrupted thread's context.
    pub fn context(&self) -> *mut c_void {
        match self.never {}
    }

    /// Calls the handler that was there before.
    pub fn chain(&mut self) -> Chained {
        match self.never {}
    }
}

/// # Safety
/// Always sound: it installs nothing.
pub unsafe fn install(_signal: i32, _handler: Handler, _options: Options) -> Result<(), Error> {
    Err(Error::Unsupported)
}

pub fn uninstall(signal: i32) -> Result<(), Error> {
    Err(Error::NotInstalled(signal))
}

pub fn is_managed(_signal: i32) -> bool {
    false
}

#[inline(always)]
pub fn start_mask() {}

#[inline(always)]
pub fn end_mask() {}

/// Returns `false`: a mask does nothing here, so no thread is inside one.
pub fn is_masked() -> bool {
    false
}

pub fn with_kernel_mask<R>(f: impl FnOnce() -> R) -> R {
    f()
}

/// Returns the place in the sequence that corresponds to a place in its clone. There are no clones
/// on this system, so it returns `pc`.
pub fn original_pc(pc: usize) -> usize {
    pc
}

/// Abandons the rollforward under way on this thread. There are none on this system, so it returns
/// `false`.
pub fn abandon_rollforward() -> bool {
    false
}

/// Sets how long a rollforward may keep faulting. There are none on this system, so it does
/// nothing.
pub fn set_rollforward_limit(_limit: Duration) {}

pub fn audit() -> Audit {
    Audit::CLEAN
}

pub fn repair() -> Audit {
    Audit::CLEAN
}
