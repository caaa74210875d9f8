//! The structures, each with the calls that its lanes choose.

pub mod element;
pub mod ends;
pub mod guards;
pub mod keys;
pub mod linked;
pub mod visits;
pub mod words;
