//! What tests of locks share, for any lock and any mechanism.

pub mod careless;
pub mod races;
