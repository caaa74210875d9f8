//! The gate under loom: every value that a relaxed load may return, and a report wherever two threads
//! touch memory with nothing to order them. Loom prunes the orders of steps it tries, and sometimes one too
//! many: `gate_shuttle` tries them all.

#[path = "gate/closers.rs"]
mod closers;
#[path = "gate/forks.rs"]
mod forks;
#[path = "../../../crates/atomseq/src/percpu/lock.rs"]
mod lock;
#[path = "gate/machine.rs"]
mod machine;
#[path = "gate/orderings.rs"]
mod orderings;
#[path = "gate/sections.rs"]
mod sections;
#[path = "gate/loom.rs"]
mod sync;
#[path = "../../../crates/atomseq/src/linux/traffic.rs"]
mod traffic;
