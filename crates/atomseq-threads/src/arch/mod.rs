//! Assembly, a file an architecture, in which the same functions have the same names: `prepare`
//! and `switch` change stacks; `Preemption` makes an interrupted coroutine call a function.

#[cfg(target_arch = "aarch64")]
mod aarch64;
#[cfg(target_arch = "x86_64")]
mod x86_64;

#[cfg(target_arch = "aarch64")]
pub(crate) use aarch64::{Preemption, prepare, switch};
#[cfg(target_arch = "x86_64")]
pub(crate) use x86_64::{Preemption, prepare, switch};
