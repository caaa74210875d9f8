//! What the subjects of an experiment do, a workload each: a trait that atomseq's structures and
//! their peers implement, one loop for all of them, and the check that every operation is accounted
//! for.

pub mod borrowing;
pub mod counting;
pub mod exchange;
pub mod flow;
pub mod locking;
pub mod ordered;
pub mod pair;
pub mod relay;
