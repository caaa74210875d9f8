//! The mappings that the system does not take back (`mappings.rs`) under shuttle: threads make and
//! drop structures of one mapping each. Runs the library's own source, with few slots, so that
//! tables are needed.
//!
//! Each protection is removed in turn, by a mutation of the source (`mutations/`), and must be
//! detected.

mod models;

/// The modules on which the library's source is built.
mod sync {
    pub use shuttle::sync::atomic::{AtomicPtr, AtomicUsize, Ordering};
}

use std::ptr::NonNull;

use shuttle::scheduler::DfsScheduler;

use verify_model::controls;
use verify_model::controls::Attempt;
use verify_model::controls::{Orders, drawn};
use verify_support::number_from_env;

/// The library, unchanged or mutated.
trait Library: 'static {
    type Kept: Send + Sync + 'static;

    /// Returns an empty set of kept mappings. It is leaked, as tables are.
    fn kept() -> Self::Kept;
    fn map(kept: &Self::Kept) -> NonNull<u8>;
    /// # Safety
    ///
    /// `map` returned it, and nothing uses it.
    unsafe fn unmap(kept: &Self::Kept, start: NonNull<u8>);
    /// Takes one of the kept mappings.
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

/// Returns all models: the smallest in every order, the others in this number of orders.
fn attempts_in<L: Library>(count: usize) -> impl Iterator<Item = Attempt<Orders>> {
    models::all::<L>().into_iter().map(move |(name, model)| {
        let orders = Orders {
            schedulers: match name {
                models::SMALLEST => vec![Box::new(DfsScheduler::new(None, false))],
                _ => drawn(count),
            },
            max_steps: 5_000,
            stack_size: 32 << 10,
        };
        (name, orders, model)
    })
}

fn attempts<L: Library>() -> impl Iterator<Item = Attempt<Orders>> {
    attempts_in::<L>(20_000)
}

/// Every order of two threads that take: 300 or more. 1,500 random orders of each other model.
#[test]
fn no_more_is_mapped_than_is_needed_and_nothing_is_given_twice() {
    // The environment variable allows many more, after changes to the protocol.
    let count = number_from_env("ATOMSEQ_MAPPINGS_ORDERS", 1_500);
    for model in attempts_in::<as_it_is::This>(count) {
        let runs = controls::holds("mappings", model);
        assert!(runs >= 300, "only {runs} orders");
    }
}

/// The system of these models: it maps and counts memory, and may take mappings back. Each test has
/// a thread of its own, so the thread's statics belong to one model.
mod platform {
    use std::alloc::{Layout, alloc_zeroed, dealloc};
    use std::cell::RefCell;
    use std::collections::BTreeMap;
    use std::ptr::NonNull;

    /// The size of all mappings.
    pub const BYTES: usize = 4096;
    const LAYOUT: Layout = match Layout::from_size_align(BYTES, BYTES) {
        Ok(layout) => layout,
        Err(_) => panic!("a size"),
    };

    /// The state of one order of a model.
    #[derive(Default)]
    struct System {
        /// All mappings, and whether a structure uses each.
        mappings: BTreeMap<usize, bool>,
        /// How many structures are in use, or being made or dropped.
        needed: usize,
        most_needed: usize,
        taking: Taking,
        discards: bool,
    }

    /// Which mappings the system takes back.
    #[derive(Clone, Copy, Default)]
    enum Taking {
        #[default]
        None,
        All,
        /// The next one, and then every other one.
        Next,
        AfterNext,
    }

    thread_local! {
        static SYSTEM: RefCell<System> = RefCell::default();
    }

    /// Begins an order, with a system that takes no mapping back. Frees the remains of the previous
    /// order.
    pub fn restart(discards: bool) {
        let new = System {
            discards,
            ..System::default()
        };
        for (address, _) in SYSTEM.replace(new).mappings {
            let start = std::ptr::with_exposed_provenance_mut(address);
            // SAFETY: allocated by `map`; no thread of an order outlives it.
            unsafe { dealloc(start, LAYOUT) }
        }
    }

    /// From now on, takes all mappings back.
    pub fn take_all() {
        SYSTEM.with_borrow_mut(|system| system.taking = Taking::All);
    }

    /// From now on, takes every other mapping back.
    pub fn take_every_other() {
        SYSTEM.with_borrow_mut(|system| system.taking = Taking::Next);
    }

    /// Returns the number of mappings, and the largest number needed at one time.
    pub fn mapped_and_needed() -> (usize, usize) {
        SYSTEM.with_borrow(|system| (system.mappings.len(), system.most_needed))
    }

    /// A thread begins to make a structure.
    pub fn need() {
        SYSTEM.with_borrow_mut(|system| {
            system.needed += 1;
            system.most_needed = system.most_needed.max(system.needed);
        });
    }

    /// A thread has dropped a structure.
    pub fn need_no_more() {
        SYSTEM.with_borrow_mut(|system| system.needed -= 1);
    }

    pub fn map(bytes: usize) -> Option<NonNull<u8>> {
        assert_eq!(bytes, BYTES);
        // SAFETY: not of size 0.
        let start = NonNull::new(unsafe { alloc_zeroed(LAYOUT) }).expect("memory");
        let address = start.as_ptr().expose_provenance();
        SYSTEM.with_borrow_mut(|system| system.mappings.insert(address, false));
        Some(start)
    }

    /// Records whether a structure uses the mapping from now on.
    pub fn used(start: NonNull<u8>, is_used: bool) {
        SYSTEM.with_borrow_mut(|system| {
            let before = system.mappings.insert(start.addr().get(), is_used);
            assert_eq!(
                before,
                Some(!is_used),
                "one was given twice, or is not there"
            );
        });
    }

    pub unsafe fn discard(start: NonNull<u8>, bytes: usize) -> bool {
        assert_eq!(bytes, BYTES);
        let discards = SYSTEM.with_borrow(|system| system.discards);
        if discards {
            // SAFETY: the caller's promise.
            unsafe { start.write_bytes(0, bytes) };
        }
        discards
    }

    pub unsafe fn unmap(start: NonNull<u8>, bytes: usize) -> bool {
        assert_eq!(bytes, BYTES);
        SYSTEM.with_borrow_mut(|system| {
            let taking = system.taking;
            match taking {
                Taking::None => return false,
                Taking::All => {}
                Taking::Next => system.taking = Taking::AfterNext,
                Taking::AfterNext => {
                    system.taking = Taking::Next;
                    return false;
                }
            }
            let is_used = system.mappings.remove(&start.addr().get());
            assert_eq!(is_used, Some(false), "one is in use, or not there");
            // SAFETY: allocated by `map`, and taken out of the list.
            unsafe { dealloc(start.as_ptr(), LAYOUT) };
            true
        })
    }
}
