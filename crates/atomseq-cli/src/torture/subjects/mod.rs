//! What several targets share: containers of values, arenas of objects, and a bundle of one structure of each kind.

pub mod bundle;
pub mod conserving;
pub mod container;
pub mod element;
pub mod interrupted;
pub mod listed;
pub mod objects;
pub mod own;
pub mod pooled;
