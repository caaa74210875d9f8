//! The books of a trial: those of every structure, by those who used it.

use std::sync::atomic::{AtomicU64, Ordering};

use crate::books::{Books, HandlersBooks};

/// Books by structure.
#[derive(Clone, Copy, Debug, Default)]
pub struct Ledger {
    pub(crate) counter: Books,
    pub(crate) histogram: Books,
    pub(crate) stack: Books,
    pub(crate) list: Books,
    pub(crate) queue: Books,
    pub(crate) ring: Books,
    pub(crate) plain: Books,
    /// How many operations were made.
    pub operations: u64,
}

/// What one thread's handlers have done.
#[derive(Debug, Default)]
pub struct Handlers {
    /// Additions to the counter, and to the histogram as well.
    pub(crate) counted: AtomicU64,
    pub(crate) plain: HandlersBooks,
}

impl Ledger {
    /// Counts what others count.
    pub fn merge(&mut self, other: &Ledger) {
        self.counter.merge(&other.counter);
        self.histogram.merge(&other.histogram);
        self.stack.merge(&other.stack);
        self.list.merge(&other.list);
        self.queue.merge(&other.queue);
        self.ring.merge(&other.ring);
        self.plain.merge(&other.plain);
        self.operations += other.operations;
    }

    /// Counts what a thread's handlers have done.
    pub fn merge_handlers(&mut self, handlers: &Handlers) {
        let counted = handlers.counted.load(Ordering::Relaxed);
        self.counter.gone_in.count += counted;
        self.histogram.gone_in.count += counted;
        self.plain.merge(&handlers.plain.read());
    }

    /// Everything has come out of every structure, once.
    ///
    /// # Panics
    ///
    /// If not.
    pub fn balance(&self) {
        for (name, books) in [
            ("counter", &self.counter),
            ("histogram", &self.histogram),
            ("stack", &self.stack),
            ("list", &self.list),
            ("queue", &self.queue),
            ("ring", &self.ring),
            ("handlers' stack, ring and queue", &self.plain),
        ] {
            assert!(books.gone_in.count > 0, "{name}: never used");
            books.balance(name);
        }
    }
}
