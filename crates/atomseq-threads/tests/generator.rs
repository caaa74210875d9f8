//! Generators: their values, their end in each state, and what may resume and suspend them.

mod support;

use std::cell::{Cell, RefCell};
use std::panic::{self, AssertUnwindSafe};
use std::rc::Rc;

use atomseq_threads::coroutine::{self, Error, Generator, Yielder};

use support::run;

/// Counts its drops.
struct Counted(Rc<Cell<u32>>);

impl Drop for Counted {
    fn drop(&mut self) {
        self.0.set(self.0.get() + 1);
    }
}

fn message_of<R>(f: impl FnOnce() -> R) -> String {
    let payload = panic::catch_unwind(AssertUnwindSafe(f)).err();
    let payload = payload.expect("no panic");
    match payload.downcast::<String>() {
        Ok(message) => *message,
        Err(payload) => (*payload.downcast_ref::<&str>().unwrap()).to_owned(),
    }
}

/// Makes a generator on a stack of the default size.
fn generator<T: 'static>(f: impl FnOnce(&Yielder<T>) + 'static) -> Generator<T> {
    // SAFETY: no thread-local owns one of these tests, and they suspend in no scope of one.
    unsafe { Generator::new(f) }
}

fn count_to(limit: u64) -> Generator<u64> {
    generator(move |yielder| (0..limit).for_each(|n| yielder.suspend(n)))
}

#[test]
fn values_arrive_in_order_from_any_depth() {
    fn tower(height: u32, from: u8, to: u8, yielder: &Yielder<(u8, u8)>) {
        if height > 0 {
            let spare = 6 - from - to;
            tower(height - 1, from, spare, yielder);
            yielder.suspend((from, to));
            tower(height - 1, spare, to, yielder);
        }
    }
    let mut pegs = [Vec::from_iter((0..10).rev()), vec![], vec![]];
    let moves = generator(|yielder| tower(10, 1, 3, yielder));
    let mut count = 0;
    for (from, to) in moves {
        let disc = pegs[usize::from(from) - 1].pop().unwrap();
        let onto = &mut pegs[usize::from(to) - 1];
        assert!(onto.last().is_none_or(|&below| below > disc));
        onto.push(disc);
        count += 1;
    }
    assert_eq!((count, pegs[2].len()), (1023, 10));

    // Two that take turns, and values of no size and of a large alignment.
    let pairs: Vec<_> = count_to(3).zip(count_to(9).skip(4)).collect();
    assert_eq!(pairs, [(0, 4), (1, 5), (2, 6)]);
    assert_eq!(generator(|y| (0..5).for_each(|_| y.suspend(()))).count(), 5);
    #[repr(align(256))]
    struct Aligned(u8);
    let mut aligned = generator(|y| y.suspend(Aligned(7)));
    let value = aligned.next().unwrap();
    assert_eq!(((&raw const value).addr() % 256, value.0), (0, 7));
    assert!(aligned.next().is_none() && aligned.is_finished() && aligned.next().is_none());
}

#[test]
fn a_drop_ends_the_function_in_any_state() {
    let (inside, captured, values) = (Rc::default(), Rc::default(), Rc::default());
    let make = || {
        let held = Counted(Rc::clone(&captured));
        let (inside, values) = (Rc::clone(&inside), Rc::clone(&values));
        generator(move |yielder: &Yielder<Counted>| {
            let _held = held;
            let _inside = Counted(inside);
            yielder.suspend(Counted(Rc::clone(&values)));
            yielder.suspend(Counted(values));
        })
    };
    let counts = || (inside.get(), captured.get(), values.get());
    drop(make());
    assert_eq!(counts(), (0, 1, 0), "not begun");
    let mut one = make();
    drop(one.next());
    drop(one);
    assert_eq!(counts(), (1, 2, 1), "suspended");
    assert_eq!(make().count(), 2);
    assert_eq!(counts(), (2, 3, 3), "returned");

    // A drop while its owner unwinds.
    let unwound = panic::catch_unwind(AssertUnwindSafe(|| {
        let mut one = make();
        drop(one.next());
        panic::resume_unwind(Box::new(()));
    }));
    assert!(unwound.is_err() && !std::thread::panicking());
    assert_eq!(counts(), (3, 4, 4), "unwinding");

    // A function that catches the end, and suspends again.
    let ends = Rc::new(Cell::new(0));
    let seen = Rc::clone(&ends);
    let mut stubborn = generator(move |yielder| {
        for _ in 0..3 {
            let end = panic::catch_unwind(AssertUnwindSafe(|| yielder.suspend(0)));
            seen.set(seen.get() + u32::from(end.is_err()));
        }
    });
    stubborn.next();
    drop(stubborn);
    assert_eq!(ends.get(), 3);
}

