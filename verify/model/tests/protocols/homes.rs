//! Flags with homes: one holder at a time, whoever moves the home and whatever becomes of the mode;
//! and locks made of them, for which nobody waits for ever. Each thread locks once, so that whoever
//! loses a wake-up is the last to give one.

use std::sync::Arc;

use crate::bias::{Bias, INTERLOCKED, Policy};
use crate::home::{Machine, Protections, current_cpu, take_at_home};
use crate::parking::{self, Flag};
use crate::sync::Size::{Huge, Large};
use crate::sync::{AtomicU32, Plain, fails, holds, thread, wait};

/// What becomes of the home at a visit, and of an interlocked flag when it is cleared.
#[derive(Clone, Copy, Debug)]
pub enum Habit {
    Stays,
    Moves,
    /// Interlocked by the first visit, for good.
    Interlocks,
    /// Interlocked by every visit, and biased again by whoever clears it.
    Returns,
}

const HABITS: [Habit; 4] = [
    Habit::Stays,
    Habit::Moves,
    Habit::Interlocks,
    Habit::Returns,
];

impl Policy for Habit {
    fn next(&self, home: usize, here: usize) -> usize {
        match self {
            Habit::Stays => home,
            Habit::Moves => here,
            Habit::Interlocks | Habit::Returns => INTERLOCKED,
        }
    }
}

/// A lock as the library's, and a sum that it protects.
struct Lock {
    flag: Bias,
    habit: Habit,
    word: AtomicU32,
    sum: Plain,
}

impl Lock {
    /// At home on CPU 0.
    fn new(habit: Habit, machine: &Arc<Machine>) -> Lock {
        let lock = Lock {
            flag: Bias::clear_one(),
            habit,
            word: AtomicU32::new(parking::NOBODY),
            sum: Plain::new(0),
        };
        machine.move_to(0);
        assert!(lock.test_and_set());
        lock.clear();
        lock
    }

    fn add(&self) {
        let before = self.sum.get();
        self.sum.pause();
        self.sum.set(before + 1);
    }

    fn clear(&self) {
        let returns = matches!(self.habit, Habit::Returns);
        if self.flag.is_biased() || returns && self.flag.move_to(current_cpu()) {
            self.flag.clear();
        } else {
            self.flag.clear_interlocked();
        }
    }
}

impl Flag for Lock {
    fn test_and_set(&self) -> bool {
        self.flag.take() || self.flag.take_slowly(&self.habit)
    }

    fn is_set(&self) -> bool {
        self.flag.is_set()
    }

    fn waiter_barrier(&self) {
        self.flag.waiter_barrier();
    }

    unsafe fn clear_then_look(&self) {
        self.clear();
    }

    fn blocks(&self) {}

    fn handed_over(&self) {}
}

/// One thread tries at home while another visits; whoever has set it adds one.
fn home_and_visitor(habit: Habit, protections: Protections) {
    let machine = Machine::new(protections);
    let shared = Arc::new((Lock::new(habit, &machine), machine));
    let add_if = |taken: bool, lock: &Lock| {
        if taken {
            lock.add();
            lock.clear();
        }
        usize::from(taken)
    };
    let at_home = {
        let shared = shared.clone();
        thread::spawn(move || {
            let (lock, machine) = &*shared;
            machine.move_to(0);
            add_if(take_at_home(&lock.flag), lock)
        })
    };
    let (lock, machine) = &*shared;
    machine.move_to(1);
    let visited = add_if(lock.flag.take_slowly(&lock.habit), lock);
    let taken = visited + at_home.join().unwrap();
    assert_eq!(lock.sum.get(), taken, "additions lost");
    assert!(!lock.flag.is_set(), "still set");
}

/// What the holder does between locking and unlocking.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Holder {
    Stays,
    Migrates,
}

/// So many threads, by turns on CPU 0 and CPU 1, each lock once and add one, and all of them end.
pub fn each_adds_one(threads: usize, holder: Holder, habit: Habit, protections: Protections) {
    let machine = Machine::new(protections);
    let shared = Arc::new((Lock::new(habit, &machine), machine));
    let add = move |number: usize, shared: &(Lock, Arc<Machine>)| {
        let (lock, machine) = shared;
        machine.move_to(number % 2);
        let taken = lock.test_and_set()
            || parking::acquire(lock, &lock.word, |word, expected| {
                wait(word, expected);
                true
            });
        assert!(taken);
        lock.add();
        if holder == Holder::Migrates {
            machine.move_to(2);
        }
        // SAFETY: this thread has set it.
        unsafe { parking::release(lock, &lock.word) };
    };
    let others: Vec<_> = (1..threads)
        .map(|number| {
            let shared = shared.clone();
            thread::spawn(move || add(number, &shared))
        })
        .collect();
    add(0, &shared);
    for other in others {
        other.join().unwrap();
    }
    assert_eq!(shared.0.sum.get(), threads, "additions lost");
    assert!(!shared.0.flag.is_set(), "still set");
}

#[test]
fn a_visitor_and_whoever_is_at_home_exclude_each_other() {
    for habit in HABITS {
        holds(&format!("home: a visit, {habit:?}"), Large, move || {
            home_and_visitor(habit, Protections::ALL)
        });
    }
}

#[test]
fn holders_follow_one_another() {
    for habit in HABITS {
        for (holder, holders) in [(Holder::Stays, "holders"), (Holder::Migrates, "migrants")] {
            holds(
                &format!("home: two {holders}, {habit:?}"),
                Large,
                move || each_adds_one(2, holder, habit, Protections::ALL),
            );
        }
    }
    holds("home: three holders", Huge, || {
        each_adds_one(3, Holder::Stays, Habit::Moves, Protections::ALL);
    });
}

/// What two holders at once do to each other.
const LOST: &str = "additions lost";

#[test]
fn without_the_fence_a_sequence_outlives_the_claim() {
    let protections = Protections {
        fence: false,
        ..Protections::ALL
    };
    for habit in [Habit::Stays, Habit::Moves] {
        fails(
            &format!("home: no fence, {habit:?}"),
            LOST,
            Large,
            move || home_and_visitor(habit, protections),
        );
    }
}

#[test]
fn without_the_look_inside_a_sequence_begins_in_a_claim() {
    let protections = Protections {
        looks_inside: false,
        ..Protections::ALL
    };
    fails(
        "home: looked at before the sequence",
        LOST,
        Large,
        move || {
            home_and_visitor(Habit::Stays, protections);
        },
    );
}
