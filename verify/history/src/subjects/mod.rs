//! The structures, each with the calls that its lanes choose.

pub mod ends;
pub mod words;
