//! The macros that declare types and statics, used in a crate with strict lints.
//!
//! rustc and clippy check the macros' expansions with every lint on, and must report nothing.
//! Running clippy over this crate is the test; verify-compiler has the same for sequences.
#![deny(warnings, unused, nonstandard_style, rust_2018_idioms)]
#![deny(missing_docs, unreachable_pub, unsafe_op_in_unsafe_fn)]
#![deny(
    trivial_casts,
    trivial_numeric_casts,
    unused_qualifications,
    unused_results,
    let_underscore_drop,
    unused_lifetimes,
    single_use_lifetimes,
    elided_lifetimes_in_paths,
    variant_size_differences
)]
#![deny(clippy::all, clippy::pedantic, clippy::nursery)]
#![deny(
    clippy::undocumented_unsafe_blocks,
    clippy::missing_docs_in_private_items
)]

use std::sync::atomic::AtomicU64;

use atomseq::dcas::{Cell, Covered};
use atomseq::local::Counter;

atomseq::nonblocking::plain! {
    /// A key.
    #[derive(Debug, PartialEq, Eq, PartialOrd, Ord)]
    pub struct Key {
        /// The part that decides most often.
        pub large: u64,
        /// The rest.
        pub small: [u8; 8],
    }
}

atomseq::type_stable::descriptor! {
    /// An entry.
    #[derive(Debug, Default)]
    pub struct Entry {
        /// Its number.
        pub number: AtomicU64,
    }
}

/// Words that change together.
#[derive(Covered, Debug)]
pub struct Shelf<T> {
    /// The first.
    pub word: Cell,
    /// The others.
    pub more: T,
}

atomseq::local::per_thread! {
    /// The number of events.
    pub static COUNT: Counter = Counter::new();
}
