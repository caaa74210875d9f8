//! Other systems: no thread can be moved or interrupted from outside, and nothing forks.

use std::convert::Infallible;
use std::ffi::c_void;
use std::io;
use std::time::Duration;

use super::Signal;
use crate::torture::harness::law::Checked;

/// Threads have no number here.
pub fn own_number() -> i32 {
    0
}

/// No thread is moved.
pub fn move_thread(_thread: i32, _cpus: &[usize]) -> bool {
    false
}

/// No thread is interrupted.
pub fn interrupt(_thread: i32, _signal: Signal) -> bool {
    false
}

/// There is no fence.
pub fn fence(_cpu: usize) -> bool {
    false
}

/// Nothing calls a handler.
pub fn install_handlers(_handler: fn(Signal), _managed: bool) {}

/// A crash has no last words.
pub fn on_crash(_text: String) {}

/// There is no such timer.
#[derive(Debug)]
pub struct Timer(Infallible);

impl Timer {
    /// Never starts.
    pub fn start(_thread: i32, _period: Duration) -> Option<Timer> {
        None
    }

    /// Never called.
    pub fn set(&self, _period: Duration) -> bool {
        match self.0 {}
    }
}

/// How a child ended.
#[expect(dead_code, reason = "there is no child that could end")]
#[derive(Debug)]
pub enum Ending {
    /// It had checked everything, with this result.
    Checked(Checked),
    /// It came to no result: a panic, or a signal.
    Died,
    /// It had to be killed.
    Hung,
}

/// Nothing forks here.
///
/// # Errors
///
/// Always.
pub fn fork(_check: impl FnOnce() -> Checked) -> io::Result<Ending> {
    Err(io::ErrorKind::Unsupported.into())
}

/// Threads are only started by std here.
///
/// # Errors
///
/// Always.
pub fn run_on_c_thread(_work: impl FnMut() + Send) -> io::Result<()> {
    Err(io::ErrorKind::Unsupported.into())
}

/// There is no such hook.
pub fn when_thread_ends(_hook: extern "C" fn(*mut c_void), _argument: *const ()) -> bool {
    false
}
