//! The structures, each with the calls that its lanes choose.

pub mod element;
pub mod ends;
pub mod keys;
pub mod linked;
pub mod words;
