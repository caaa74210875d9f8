//! What tests of locks are made of, for any lock and any mechanism.

pub mod careless;
pub mod exclusion;
#[cfg(target_os = "linux")]
pub mod handlers;
#[cfg(target_os = "linux")]
pub mod races;
