//! What tests of locks share, for any lock and any mechanism.

pub mod careless;
pub mod races;
#[cfg(target_os = "linux")]
pub mod threads;
