//! A sequential model of each structure, a file each.

pub mod ends;
pub mod guards;
pub mod keys;
pub mod registers;
pub mod visits;

pub use ends::Ends;
pub use guards::Guards;
pub use keys::Keys;
pub use registers::Registers;
pub use visits::Visits;