#[test]
fn a_panic_reaches_the_caller() {
    let mut fails = generator(|yielder| {
        yielder.suspend(1);
        panic!("in the function");
    });
    assert_eq!(fails.next(), Some(1));
    assert_eq!(message_of(|| fails.next()), "in the function");
    assert!(fails.is_finished());
    assert_eq!(fails.next(), None);
    // One of a destructor, at the drop.
    struct Panics;
    impl Drop for Panics {
        fn drop(&mut self) {
            if !std::thread::panicking() {
                panic!("in a destructor");
            }
        }
    }
    let not_begun = Panics;
    let unstarted = generator(move |_: &Yielder<()>| drop(not_begun));
    assert_eq!(message_of(|| drop(unstarted)), "in a destructor");
    assert!(!std::thread::panicking());
}

/// The destructors of thread-locals find a generator whose function runs: it exits the process, or
/// waits in a run that has ended.
#[test]
fn a_function_that_runs_is_neither_resumed_nor_unwound() {
    const CHILD: &str = "ATOMSEQ_THREADS_RUNNING";
    struct Owner(Option<Generator<u64>>, bool);
    impl Drop for Owner {
        fn drop(&mut self) {
            if self.1 {
                let message = message_of(|| self.0.as_mut().unwrap().next());
                println!("{message}");
            }
        }
    }
    thread_local! {
        static OWNER: RefCell<Owner> = const { RefCell::new(Owner(None, false)) };
    }
    let own_and_resume = |resumes, function: fn(&Yielder<u64>)| {
        OWNER.set(Owner(Some(generator(function)), resumes));
        OWNER.with_borrow_mut(|owner| owner.0.as_mut().unwrap().next());
    };
    if std::env::var(CHILD).is_err() {
        let mut command = std::process::Command::new(std::env::current_exe().unwrap());
        let name = "a_function_that_runs_is_neither_resumed_nor_unwound";
        command.args(["--exact", name, "--nocapture"]);
        let output = command.env(CHILD, "").output().unwrap();
        let printed = String::from_utf8_lossy(&output.stdout).into_owned();
        assert_eq!(output.status.code(), Some(42), "{printed}");
        assert!(printed.contains("runs, so it cannot be resumed"));
        return;
    }
    let deadlock = std::thread::spawn(move || {
        run(|| {
            let waits = move || own_and_resume(false, |_| coroutine::park());
            drop(coroutine::spawn(waits));
            coroutine::yield_now();
            coroutine::park();
        })
    });
    assert!(deadlock.join().is_err());
    own_and_resume(true, |_| std::process::exit(42));
    unreachable!("the process has exited");
}

/// A function keeps its registers and its floating point, and its coroutine may let others run.
#[test]
fn functions_and_coroutines_switch_independently() {
    fn sum(seed: u64) -> Generator<(u64, f64)> {
        generator(move |yielder| {
            let (mut integers, mut floats) = ([seed; 12], [seed as f64; 12]);
            for step in 1..=50 {
                for (at, value) in integers.iter_mut().enumerate() {
                    *value = value.rotate_left(5) ^ (at as u64 * step);
                }
                for value in &mut floats {
                    *value = *value * 0.5 + step as f64;
                }
                coroutine::yield_now();
                let integers = integers.iter().fold(0, |sum, value| sum ^ value);
                yielder.suspend((integers, floats.iter().sum()));
            }
        })
    }
    let alone: Vec<Vec<_>> = run(|| (0..4).map(|seed| sum(seed).collect()).collect());
    let together: Vec<Vec<_>> = run(|| {
        // Made by one coroutine, and resumed by others.
        let handles = [0, 1, 2, 3].map(|seed| {
            let mut generator = sum(seed);
            let first = generator.next();
            coroutine::spawn(move || first.into_iter().chain(generator).collect::<Vec<_>>())
        });
        handles.map(|handle| handle.join().unwrap()).into()
    });
    assert_eq!(alone, together);
}

