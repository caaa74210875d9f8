//! Assembly: system calls, and functions whose callers' frames matter.

mod x86_64;
pub use x86_64::*;
