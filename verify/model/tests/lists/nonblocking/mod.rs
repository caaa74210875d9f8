//! The library's own sources.

#[path = "../../../../../crates/atomseq/src/nonblocking/list/mod.rs"]
mod list;
#[path = "../../../../../crates/atomseq/src/nonblocking/nodes.rs"]
mod nodes;
#[path = "../../../../../crates/atomseq/src/nonblocking/one_visitor/mod.rs"]
mod one_visitor;
#[path = "../../../../../crates/atomseq/src/nonblocking/plain.rs"]
mod plain;
#[path = "../../../../../crates/atomseq/src/nonblocking/ref_list/mod.rs"]
mod ref_list;

pub use list::{CheckedOut, List, Refused};
pub use one_visitor::OneVisitorList;
pub use plain::Plain;
pub use ref_list::{NoMemory, Ref, RefList};

/// What the link of a removed node holds.
pub const NO_ADDRESS: u64 = nodes::NO_ADDRESS;
