//! The ring of `nonblocking::Queue` under loom: every value that a weaker load may return. The
//! library's own source.
//!
//! Each protection is taken away in turn, by a change of the source (`mutations.rs`), and that has
//! to be found out. loom has no double-width exchange: here a lock keeps the exchanges of a pair
//! apart, which then stores the two words one after the other. Loads see more than they would see
//! in truth.

#[macro_use]
#[path = "../controls/mod.rs"]
mod controls;
#[path = "../controls/loom.rs"]
mod explorer;
mod models;

/// What the source of the library is built on.
mod sync {
    use loom::sync::Mutex;
    use loom::sync::atomic::fence;
    pub use loom::sync::atomic::{AtomicU64, Ordering};

    thread_local! {
        /// No SeqCst load of the same thread comes before an exchange: on x86-64 that is a full
        /// barrier, on AArch64 a release that such loads wait for. loom knows no order of SeqCst
        /// loads, but of fences. These order more than there is to order, and so are made only in
        /// models that need them.
        pub static FULL_BARRIER: std::cell::Cell<bool> = const { std::cell::Cell::new(false) };
    }

    /// Threads that wait let others run.
    pub fn spin_loop() {
        loom::thread::yield_now();
    }

    #[derive(Debug, Default)]
    pub struct Pair {
        first: AtomicU64,
        second: AtomicU64,
        one_at_a_time: Mutex<()>,
    }

    impl Pair {
        pub fn first(&self) -> &AtomicU64 {
            &self.first
        }

        pub fn second(&self) -> &AtomicU64 {
            &self.second
        }

        /// As the instruction: what it finds is the last that was stored.
        ///
        /// # Safety
        ///
        /// As in the library.
        pub unsafe fn exchange(&self, expected: (u64, u64), new: (u64, u64)) -> bool {
            let _alone = self.one_at_a_time.lock().unwrap();
            let found = [&self.first, &self.second].map(|word| word.load(Ordering::Acquire));
            if found != [expected.0, expected.1] {
                return false;
            }
            self.second.store(new.1, Ordering::Release);
            self.first.store(new.0, Ordering::Release);
            if FULL_BARRIER.get() {
                fence(Ordering::SeqCst);
            }
            true
        }
    }
}

/// The rest of what it is built on.
mod outside {
    use crate::sync::{Pair, spin_loop};

    pub fn zeros(count: usize) -> Option<Box<[Pair]>> {
        Some((0..count).map(|_| Pair::default()).collect())
    }

    /// One pause is as good as many, and takes fewer steps.
    pub struct Backoff;

    impl Backoff {
        pub fn new() -> Backoff {
            Backoff
        }

        pub fn spin(&mut self) {
            spin_loop();
        }
    }
}

use controls::Attempt;
use explorer::Executions;

/// The library, as it is or with something wrong.
trait Library: 'static {
    type Ring: Send + Sync + 'static;

    fn ring(capacity: usize) -> Self::Ring;
    fn push(ring: &Self::Ring, word: usize) -> bool;
    fn pop(ring: &Self::Ring) -> Option<usize>;
    fn len(ring: &Self::Ring) -> usize;
}

macro_rules! library {
    () => {
        pub struct This;

        impl crate::Library for This {
            type Ring = ring::Ring;

            fn ring(capacity: usize) -> ring::Ring {
                // SAFETY: these pairs need no instruction.
                unsafe { ring::Ring::new(capacity) }.expect("memory for a few pairs")
            }

            fn push(ring: &ring::Ring, word: usize) -> bool {
                ring.push(word)
            }

            fn pop(ring: &ring::Ring) -> Option<usize> {
                ring.pop()
            }

            fn len(ring: &ring::Ring) -> usize {
                ring.len()
            }
        }
    };
}

include!(concat!(env!("OUT_DIR"), "/queue.rs"));

/// All models, with as many preemptions as find out every variant.
fn attempts<L: Library>() -> impl Iterator<Item = Attempt<Executions>> {
    let few = || Executions {
        preemptions: Some(3),
    };
    let models = models::all::<L>().into_iter();
    models.map(move |(name, model)| (name, few(), model))
}

#[test]
fn elements_come_out_once_and_in_order() {
    for model in attempts::<as_it_is::This>() {
        let runs = controls::holds("queue", model);
        assert!(runs > 4, "only {runs} orders");
    }
}

/// Two threads whose exchanges and looks may pass each other.
#[test]
fn without_a_full_barrier_it_does_not_hold() {
    let attempts = models::in_need_of_a_barrier::<as_it_is::This>().into_iter();
    let attempts = attempts.map(|(name, model)| (name, Executions { preemptions: None }, model));
    controls::is_found_out("queue: without a full barrier", attempts);
}
