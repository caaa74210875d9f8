//! Tests of the server.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread;

use super::*;

/// More words than DCAS changes.
type Object = [u64; 40];

plain! {
    /// Adds a number to all words and returns the old one; panics for the number 0.
    struct Add {
        number: u64,
    }
}

/// How many times an operation has run, whether or not its copy became the object.
static RUNS: AtomicU64 = AtomicU64::new(0);

impl Operation<Object> for Add {
    type Output = u64;

    fn apply(self, object: &mut Object) -> u64 {
        RUNS.fetch_add(1, Ordering::Relaxed);
        let old = object[0];
        assert!(object.iter().all(|word| *word == old), "half an object");
        for word in object.iter_mut() {
            *word += self.number;
        }
        assert_ne!(self.number, 0, "the operation panics");
        old
    }
}

fn server(mechanism: Mechanism) -> Server<Object, Add> {
    Server::forced([0; 40], mechanism)
}

#[test]
fn operations_run_one_after_the_other() {
    for mechanism in MECHANISMS {
        let server = server(mechanism);
        assert_eq!(server.run(Add { number: 3 }), Ok(0));
        assert_eq!(server.run(Add { number: 4 }), Ok(3));
        assert_eq!(server.load(), [7; 40]);
        assert_eq!(server.operations(), 2);
    }
}

/// Each output occurs once, and no reader finds half an object.
#[test]
fn every_operation_takes_place_once_while_threads_run_and_read() {
    const THREADS: usize = 4;
    for mechanism in MECHANISMS {
        let server = server(mechanism);
        let count = rounds(500 * SCALE);
        let is_over = AtomicBool::new(false);
        let mut outputs = thread::scope(|scope| {
            let server = &server;
            scope.spawn(|| {
                while !is_over.load(Ordering::Relaxed) {
                    let object = server.load();
                    assert!(object.iter().all(|word| *word == object[0]), "{object:?}");
                }
            });
            let run = move || {
                let run = |_| server.run(Add { number: 1 }).unwrap();
                Vec::from_iter((0..count).map(run))
            };
            let threads = [(); THREADS].map(|()| scope.spawn(run));
            let outputs = threads.map(|thread| thread.join().unwrap());
            is_over.store(true, Ordering::Relaxed);
            outputs.concat()
        });
        outputs.sort_unstable();
        assert!(outputs.into_iter().eq(0..(THREADS * count) as u64));
        assert_eq!(server.operations() as usize, THREADS * count);
        // Each replaced state and each request was freed.
        assert_eq!(server.allocated(), (1, 0), "{mechanism:?}");
    }
}

/// The runner is stopped indefinitely: callers enqueue their operations, and take over.
#[test]
fn a_stopped_server_is_taken_over() {
    for mechanism in MECHANISMS {
        let server = server(mechanism);
        server.abandon();
        assert_eq!(server.run(Add { number: 1 }), Ok(0));
        server.abandon();
        thread::scope(|scope| {
            for _ in 0..3 {
                scope.spawn(|| server.run(Add { number: 1 }).unwrap());
            }
        });
        assert_eq!(server.load(), [4; 40]);
        assert_eq!(server.allocated(), (1, 0), "{mechanism:?}");
    }
}

#[test]
fn an_operation_that_panics_changes_nothing() {
    for mechanism in MECHANISMS {
        let server = server(mechanism);
        let panics = || catch_unwind(AssertUnwindSafe(|| server.run(Add { number: 0 }))).is_err();
        assert!(panics(), "alone");
        server.abandon();
        assert!(panics(), "in the queue");
        assert_eq!(server.run(Add { number: 2 }), Ok(0));
        assert_eq!(server.load(), [2; 40]);
        assert_eq!(server.allocated(), (1, 0), "{mechanism:?}");
    }
}

/// The thread that runs the operation is another one: it goes on, and the caller panics.
#[test]
fn a_panic_reaches_the_caller_of_the_operation() {
    for mechanism in MECHANISMS {
        let server = server(mechanism);
        thread::scope(|scope| {
            let panicking = (0..2).map(|_| {
                scope.spawn(|| {
                    (0..50).all(|_| {
                        let run = || server.run(Add { number: 0 });
                        catch_unwind(AssertUnwindSafe(run)).is_err()
                    })
                })
            });
            let panicking = Vec::from_iter(panicking);
            for _ in 0..200 {
                server.run(Add { number: 1 }).unwrap();
            }
            assert!(panicking.into_iter().all(|thread| thread.join().unwrap()));
        });
        assert_eq!(server.load(), [200; 40]);
        assert_eq!(server.allocated(), (1, 0), "{mechanism:?}");
    }
}

plain! {
    /// Returns whether its own copy of the object is unlike the other run's.
    struct Odd {
        nothing: u64,
    }
}

impl Operation<u64> for Odd {
    type Output = u64;

    /// Returns something else each time. The output and the object are of the same run.
    fn apply(self, object: &mut u64) -> u64 {
        static NEXT: AtomicU64 = AtomicU64::new(1);
        *object = NEXT.fetch_add(1, Ordering::Relaxed);
        *object
    }
}

#[test]
fn the_output_is_of_the_run_whose_copy_became_the_object() {
    for mechanism in MECHANISMS {
        let server = Server::<u64, Odd>::forced(0, mechanism);
        for _ in 0..50 {
            server.abandon();
            assert_eq!(server.run(Odd { nothing: 0 }), Ok(server.load()));
        }
    }
}

/// The value of a panic, whose destructor panics too.
struct Bomb;

impl Drop for Bomb {
    fn drop(&mut self) {
        panic!("the value of a panic");
    }
}

plain! {
    struct Meet {
        is_second: u64,
    }
}

/// 1: the first operation runs; 2: the caller of the second one has started to run it; 3: the first
/// caller has started to run it.
static MET: AtomicU64 = AtomicU64::new(0);

fn wait_for(step: u64) {
    while MET.load(Ordering::Acquire) < step {
        thread::yield_now();
    }
}

thread_local!(static IS_FIRST: std::cell::Cell<bool> = const { std::cell::Cell::new(false) });

impl Operation<u64> for Meet {
    type Output = ();

    fn apply(self, object: &mut u64) {
        if self.is_second == 0 {
            MET.fetch_max(1, Ordering::Release);
            wait_for(2);
            *object += 1;
        } else if IS_FIRST.get() {
            MET.fetch_max(3, Ordering::Release);
            std::panic::panic_any(Bomb);
        } else {
            MET.fetch_max(2, Ordering::Release);
            wait_for(3);
            panic!("the second operation");
        }
    }
}

/// The first caller runs the second one's operation, after its own has taken place, and drops the
/// value of its panic.
#[test]
fn a_panic_in_the_destructor_of_a_panics_value_stays_there() {
    IS_FIRST.set(true);
    for mechanism in MECHANISMS {
        MET.store(0, Ordering::Relaxed);
        let server = Server::<u64, Meet>::forced(0, mechanism);
        thread::scope(|scope| {
            let second = scope.spawn(|| {
                wait_for(1);
                let run = || server.run(Meet { is_second: 1 });
                assert!(catch_unwind(AssertUnwindSafe(run)).is_err());
            });
            server.run(Meet { is_second: 0 }).unwrap();
            second.join().unwrap();
        });
        assert_eq!(server.load(), 1, "{mechanism:?}");
        assert_eq!(server.allocated(), (1, 0), "{mechanism:?}");
    }
}
