//! B91's software reservation under loom, which tries every value that a relaxed load may return,
//! so that a missing fence is detected.

#[path = "protocols/loom.rs"]
#[allow(dead_code, unused_imports, reason = "what other models need")]
mod explore;
#[path = "../../../crates/atomseq-papers/src/reservation/lamport.rs"]
mod lamport;
#[path = "reservation/models.rs"]
mod models;

/// The modules on which the library's code and the models are built.
mod sync {
    pub use super::explore::{
        AtomicU32, Ordering, Plain, Size, holds, misses as found_out, races, thread,
    };
    pub use loom::sync::atomic::AtomicBool;
    pub use loom::thread::yield_now as relinquish;

    /// Loom's message about two threads inside.
    pub const AT_ONCE: &str = "Causality violation";

    /// With three threads that wait for each other, loom's scheduler never runs one of them.
    pub const MORE_THAN_TWO: bool = false;

    /// The extent of the search with two threads.
    pub const MAX: Size = Size::Small;

    pub fn fence() {
        loom::sync::atomic::fence(Ordering::SeqCst);
    }
}

/// The algorithm without its fences, on processors that let a load pass a store: B91's had one CPU.
/// And without parts whose absence shows only after several changes of thread at the right places.
mod orderings {
    use crate::lamport::Before;
    use crate::models::{Shared, Without, each_adds_one, run};
    use crate::sync::Size::Small;
    use crate::sync::{fence, races};

    fn without(missing: Before) -> impl Fn(&Shared<2>, u8) + Copy + Send + 'static {
        move |shared, thread| {
            shared.words().enter(thread, |before| {
                if before != missing {
                    fence();
                }
            });
            shared.add_one();
            shared.words().leave(thread);
        }
    }

    #[test]
    fn without_the_first_fence_both_find_the_owner_clear() {
        races("reservation: no fence before line 3", Small, || {
            each_adds_one(without(Before::Contention));
        });
    }

    #[test]
    fn without_the_second_fence_neither_notices_the_collision() {
        races("reservation: no fence before line 10", Small, || {
            each_adds_one(without(Before::Collision));
        });
    }

    #[test]
    fn without_a_choice_all_that_collided_are_inside() {
        races("reservation: all let in", Small, || run(Without::Choice));
    }

    #[test]
    fn whoever_lowers_the_flag_first_takes_the_lock_from_its_next_owner() {
        races("reservation: the flag lowered first", Small, || {
            run(Without::OrderOfLeaving);
        });
    }
}
