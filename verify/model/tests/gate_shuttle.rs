//! The gate under shuttle: every order of steps of the small models, one after the other, and a great
//! many of the large ones. Memory is sequentially consistent here; `gate_loom` has the rest.

#[path = "gate/closers.rs"]
mod closers;
#[path = "gate/forks.rs"]
mod forks;
#[path = "../../../crates/atomseq/src/percpu/lock.rs"]
mod lock;
#[path = "gate/machine.rs"]
mod machine;
#[path = "gate/sections.rs"]
mod sections;
#[path = "gate/shuttle.rs"]
mod sync;
#[path = "../../../crates/atomseq/src/linux/traffic.rs"]
mod traffic;
