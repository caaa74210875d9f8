//! Other systems: threads can be neither moved nor interrupted, and nothing forks.

use std::convert::Infallible;
use std::ffi::c_void;
use std::io;
use std::time::Duration;

use super::{Ending, Signal};
use crate::engine::invariant::Checked;

/// Returns 0: threads have no number here.
pub fn own_number() -> i32 {
    0
}

/// Returns a number for each CPU.
pub fn allowed_cpus() -> Vec<usize> {
    (0..std::thread::available_parallelism().map_or(1, usize::from)).collect()
}

/// Moves no thread.
pub fn move_thread(_thread: i32, _cpus: &[usize]) -> bool {
    false
}

/// Interrupts no thread.
pub fn interrupt(_thread: i32, _signal: Signal) -> bool {
    false
}

/// Makes no fence.
pub fn fence(_cpu: usize) -> bool {
    false
}

/// Installs nothing.
pub fn install_handlers(_handler: fn(Signal), _managed: bool) {}

/// Prints nothing at a crash.
pub fn on_crash(_text: String) {}

/// There is no such timer.
#[derive(Debug)]
pub struct Timer(Infallible);

impl Timer {
    /// Returns `None`.
    pub fn start(_thread: i32, _period: Duration) -> Option<Timer> {
        None
    }

    /// Cannot be called.
    pub fn set(&self, _period: Duration) -> bool {
        match self.0 {}
    }
}

/// Does not fork.
///
/// # Errors
///
/// Always.
pub fn fork(_check: impl FnOnce() -> Checked) -> io::Result<Ending> {
    Err(io::ErrorKind::Unsupported.into())
}

/// Starts no thread: only std does here.
///
/// # Errors
///
/// Always.
pub fn run_on_c_thread(_work: impl FnMut() + Send) -> io::Result<()> {
    Err(io::ErrorKind::Unsupported.into())
}

/// Installs no hook.
pub fn when_thread_exits(_hook: extern "C" fn(*mut c_void), _argument: *const ()) -> bool {
    false
}

/// Nothing is known of the machine's load.
#[derive(Clone, Copy, Debug)]
pub struct Load(Infallible);

impl Load {
    /// Returns `None`.
    pub fn now() -> Option<Load> {
        None
    }

    /// Cannot be called.
    pub fn cause(self) -> Option<String> {
        match self.0 {}
    }
}
