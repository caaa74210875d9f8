//! A sequential model of each structure, a file each.

pub mod ends;
pub mod keys;
pub mod registers;

pub use ends::Ends;
pub use keys::Keys;
pub use registers::Registers;
