//! What several targets share: containers of values, arenas of objects, a bundle of one structure
//! of each kind, what all CPUs share, and locks with what they guard.

pub mod accounts;
pub mod bundle;
pub mod conserving;
pub mod container;
pub mod element;
pub mod exclusive;
pub mod handlers_locks;
pub mod interrupted;
pub mod listed;
pub mod objects;
pub mod one_cpu;
pub mod own;
pub mod pooled;
pub mod rings;
pub mod section;
pub mod sharing;
pub mod unprotected;
pub mod waiting;