#[test]
fn only_the_resumer_is_suspended_to() {
    // In a run of the function's own.
    let mut nested = generator(|yielder| {
        yielder.suspend(1);
        run(|| yielder.suspend(2));
    });
    assert_eq!(nested.next(), Some(1));
    assert!(message_of(|| nested.next()).contains("only the coroutine that has called"));
    // In a coroutine that the function has begun.
    let outcome = run(|| {
        let mut scoped = generator(|yielder| {
            let outcome = coroutine::scope(|scope| scope.spawn(|| yielder.suspend(1)).join());
            assert!(outcome.is_err());
            yielder.suspend(2);
        });
        (scoped.next(), scoped.next())
    });
    assert_eq!(outcome, (Some(2), None));
}

/// A scope is left suspended until its run has ended.
#[test]
fn a_scope_may_outlive_its_run_if_its_coroutines_do_not() {
    let ran = Rc::new(Cell::new(0));
    let left = Rc::new(RefCell::new(None));
    let (counter, leaves) = (Rc::clone(&ran), Rc::clone(&left));
    run(move || {
        let mut generator = generator(move |yielder| {
            coroutine::scope(|scope| {
                drop(scope.spawn(|| counter.set(counter.get() + 1)));
                yielder.suspend(());
                counter.set(counter.get() + 10);
            });
        });
        generator.next();
        *leaves.borrow_mut() = Some(generator);
    });
    assert_eq!(ran.get(), 1);
    let mut generator = left.take().unwrap();
    assert_eq!(generator.next(), None);
    assert_eq!(ran.get(), 11);
}

#[test]
fn wrong_sizes_are_refused() {
    let size_of_error = |error| match error {
        Some(Error::StackTooSmall { size, needs }) => (size, needs),
        other => panic!("{other:?}"),
    };
    // SAFETY: as in `generator`.
    let small = unsafe { Generator::<()>::with_stack_size(100, |_| ()) };
    assert_eq!(size_of_error(small.err()), (100, coroutine::MIN_STACK_SIZE));
    let large = [1u8; 3000];
    // SAFETY: as in `generator`.
    let refused = unsafe { Generator::with_stack_size(4096, move |y| y.suspend(large.len())) };
    let (size, needs) = size_of_error(refused.err());
    assert!(size == 4096 && needs > 6000, "{needs}");
    // Without optimisation, each move has a place of its own.
    // SAFETY: as in `generator`.
    let fits = unsafe { Generator::with_stack_size(16 * needs, move |y| y.suspend(large.len())) };
    assert_eq!(fits.unwrap().next(), Some(3000));
}

/// Stacks are used again, by runs as well, and not while a generator is suspended on one.
#[test]
fn stacks_are_used_again() {
    let address = || {
        let mut generator = generator(|yielder| {
            let local = 0u8;
            yielder.suspend((&raw const local).addr());
        });
        let address = generator.next().unwrap();
        (address, generator)
    };
    let (first, generator) = address();
    let (second, other) = address();
    assert!(first.abs_diff(second) > coroutine::DEFAULT_STACK_SIZE / 2);
    drop(generator);
    let (third, _third) = address();
    assert_eq!(first, third);
    drop(other);
    let fourth = run(|| {
        let local = || {
            let local = 0u8;
            (&raw const local).addr()
        };
        coroutine::spawn(local).join().unwrap()
    });
    assert!(second.abs_diff(fourth) < coroutine::DEFAULT_STACK_SIZE);
    // Ten thousand of them, with no more memory than one.
    assert_eq!(
        (0..10_000)
            .map(|n| count_to(n % 3).sum::<u64>())
            .sum::<u64>(),
        3333
    );
}
