//! A sequential model of each structure, a file each.

pub mod ends;
pub mod registers;

pub use ends::Ends;
pub use registers::Registers;
