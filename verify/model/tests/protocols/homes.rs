//! Flags with homes: one holder at a time, whichever thread moves the home and whatever becomes of
//! the mode. And locks made of them, for which no thread waits indefinitely: each thread locks
//! once, so that a thread that loses a wake-up is the last to send one.

use std::cell::RefCell;
use std::sync::Arc;

use crate::bias::{APART, FREE, HELD, HomeFlag, INTERLOCKED, Policy, UNSET};
use crate::machine::Aborted;
use crate::parking::{self, Flag};
use crate::sync::Size::{Huge, Large};
use crate::sync::{
    AtomicU32, AtomicUsize, Mutex, Ordering, Plain, fails, holds, thread, thread_of_a_model, wait,
};

/// The effect of a visit on the home, and of a clear on an interlocked flag.
#[derive(Clone, Copy, Debug)]
pub enum Habit {
    Stays,
    Moves,
    /// Interlocked by the first visit, permanently.
    Interlocks,
    /// Interlocked by every visit, and biased again by the thread that clears it.
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

/// The library's lock, and a sum that it protects.
struct Lock {
    flag: HomeFlag,
    habit: Habit,
    word: AtomicU32,
    sum: Plain,
}

impl Lock {
    /// Returns a lock whose home is CPU 0.
    fn new(habit: Habit, machine: &Arc<Machine>) -> Lock {
        let lock = Lock {
            flag: HomeFlag::clear_one(),
            habit,
            word: AtomicU32::new(parking::NO_WAITER),
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

/// One thread tries on the home CPU while another visits; each that has set the flag adds one.
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

/// The holder's action between locking and unlocking.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Holder {
    Stays,
    Migrates,
}

/// This number of threads, alternately on CPU 0 and CPU 1, each lock once and add one, and all of
/// them complete.
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

/// The fault when two threads hold the lock at once.
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

// Replaces the library's `mutex/home.rs`: each step of the sequence, the fence and the barrier are
// steps of the model, on the calling thread's CPU.

/// The protections in force. The library has all of them.
#[derive(Clone, Copy)]
pub struct Protections {
    /// Whether the fence aborts.
    pub fence: bool,
    /// Whether there is a barrier.
    pub barrier: bool,
    /// Whether the sequence tests the home inside.
    pub looks_inside: bool,
}

impl Protections {
    pub const ALL: Protections = Protections {
        fence: true,
        barrier: true,
        looks_inside: true,
    };
}

/// One CPU: the number of the attempt that runs there. The mutex makes each step on it atomic.
pub struct Cpu(Mutex<u32>);

impl Cpu {
    pub fn new() -> Cpu {
        Cpu(Mutex::new(0))
    }

    /// Begins an attempt, or fences: the attempt that ran here before is aborted.
    pub fn next(&self) -> u32 {
        let mut current = self.0.lock().unwrap();
        *current += 1;
        *current
    }

    /// Performs one instruction of an attempt.
    pub fn step<R>(&self, attempt: u32, step: impl FnOnce() -> R) -> Result<R, Aborted> {
        let current = self.0.lock().unwrap();
        if *current != attempt {
            return Err(Aborted);
        }
        Ok(step())
    }

    /// Performs an action outside of sequences on this CPU.
    pub fn on<R>(&self, step: impl FnOnce() -> R) -> R {
        let _current = self.0.lock().unwrap();
        step()
    }
}

/// Three CPUs.
pub struct Machine {
    cpus: [Cpu; 3],
    protections: Protections,
}

thread_of_a_model! {
    static HERE: RefCell<Option<(Arc<Machine>, usize)>> = RefCell::new(None);
}

impl Machine {
    pub fn new(protections: Protections) -> Arc<Machine> {
        Arc::new(Machine {
            cpus: [Cpu::new(), Cpu::new(), Cpu::new()],
            protections,
        })
    }

    /// Moves the calling thread to this CPU.
    pub fn move_to(self: &Arc<Machine>, cpu: usize) {
        HERE.with(|here| *here.borrow_mut() = Some((self.clone(), cpu)));
    }
}

fn here() -> (Arc<Machine>, usize) {
    HERE.with(|here| here.borrow().clone())
        .expect("every thread of these models is on a CPU")
}

impl HomeFlag {
    /// Returns a flag that is clear.
    pub fn clear_one() -> HomeFlag {
        HomeFlag {
            apart: [0; APART],
            home: AtomicUsize::new(UNSET),
            held: AtomicUsize::new(FREE),
            ended: AtomicU32::new(0),
        }
    }
}

/// Runs the sequence: one attempt, and another if it was aborted.
pub fn take_at_home(flag: &HomeFlag) -> bool {
    let (machine, cpu) = here();
    let attempt = || attempt(flag, &machine.cpus[cpu], cpu, machine.protections);
    attempt().or_else(|Aborted| attempt()).unwrap_or(false)
}

fn attempt(flag: &HomeFlag, cpu: &Cpu, number: usize, rules: Protections) -> Result<bool, Aborted> {
    let is_home = || flag.home.load(Ordering::Acquire) == number;
    if !rules.looks_inside && !is_home() {
        return Ok(false);
    }
    let attempt = cpu.next();
    if rules.looks_inside && !cpu.step(attempt, is_home)? {
        return Ok(false);
    }
    if cpu.step(attempt, || flag.held.load(Ordering::Acquire))? != FREE {
        return Ok(false);
    }
    cpu.step(attempt, || flag.held.store(HELD, Ordering::Relaxed))?;
    Ok(true)
}

/// Stores on this CPU; only the barrier orders that before the thread's next action.
pub fn clear(flag: &HomeFlag, free: usize) {
    let (machine, cpu) = here();
    machine.cpus[cpu].on(|| flag.held.store(free, Ordering::Release));
}

pub fn membarrier_rseq(cpu: usize) {
    let (machine, _) = here();
    if machine.protections.fence {
        machine.cpus[cpu].next();
    } else {
        // It orders, and aborts nothing.
        machine.cpus[cpu].on(|| ());
    }
}

/// The barrier.
pub fn waiter_barrier() {
    let (machine, _) = here();
    if machine.protections.barrier {
        machine.cpus.iter().for_each(|cpu| cpu.on(|| ()));
    }
}

pub fn current_cpu() -> usize {
    here().1
}

pub fn can_be_fenced() -> bool {
    true
}

/// There are no child processes here.
pub fn generation() -> u32 {
    0
}

pub fn register_this_thread() {}

/// There are no signals here, and no forks.
pub struct SignalsBlocked;

impl SignalsBlocked {
    pub fn enter() -> SignalsBlocked {
        SignalsBlocked
    }
}
