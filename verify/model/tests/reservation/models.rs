//! Lamport's algorithm, alone and around a test-and-set; and the algorithm without one of its
//! parts.

use std::sync::Arc;

use crate::lamport::{self, Before, Words};
use crate::sync::Size::Large;
use crate::sync::{
    AT_ONCE, AtomicBool, AtomicU32, MAX, MORE_THAN_TWO, Ordering, Plain, fence, found_out, holds,
    relinquish, thread,
};

/// The words of an instance, the variable of a test-and-set, and a protected sum.
pub struct Shared<const N: usize> {
    x: AtomicU32,
    y: AtomicU32,
    b: [AtomicBool; N],
    p: AtomicU32,
    sum: Plain,
}

impl<const N: usize> Shared<N> {
    fn new() -> Shared<N> {
        Shared {
            x: AtomicU32::new(0),
            y: AtomicU32::new(0),
            b: std::array::from_fn(|_| AtomicBool::new(false)),
            p: AtomicU32::new(0),
            sum: Plain::new(0),
        }
    }

    pub fn words(&self) -> Words<'_, N> {
        Words {
            x: &self.x,
            y: &self.y,
            b: &self.b,
        }
    }

    pub fn add_one(&self) {
        let before = self.sum.get();
        self.sum.pause();
        self.sum.set(before + 1);
    }
}

/// Each of `N` threads runs `add`, which adds one.
pub fn each_adds_one<const N: usize>(add: impl Fn(&Shared<N>, u8) + Copy + Send + 'static) {
    each_adds(1, add);
}

/// Each of `N` threads runs `add`, which adds one, this many times.
fn each_adds<const N: usize>(times: usize, add: impl Fn(&Shared<N>, u8) + Copy + Send + 'static) {
    let add = move |shared: &Shared<N>, number| (0..times).for_each(|_| add(shared, number));
    let shared = Arc::new(Shared::<N>::new());
    let others: Vec<_> = (1..N)
        .map(|number| {
            let shared = shared.clone();
            thread::spawn(move || add(&shared, number as u8))
        })
        .collect();
    add(&shared, 0);
    for other in others {
        other.join().unwrap();
    }
    assert_eq!(shared.sum.get(), N * times, "additions lost");
    for flag in &shared.b {
        assert!(!flag.load(Ordering::Relaxed), "a flag that stays up");
    }
    assert_eq!(shared.y.load(Ordering::Relaxed), 0, "still owned");
}

pub fn all(_: Before) {
    fence();
}

pub fn inside<const N: usize>(shared: &Shared<N>, thread: u8) {
    shared.words().enter(thread, all);
    shared.add_one();
    shared.words().leave(thread);
}

fn locked<const N: usize>(shared: &Shared<N>, thread: u8) {
    while !shared.words().test_and_set(thread, &shared.p, all) {
        relinquish();
    }
    shared.add_one();
    lamport::clear(&shared.p);
}

#[test]
fn one_thread_is_inside_at_a_time() {
    holds("reservation: two threads", MAX, || {
        each_adds_one::<2>(inside);
    });
    holds("reservation: two threads, twice", Large, || {
        each_adds::<2>(2, inside);
    });
    if MORE_THAN_TWO {
        holds("reservation: three threads", Large, || {
            each_adds_one::<3>(inside);
        });
    }
}

#[test]
fn one_test_and_set_succeeds_at_a_time() {
    holds("test-and-set by reservation: two threads", Large, || {
        each_adds_one::<2>(locked);
    });
    if MORE_THAN_TWO {
        holds("test-and-set by reservation: three threads", Large, || {
            each_adds_one::<3>(locked);
        });
    }
}

/// Of all threads that try at once, exactly one succeeds, and the losers do not wait for it to
/// clear the variable.
fn all_try<const N: usize>() {
    let shared = Arc::new(Shared::<N>::new());
    let tries = (0..N as u8).map(|number| {
        let shared = shared.clone();
        thread::spawn(move || shared.words().test_and_set(number, &shared.p, all))
    });
    let tries: Vec<_> = tries.collect();
    let won: Vec<bool> = tries.into_iter().map(|one| one.join().unwrap()).collect();
    assert_eq!(won.iter().filter(|won| **won).count(), 1, "{won:?}");
}

#[test]
fn one_of_several_test_and_sets_succeeds() {
    holds(
        "test-and-set by reservation: two tries",
        Large,
        all_try::<2>,
    );
    if MORE_THAN_TWO {
        holds(
            "test-and-set by reservation: three tries",
            Large,
            all_try::<3>,
        );
    }
}

/// The part that is removed from the algorithm.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Without {
    Nothing,
    /// Lines 3 to 7: a newcomer is not excluded.
    Contention,
    /// Lines 10 to 17: collisions are not noticed.
    Collision,
    /// Line 12: others may still be about to write `y`.
    WaitingForOthers,
    /// Lines 13 to 16: all that collide enter. It shows so rarely that only loom finds it, like the
    /// next.
    #[allow(dead_code, reason = "for loom")]
    Choice,
    /// Lines 21 and 22 the other way around.
    #[allow(dead_code, reason = "for loom")]
    OrderOfLeaving,
}

/// The algorithm written a second time, so that parts can be removed.
fn go_through<const N: usize>(shared: &Shared<N>, thread: u8, without: Without) {
    let (words, own) = (shared.words(), u32::from(thread) + 1);
    let reserved = &words.b[usize::from(thread)];
    loop {
        reserved.store(true, Ordering::SeqCst);
        words.x.store(own, Ordering::SeqCst);
        fence();
        if words.y.load(Ordering::SeqCst) != 0 && without != Without::Contention {
            reserved.store(false, Ordering::SeqCst);
            while words.y.load(Ordering::SeqCst) != 0 {
                relinquish();
            }
            continue;
        }
        words.y.store(own, Ordering::SeqCst);
        fence();
        if words.x.load(Ordering::SeqCst) == own || without == Without::Collision {
            break;
        }
        reserved.store(false, Ordering::SeqCst);
        if without != Without::WaitingForOthers {
            for other in words.b {
                while other.load(Ordering::SeqCst) {
                    relinquish();
                }
            }
        }
        if words.y.load(Ordering::SeqCst) == own || without == Without::Choice {
            break;
        }
        while words.y.load(Ordering::SeqCst) != 0 {
            relinquish();
        }
    }
    shared.add_one();
    if without == Without::OrderOfLeaving {
        reserved.store(false, Ordering::SeqCst);
        words.y.store(0, Ordering::SeqCst);
    } else {
        words.y.store(0, Ordering::SeqCst);
        reserved.store(false, Ordering::SeqCst);
    }
}

/// Runs this number of passages without a part.
pub fn run(without: Without) {
    if MORE_THAN_TWO {
        each_adds_one::<3>(move |shared, thread| go_through(shared, thread, without));
    } else {
        each_adds::<2>(2, move |shared, thread| go_through(shared, thread, without));
    }
}

#[test]
fn every_part_is_needed() {
    holds("reservation: nothing left out", Large, || {
        run(Without::Nothing);
    });
    for (name, without) in [
        ("reservation: owner not looked at", Without::Contention),
        ("reservation: collisions not noticed", Without::Collision),
        (
            "reservation: others not waited for",
            Without::WaitingForOthers,
        ),
    ] {
        found_out(name, AT_ONCE, MAX, move || run(without));
    }
}
