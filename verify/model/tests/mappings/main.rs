//! The mappings that the system does not take back (`mappings.rs`) under shuttle: threads that make
//! and drop what takes a mapping each. The library's own source, with few slots, so that tables are
//! made.
//!
//! Each protection is taken away in turn, by a change of the source (`mutations.rs`), and that has
//! to be found out.

#[macro_use]
#[path = "../controls/mod.rs"]
mod controls;
#[path = "../controls/shuttle.rs"]
mod explorer;
mod models;
mod platform;

/// What the source of the library is built on.
mod sync {
    pub use shuttle::sync::atomic::{AtomicPtr, AtomicUsize, Ordering};
}

use std::ptr::NonNull;

use shuttle::scheduler::DfsScheduler;

use controls::Attempt;
use explorer::{Orders, drawn};

/// The library, as it is or with something wrong.
trait Library: 'static {
    type Kept: Send + Sync + 'static;

    /// None are kept. It stays for ever, as tables do.
    fn kept() -> Self::Kept;
    fn map(kept: &Self::Kept) -> NonNull<u8>;
    /// # Safety
    ///
    /// `map` returned it, and nothing uses it.
    unsafe fn unmap(kept: &Self::Kept, start: NonNull<u8>);
    /// One of those that are kept.
    fn take(kept: &Self::Kept) -> Option<NonNull<u8>>;
}

macro_rules! library {
    () => {
        pub struct This;

        impl crate::Library for This {
            type Kept = mappings::Kept;

            fn kept() -> mappings::Kept {
                mappings::Kept::new()
            }

            fn map(kept: &mappings::Kept) -> std::ptr::NonNull<u8> {
                kept.map(crate::platform::BYTES).expect("memory")
            }

            unsafe fn unmap(kept: &mappings::Kept, start: std::ptr::NonNull<u8>) {
                // SAFETY: the caller's promise.
                unsafe { kept.unmap(start, crate::platform::BYTES) }
            }

            fn take(kept: &mappings::Kept) -> Option<std::ptr::NonNull<u8>> {
                kept.take(crate::platform::BYTES)
            }
        }
    };
}

include!(concat!(env!("OUT_DIR"), "/mappings.rs"));

/// All models: the smallest in every order, the others in so many.
fn attempts_in<L: Library>(most: usize) -> impl Iterator<Item = Attempt<Orders>> {
    models::all::<L>().into_iter().map(move |(name, model)| {
        let orders = Orders {
            schedulers: match name {
                models::SMALLEST => vec![Box::new(DfsScheduler::new(None, false))],
                _ => drawn(most),
            },
            most_steps: 5_000,
            stack_size: 32 << 10,
        };
        (name, orders, model)
    })
}

fn attempts<L: Library>() -> impl Iterator<Item = Attempt<Orders>> {
    attempts_in::<L>(20_000)
}

/// Every order of two that take: 300 or more. 4,000 orders of each other model, drawn at random.
#[test]
fn no_more_is_mapped_than_is_needed_and_nothing_is_given_twice() {
    // Many more by hand, for changes of the protocol.
    let asked = std::env::var("ATOMSEQ_MAPPINGS_ORDERS").ok();
    let most = asked.map_or(4_000, |most| most.parse().expect("a number of orders"));
    for model in attempts_in::<as_it_is::This>(most) {
        let runs = controls::holds("mappings", model);
        assert!(runs >= 300, "only {runs} orders");
    }
}
