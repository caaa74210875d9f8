//! What can be tortured, a file each.

pub mod counter;
pub mod fork;
pub mod gate;
pub mod handlers;
pub mod histogram;
pub mod list;
pub mod memory;
pub mod mutex;
pub mod nonblocking;
pub mod pool;
pub mod queue;
pub mod registration;
pub mod ring;
pub mod signals;
pub mod stack;

use super::harness::Target;

/// All targets, in the order in which they are run.
pub static ALL: [Target; 15] = [
    counter::TARGET,
    histogram::TARGET,
    stack::TARGET,
    list::TARGET,
    queue::TARGET,
    ring::TARGET,
    pool::TARGET,
    gate::TARGET,
    registration::TARGET,
    fork::TARGET,
    handlers::TARGET,
    signals::TARGET,
    mutex::TARGET,
    memory::TARGET,
    nonblocking::TARGET,
];

/// The target of this name.
pub fn find(name: &str) -> Option<&'static Target> {
    ALL.iter().find(|target| target.name == name)
}
