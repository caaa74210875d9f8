//! What can be tested: a structure, its operations and its invariants in each file, and the list of
//! all.

mod bundle;
mod containers;
mod counter;
mod dcas;
mod element;
pub mod exclusive;
mod fork;
mod gate;
mod histogram;
mod list;
mod local;
mod mutex;
mod nonblocking;
mod objects;
mod pool;
mod reading;
mod registration;
mod rings;
pub mod same_cpu;
pub mod same_thread;
pub mod section;
mod signals;
mod type_stable;
mod waiting;

use crate::engine::Target;

/// All targets, in the order in which they are run. The targets of a group are adjacent.
pub static ALL: [Target; 17] = [
    counter::TARGET,
    histogram::TARGET,
    containers::STACK,
    list::TARGET,
    containers::QUEUE,
    containers::RING,
    pool::TARGET,
    gate::TARGET,
    registration::TARGET,
    fork::TARGET,
    bundle::TARGET,
    local::TARGET,
    signals::TARGET,
    mutex::TARGET,
    dcas::TARGET,
    nonblocking::TARGET,
    type_stable::TARGET,
];

/// Returns the targets of this name: those of the group, or the one target.
pub fn named(name: &str) -> impl Iterator<Item = &'static Target> {
    ALL.iter()
        .filter(move |target| target.group == name || target.name == name)
}

/// Returns the groups, each with its targets.
pub fn groups() -> impl Iterator<Item = (&'static str, &'static [Target])> {
    let groups = ALL.chunk_by(|one, other| one.group == other.group);
    groups.map(|targets| (targets[0].group, targets))
}
