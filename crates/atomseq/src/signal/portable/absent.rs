//! Systems without signals: nothing is installed, and a mask is nothing.

use core::convert::Infallible;
use core::ffi::c_void;

use crate::signal::audit::Audit;
use crate::signal::event::{Chained, Handler};
use crate::signal::options::{Error, Options};

/// What was there before a handler: there is no handler.
#[derive(Debug)]
pub struct Previous(Infallible);

impl Previous {
    /// # Safety
    /// It is never called.
    pub unsafe fn call(&self, _: i32, _: *const Infallible, _: *mut c_void) -> Chained {
        match self.0 {}
    }
}

/// # Safety
/// Nothing happens.
pub unsafe fn install(_signal: i32, _handler: Handler, _options: Options) -> Result<(), Error> {
    Err(Error::Unsupported)
}

pub fn uninstall(_signal: i32) -> Result<(), Error> {
    Err(Error::Unsupported)
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

pub fn audit() -> Audit {
    Audit::CLEAN
}

pub fn repair() -> Audit {
    Audit::CLEAN
}
