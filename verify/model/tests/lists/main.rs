//! The lists of `atomseq::nonblocking` under shuttle: threads that search, change and go through
//! them, in every order of steps of the small models, and in a great many of the others. The
//! library's own sources, over objects whose exchanges are single steps (the model of `dcas` is
//! another one), and over a pool that gives a node that was freed to the next who asks.
//!
//! Each protection is taken away in turn, and that has to be found out.
#![allow(
    dead_code,
    unused_imports,
    reason = "the library uses more of these files than the models do"
)]

mod dcas;
#[path = "../../../../crates/atomseq/src/drops.rs"]
mod drops;
mod explore;
mod figure_5_7;
#[path = "../../../../crates/atomseq/src/heap.rs"]
mod heap;
mod models;
mod nonblocking;
mod type_stable;

/// What the sources of the library are built on. All threads of a model run on one, so what is done
/// between two steps is done at once.
mod sync {
    pub use std::sync::atomic::Ordering;

    /// Others may run.
    pub fn step() {
        shuttle::thread::yield_now();
    }

    /// A word whose every use is a step.
    #[derive(Debug, Default)]
    #[repr(transparent)]
    pub struct AtomicU64(std::sync::atomic::AtomicU64);

    impl AtomicU64 {
        /// # Safety
        ///
        /// As for the one that it stands for.
        pub unsafe fn from_ptr<'a>(word: *mut u64) -> &'a AtomicU64 {
            // SAFETY: the caller's promise; the same layout.
            unsafe { &*word.cast::<AtomicU64>() }
        }

        pub fn load(&self, order: Ordering) -> u64 {
            step();
            self.0.load(order)
        }

        pub fn store(&self, value: u64, order: Ordering) {
            step();
            self.0.store(value, order);
        }
    }

    /// Memory is sequentially consistent here.
    pub fn fence(_order: Ordering) {}

    /// Looks again at once.
    pub fn spin_loop() {}

    /// The same for all: no model asks which thread has removed something for change.
    pub fn this_thread() -> u64 {
        2
    }
}
