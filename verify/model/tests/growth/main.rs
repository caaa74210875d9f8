//! The turns of threads that grow what they share (`growth.rs`) under shuttle: near the limit of
//! memory, no thread is told that there is none as long as another one has some and publishes it.
//! The library's own source.
//!
//! Each protection is taken away in turn, by a change of the source (`mutations.rs`), and that has
//! to be found out.

#[macro_use]
#[path = "../controls/mod.rs"]
mod controls;
#[path = "../controls/shuttle.rs"]
mod explorer;
mod models;

/// What the source of the library is built on.
mod sync {
    pub use shuttle::sync::atomic::{AtomicU32, AtomicU64, Ordering};
    use shuttle::thread;
    use std::cell::Cell;

    shuttle::thread_local! {
        /// This thread's number, and how often it has waited.
        pub static THREAD: Cell<(u64, usize)> = Cell::new((0, 0));
    }

    pub fn generation() -> u32 {
        1
    }

    pub fn this_thread() -> u64 {
        THREAD.with(|thread| thread.get().0)
    }

    pub fn pause(_round: u32) {
        THREAD.with(|thread| {
            let (number, pauses) = thread.get();
            thread.set((number, pauses + 1));
        });
        thread::yield_now();
    }

    /// So many looks.
    pub struct Patience(u32);

    impl Patience {
        pub fn new(looks: u32) -> Patience {
            Patience(looks)
        }

        pub fn sleep(&mut self, _word: &AtomicU32, _expected: u32) -> bool {
            let is_over = self.0 == 0;
            if !is_over {
                self.0 -= 1;
                pause(0);
            }
            !is_over
        }
    }
}

use controls::Attempt;
use explorer::{Orders, drawn};

/// The library, as it is or with something wrong.
trait Library: 'static {
    type Growth: Send + Sync + 'static;

    fn growth() -> Self::Growth;
    fn find_or_grow(
        growth: &Self::Growth,
        find: &mut dyn FnMut() -> Option<usize>,
        grow: &mut dyn FnMut() -> Option<usize>,
    ) -> Option<usize>;
}

macro_rules! library {
    () => {
        pub struct This;

        impl crate::Library for This {
            type Growth = growth::Growth;

            fn growth() -> growth::Growth {
                growth::Growth::new()
            }

            fn find_or_grow(
                growth: &growth::Growth,
                find: &mut dyn FnMut() -> Option<usize>,
                grow: &mut dyn FnMut() -> Option<usize>,
            ) -> Option<usize> {
                growth.find_or_grow(find, grow)
            }
        }
    };
}

include!(concat!(env!("OUT_DIR"), "/growth.rs"));

/// All models, in so many orders each.
fn attempts_in<L: Library>(most: usize) -> impl Iterator<Item = Attempt<Orders>> {
    models::all::<L>().into_iter().map(move |(name, model)| {
        let orders = Orders {
            schedulers: drawn(most),
            most_steps: 5_000,
            stack_size: 32 << 10,
        };
        (name, orders, model)
    })
}

fn attempts<L: Library>() -> impl Iterator<Item = Attempt<Orders>> {
    attempts_in::<L>(10_000)
}

/// 2,000 orders of each model, drawn at random.
#[test]
fn no_thread_is_told_that_there_is_no_memory_while_another_has_it() {
    // Many more by hand, for changes of the protocol.
    let asked = std::env::var("ATOMSEQ_GROWTH_ORDERS").ok();
    let most = asked.map_or(2_000, |most| most.parse().expect("a number of orders"));
    for model in attempts_in::<as_it_is::This>(most) {
        let runs = controls::holds("growth", model);
        assert!(runs >= most, "only {runs} orders");
    }
}
