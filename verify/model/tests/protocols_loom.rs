//! The protocols around sections under loom: every value that a relaxed load may return, and a
//! report wherever two threads touch memory with nothing to order them. Loom prunes the orders of
//! steps it tries, and sometimes one too many: `protocols_shuttle` tries them all.

#[path = "../../../crates/atomseq/src/percpu/baseline.rs"]
mod baseline;
#[path = "../../../crates/atomseq/src/mutex/bias/mod.rs"]
mod bias;
#[path = "protocols/closers.rs"]
mod closers;
#[path = "protocols/drains.rs"]
mod drains;
#[path = "protocols/forks.rs"]
mod forks;
#[path = "protocols/home.rs"]
mod home;
#[path = "protocols/homes.rs"]
mod homes;
#[path = "../../../crates/atomseq/src/percpu/lock.rs"]
mod lock;
#[path = "protocols/machine.rs"]
mod machine;
#[path = "../../../crates/atomseq/src/mutex/notification.rs"]
mod notification;
#[path = "protocols/orderings.rs"]
mod orderings;
#[path = "../../../crates/atomseq/src/mutex/parking.rs"]
mod parking;
#[path = "../../../crates/atomseq/src/mutex/permits.rs"]
mod permits;
#[path = "protocols/sections.rs"]
mod sections;
#[path = "protocols/sleepers.rs"]
mod sleepers;
#[path = "protocols/loom.rs"]
mod sync;
#[path = "../../../crates/atomseq/src/linux/traffic.rs"]
mod traffic;
