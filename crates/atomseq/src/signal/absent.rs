//! Systems without signals: nothing is installed, and a mask is nothing.

use core::ffi::c_void;
use std::time::Duration;

use super::audit::Audit;
use super::options::{Error, Options};

/// A handler. It captures nothing.
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

/// What [`Event::chain`] found.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Chained {
    /// A handler, and called it.
    Called,
    /// The default action.
    Default,
    /// That the signal was ignored.
    Ignored,
}

impl Event<'_> {
    /// The signal's number.
    pub fn signal(&self) -> i32 {
        match self.never {}
    }

    /// The instruction at which the thread goes on after the handler.
    pub fn program_counter(&self) -> usize {
        match self.never {}
    }

    /// The instruction at which the signal found the thread.
    pub fn original_pc(&self) -> usize {
        match self.never {}
    }

    /// What the signal interrupted.
    pub fn interrupted(&self) -> Interrupted {
        match self.never {}
    }

    /// The interrupted thread's context.
    pub fn context(&self) -> *mut c_void {
        match self.never {}
    }

    /// Calls the handler that was there before.
    pub fn chain(&mut self) -> Chained {
        match self.never {}
    }
}

/// # Safety
/// Nothing happens.
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

/// A mask is nothing here, so no thread is inside one.
pub fn is_masked() -> bool {
    false
}

pub fn with_kernel_mask<R>(f: impl FnOnce() -> R) -> R {
    f()
}

/// Where in the original a place in a clone is. There are no clones on this system: any place is
/// where it is.
pub fn original_pc(pc: usize) -> usize {
    pc
}

/// Gives up the rollforward under way on this thread. There are none on this system.
pub fn abandon_rollforward() -> bool {
    false
}

/// Sets how long a rollforward may keep faulting. There are none on this system.
pub fn set_rollforward_limit(_limit: Duration) {}

pub fn audit() -> Audit {
    Audit::CLEAN
}

pub fn repair() -> Audit {
    Audit::CLEAN
}
