//! The protocols around sections under shuttle: every order of steps of the small models, one after
//! the other, and many of the large ones. Memory is sequentially consistent here; `protocols_loom`
//! covers weaker orderings.

#[path = "../../../crates/atomseq/src/percpu/baseline.rs"]
mod baseline;
#[path = "../../../crates/atomseq/src/mutex/bias/mod.rs"]
mod bias;
#[path = "protocols/drains.rs"]
mod drains;
#[path = "protocols/first_uses.rs"]
mod first_uses;
#[path = "protocols/forks.rs"]
mod forks;
#[path = "protocols/gates.rs"]
mod gates;
#[path = "protocols/homes.rs"]
mod homes;
#[path = "../../../crates/atomseq/src/percpu/lazy.rs"]
mod lazy;
#[allow(dead_code, reason = "no model tries to lock")]
#[path = "../../../crates/atomseq/src/percpu/lock.rs"]
mod lock;
#[path = "protocols/machine.rs"]
mod machine;
#[path = "../../../crates/atomseq/src/mutex/notification.rs"]
mod notification;
#[path = "../../../crates/atomseq/src/mutex/parking.rs"]
mod parking;
#[path = "../../../crates/atomseq/src/mutex/permits.rs"]
mod permits;
#[path = "../../../crates/atomseq/src/mutex/readers.rs"]
mod readers;
#[path = "protocols/readers.rs"]
mod reading;
#[path = "protocols/sleepers.rs"]
mod sleepers;
#[path = "protocols/shuttle.rs"]
mod sync;
#[path = "../../../crates/atomseq/src/linux/traffic.rs"]
mod traffic;

// The library's names of these modules.
use homes as home;
use machine as end;
