//! Coroutines: order, outcomes, what goes wrong, and preemption at any instruction.

mod support;

use std::cell::{Cell, RefCell};
use std::panic::{self, AssertUnwindSafe};
use std::rc::Rc;
use std::time::{Duration, Instant};

use atomseq_threads::coroutine::{self, Builder, Coroutine, Error, Mutex};

use support::{run, run_with};

#[test]
fn they_take_turns_in_order() {
    let log = Rc::new(RefCell::new(Vec::new()));
    run(|| {
        for n in 0..3 {
            let log = Rc::clone(&log);
            drop(coroutine::spawn(move || {
                for round in 0..3 {
                    log.borrow_mut().push((round, n));
                    coroutine::yield_now();
                }
            }));
        }
    });
    let expected: Vec<_> = (0..3)
        .flat_map(|round| (0..3).map(move |n| (round, n)))
        .collect();
    assert_eq!(*log.borrow(), expected);
}

#[test]
fn callee_saved_registers_and_floats_survive() {
    fn mix(seed: u64) -> (u64, f64) {
        let mut integers = [0u64; 24];
        let mut floats = [0f64; 24];
        for step in 0..200 {
            for (at, value) in integers.iter_mut().enumerate() {
                *value = value.rotate_left(7).wrapping_add(seed ^ (at as u64 * step));
            }
            for (at, value) in floats.iter_mut().enumerate() {
                *value = *value * 0.5 + (seed + at as u64 + step) as f64;
            }
            coroutine::yield_now();
        }
        (
            integers.iter().fold(0, |sum, value| sum ^ value),
            floats.iter().sum(),
        )
    }
    let alone: Vec<_> = run(|| (0..5).map(mix).collect());
    let together: Vec<_> = run(|| {
        let handles: Vec<_> = (0..5)
            .map(|seed| coroutine::spawn(move || mix(seed)))
            .collect();
        handles
            .into_iter()
            .map(|handle| handle.join().unwrap())
            .collect()
    });
    assert_eq!(alone, together);
}

#[test]
fn panics_reach_the_joiner_and_drops_happen_once() {
    struct Count(Rc<Cell<u32>>);
    impl Drop for Count {
        fn drop(&mut self) {
            self.0.set(self.0.get() + 1);
        }
    }
    let drops = Rc::new(Cell::new(0));
    let new = || Count(Rc::clone(&drops));
    run(|| {
        let (kept, panicking, detached, late) = (new(), new(), new(), new());
        let handle = coroutine::spawn(move || kept);
        let failing = coroutine::spawn(move || {
            let _panicking = panicking;
            coroutine::yield_now();
            panic::resume_unwind(Box::new(7));
        });
        drop(coroutine::spawn(move || detached));
        let unread = coroutine::spawn(move || late);
        let payload = failing.join().map(|never: ()| never).unwrap_err();
        assert_eq!(*payload.downcast::<i32>().unwrap(), 7);
        assert_eq!(drops.get(), 2, "the panicking and the detached one");
        assert!(unread.is_finished());
        drop(unread);
        assert_eq!(drops.get(), 3);
        drop(handle.join().unwrap());
    });
    assert_eq!(drops.get(), 4);
}

#[test]
fn a_handle_outlives_its_run() {
    let handle = run(|| coroutine::spawn(|| vec![1, 2, 3]));
    let other = handle.coroutine().clone();
    run(|| other.unpark());
    assert_eq!(handle.join().unwrap(), [1, 2, 3]);
    let first = run(coroutine::current);
    assert!(first.is_finished());
}

#[test]
fn unpark_before_park_counts_once() {
    let rounds = run(|| {
        let parked = coroutine::spawn(|| {
            for _ in 0..2 {
                coroutine::park();
            }
        });
        let target = parked.coroutine().clone();
        target.unpark();
        target.unpark(); // the same token
        coroutine::yield_now();
        assert!(!target.is_finished());
        target.unpark();
        parked.join().unwrap();
        2
    });
    assert_eq!(rounds, 2);
}

#[test]
fn a_turn_can_be_given() {
    let log = Rc::new(RefCell::new(Vec::new()));
    run(|| {
        let handles: Vec<_> = (0..3)
            .map(|n| {
                let log = Rc::clone(&log);
                coroutine::spawn(move || log.borrow_mut().push(n))
            })
            .collect();
        assert!(handles[2].coroutine().yield_to());
        assert!(!handles[2].coroutine().yield_to(), "it has finished");
        assert!(coroutine::current().yield_to());
        let parked = coroutine::spawn(coroutine::park);
        assert!(parked.coroutine().yield_to());
        assert!(!parked.coroutine().yield_to(), "it waits");
        parked.coroutine().unpark();
        assert_eq!(*log.borrow(), [2], "the others have not had their turns");
    });
    assert_eq!(*log.borrow(), [2, 0, 1]);
    // Of a run that has ended, also from a later one, whose scheduler lies at the same place.
    fn of_other(other: Option<&Coroutine>) -> (bool, Coroutine) {
        run(|| {
            let is_ready = other.is_some_and(Coroutine::yield_to);
            (is_ready, coroutine::current())
        })
    }
    let (_, first) = of_other(None);
    assert!(!first.yield_to() && !of_other(Some(&first)).0);
}

/// One that ends where all others wait is in no ring any more.
#[test]
fn no_turn_is_given_to_one_that_ended_last() {
    run(|| {
        let last = coroutine::spawn(coroutine::yield_now);
        let parked = panic::catch_unwind(coroutine::park);
        assert!(parked.is_err() && last.is_finished());
        assert!(!last.coroutine().yield_to());
    });
}

#[test]
fn deadlocks_are_reported() {
    let text = |run: fn()| {
        let payload = panic::catch_unwind(AssertUnwindSafe(run)).unwrap_err();
        payload
            .downcast_ref::<String>()
            .cloned()
            .or_else(|| payload.downcast_ref::<&str>().map(|text| (*text).into()))
            .unwrap()
    };
    assert!(text(|| run(coroutine::park)).contains("none can unpark"));
    let joins = || {
        run(|| {
            drop(coroutine::spawn(|| {
                coroutine::spawn(coroutine::park).join()
            }))
        })
    };
    // The parked one is the last that blocks: it panics, and the others finish.
    joins();
    let parked = || {
        run(|| {
            let first = coroutine::current();
            drop(coroutine::spawn(move || {
                let _first = first;
                drop(coroutine::spawn(coroutine::yield_now));
                coroutine::park();
            }));
        });
    };
    assert!(text(parked).contains("1 coroutines wait"));
    // Thread and scheduler are as before.
    assert_eq!(run(|| coroutine::spawn(|| 1).join().unwrap()), 1);
    assert!(text(coroutine::yield_now).contains("coroutine::run"));
}

#[test]
fn waiters_of_a_lock_take_turns() {
    let log = Rc::new(Mutex::new(Vec::new()));
    run(|| {
        for n in 0..4 {
            let log = Rc::clone(&log);
            drop(coroutine::spawn(move || {
                let mut log = log.lock();
                coroutine::yield_now();
                log.push(n);
            }));
        }
    });
    assert_eq!(*log.lock(), [0, 1, 2, 3]);
    assert!(log.try_lock().is_some());
}

#[test]
fn ten_thousand_wait_at_once() {
    let done = Rc::new(Cell::new(0));
    let (before, after) = run_with(Builder::new().stack_size(8192), || {
        let before = resident();
        let handles: Vec<_> = (0..10_000)
            .map(|_| {
                let done = Rc::clone(&done);
                coroutine::spawn(move || {
                    coroutine::park();
                    done.set(done.get() + 1);
                })
            })
            .collect();
        coroutine::yield_now();
        let after = resident();
        for handle in &handles {
            handle.coroutine().unpark();
        }
        for handle in handles {
            handle.join().unwrap();
        }
        (before, after)
    })
    .unwrap();
    assert_eq!(done.get(), 10_000);
    let each = after.saturating_sub(before) / 10_000;
    println!("{each} bytes each");
    assert!(each <= 8192, "{each} bytes each");
}

/// The resident memory of this process, in bytes.
fn resident() -> usize {
    let text = std::fs::read_to_string("/proc/self/statm").unwrap();
    text.split(' ').nth(1).unwrap().parse::<usize>().unwrap() * 4096
}

#[test]
fn wrong_options_are_refused() {
    let error = |builder: Builder| run_with(builder, || ()).unwrap_err().to_string();
    assert!(error(Builder::new().stack_size(0)).contains("too small"));
    assert!(error(Builder::new().stack_size(usize::MAX).slice(Duration::ZERO)).contains("ticks"));
    let slice = Duration::from_millis(1);
    assert!(error(Builder::new().stack_size(4096).slice(slice)).contains("too small"));
    assert!(error(Builder::new().slice(slice).signal(libc::SIGKILL)).contains("handler"));
    assert!(error(Builder::new().slice(slice).signal(0)).contains("handler"));
    for signal in [libc::SIGSEGV, libc::SIGTRAP, libc::SIGABRT] {
        assert!(error(Builder::new().slice(slice).signal(signal)).contains("handler"));
    }
    run(|| {
        assert!(matches!(
            run_with(Builder::new(), || ()),
            Err(Error::Nested)
        ));
        let large = [0u8; 60_000];
        assert!(matches!(
            coroutine::try_spawn(move || large[0]),
            Err(Error::StackTooSmall { .. })
        ));
    });
    let refused = run_with(Builder::new().stack_size(usize::MAX / 2), || {
        coroutine::try_spawn(|| ()).map(drop)
    });
    assert!(matches!(refused, Ok(Err(Error::Stack(_)))));
}

/// Notes whether a run can begin where it is dropped.
struct Runs(Rc<Cell<bool>>);

impl Drop for Runs {
    fn drop(&mut self) {
        self.0.set(run_with(Builder::new(), || ()).is_ok());
    }
}

/// A run that cannot begin drops its function outside of it: what that spawns could never run.
#[test]
fn a_refused_function_is_dropped_outside() {
    let ran = Rc::new(Cell::new(false));
    let value = Runs(Rc::clone(&ran));
    let refused = run_with(
        Builder::new()
            .slice(Duration::from_millis(1))
            .signal(libc::SIGKILL),
        move || drop(value),
    );
    assert!(matches!(refused, Err(Error::Signal(_))));
    assert!(ran.get());
}

/// A run that cannot finish drops its result outside of it, for the same reason.
#[test]
fn the_result_of_a_deadlock_is_dropped_outside() {
    let ran = Rc::new(Cell::new(false));
    let value = Runs(Rc::clone(&ran));
    let run = AssertUnwindSafe(|| {
        run(|| {
            drop(coroutine::spawn(|| {
                drop(coroutine::spawn(coroutine::yield_now));
                coroutine::park();
            }));
            value
        })
    });
    assert!(panic::catch_unwind(run).is_err());
    assert!(ran.get());
}

/// The mask that a thread inherits may block it.
#[test]
fn ticks_preempt_where_their_signal_was_blocked() {
    // SAFETY: plain old data; the mask of this thread.
    let change_mask = |how| unsafe {
        let (mut set, mut before) = core::mem::zeroed::<(libc::sigset_t, libc::sigset_t)>();
        libc::sigaddset(&mut set, coroutine::DEFAULT_SIGNAL);
        libc::pthread_sigmask(how, &set, &mut before);
        libc::sigismember(&before, coroutine::DEFAULT_SIGNAL) == 1
    };
    let has_run = || {
        let builder = Builder::new().slice(Duration::from_millis(1));
        let run = run_with(builder, || {
            let ran = Rc::new(Cell::new(false));
            let other = Rc::clone(&ran);
            drop(coroutine::spawn(move || other.set(true)));
            let begin = Instant::now();
            // SAFETY: reads the clock, and what another coroutine sets.
            unsafe {
                coroutine::preemptible(|| {
                    while !ran.get() && begin.elapsed() < Duration::from_secs(20) {}
                });
            }
            ran.get()
        });
        run.unwrap()
    };
    change_mask(libc::SIG_BLOCK);
    assert!(has_run(), "the other one ran");
    assert!(change_mask(libc::SIG_UNBLOCK), "blocked as before");
    assert!(has_run());
    assert!(!change_mask(libc::SIG_BLOCK), "not blocked as before");
}

/// A tick that comes before a region ends the slice at the region's beginning.
#[test]
fn a_tick_before_a_region_is_not_lost() {
    let builder = Builder::new().slice(Duration::from_secs(3600));
    let ran = |has_tick: bool| {
        let run = run_with(builder.clone(), || {
            let ran = Rc::new(Cell::new(false));
            let other = Rc::clone(&ran);
            drop(coroutine::spawn(move || other.set(true)));
            // SAFETY: sends this thread a tick; the region does nothing.
            unsafe {
                if has_tick {
                    libc::raise(coroutine::DEFAULT_SIGNAL);
                }
                coroutine::preemptible(|| ());
            }
            ran.get()
        });
        run.unwrap()
    };
    assert!(ran(true));
    assert!(!ran(false), "the control");
}

/// A coroutine that is preempted with a full x87 stack leaves an empty one to others, and finds its
/// own again.
#[cfg(target_arch = "x86_64")]
#[test]
fn others_find_the_x87_stack_empty() {
    use std::arch::asm;

    fn one_and_one() -> i64 {
        let mut sum = 0i64;
        // SAFETY: needs two places of the stack, and leaves none; writes a local.
        unsafe {
            asm!("fld1", "fld1", "faddp", "fistp qword ptr [{}]", in(reg) &mut sum,
                out("st(0)") _, out("st(1)") _, out("st(2)") _, out("st(3)") _, out("st(4)") _,
                out("st(5)") _, out("st(6)") _, out("st(7)") _);
        }
        sum
    }

    let builder = Builder::new().slice(Duration::from_secs(3600));
    let run = run_with(builder, || {
        let seen = Rc::new(Cell::new(0));
        let others = Rc::clone(&seen);
        drop(coroutine::spawn(move || others.set(one_and_one())));
        let mut sum = 0f64;
        // SAFETY: fills the stack, sends this thread a tick by `tgkill`, and empties the stack;
        // writes a local. The registers of a system call are declared.
        unsafe {
            let (process, thread) = (libc::getpid(), libc::gettid());
            coroutine::preemptible(|| {
                asm!("fld1", "fld1", "fld1", "fld1", "fld1", "fld1", "fld1", "fld1",
                    "syscall",
                    "faddp", "faddp", "faddp", "faddp", "faddp", "faddp", "faddp",
                    "fstp qword ptr [{}]", in(reg) &mut sum,
                    inout("rax") libc::SYS_tgkill => _, in("rdi") i64::from(process),
                    in("rsi") i64::from(thread), in("rdx") i64::from(coroutine::DEFAULT_SIGNAL),
                    out("rcx") _, out("r11") _,
                    out("st(0)") _, out("st(1)") _, out("st(2)") _, out("st(3)") _, out("st(4)") _,
                    out("st(5)") _, out("st(6)") _, out("st(7)") _);
            });
        }
        (seen.get(), sum)
    });
    assert_eq!(run.unwrap(), (2, 8.0));
}

/// A coroutine that never yields is preempted; without a slice, it is not.
#[test]
fn a_loop_is_preempted() {
    let builder = Builder::new().slice(Duration::from_millis(1));
    let others = |builder: Builder, limit: Duration| {
        run_with(builder, || {
            let turns = Rc::new(Cell::new(0u32));
            let other = Rc::clone(&turns);
            drop(coroutine::spawn(move || {
                for _ in 0..5 {
                    other.set(other.get() + 1);
                    coroutine::yield_now();
                }
            }));
            let begin = Instant::now();
            let shared = &*turns;
            while begin.elapsed() < limit && turns.get() < 5 {
                // SAFETY: reads a cell, which no other coroutine changes in the middle.
                unsafe {
                    coroutine::preemptible(|| {
                        for _ in 0..1_000_000 {
                            if core::ptr::read_volatile(shared.as_ptr()) == 5 {
                                break;
                            }
                        }
                    });
                }
            }
            turns.get()
        })
        .unwrap()
    };
    assert_eq!(others(builder, Duration::from_secs(60)), 5);
    assert_eq!(
        others(Builder::new(), Duration::from_millis(20)),
        0,
        "the control"
    );
}

/// Preempted code keeps all of its registers: integers, flags, vectors.
#[test]
fn preempted_code_computes_the_same() {
    #[inline(never)]
    fn digest(seed: u64, rounds: u32) -> (u64, f64) {
        let mut integers = [seed, !seed, seed << 9, seed >> 3, seed ^ 0x9e37, 7, 11, 13];
        let mut floats = [seed as f64; 16];
        for round in 0..rounds {
            for at in 0..8 {
                let carry = integers[(at + 1) % 8].overflowing_add(integers[at]);
                integers[at] = carry.0.rotate_left(11) ^ u64::from(carry.1) ^ u64::from(round);
            }
            for (at, value) in floats.iter_mut().enumerate() {
                *value = value.mul_add(0.999, (at + 1) as f64);
            }
        }
        (
            integers.iter().fold(0, |sum, value| sum ^ value),
            floats.iter().sum(),
        )
    }
    let alone: Vec<_> = (0..4).map(|seed| digest(seed, 60_000)).collect();
    for _ in 0..3 {
        let together: Vec<_> = run_with(Builder::new().slice(Duration::from_micros(100)), || {
            let handles: Vec<_> = (0..4)
                .map(|seed| {
                    coroutine::spawn(move || {
                        // SAFETY: computes on its own stack.
                        unsafe { coroutine::preemptible(|| digest(seed, 60_000)) }
                    })
                })
                .collect();
            handles
                .into_iter()
                .map(|handle| handle.join().unwrap())
                .collect()
        })
        .unwrap();
        assert_eq!(alone, together);
    }
}

/// Under a lock of this module, preempted coroutines do not lose increments; without, they do.
#[test]
fn a_lock_excludes_preempted_coroutines() {
    const ROUNDS: u64 = 300_000;
    let lost = |is_locked: bool| {
        let counter = Rc::new(Mutex::new(0u64));
        run_with(Builder::new().slice(Duration::from_micros(100)), || {
            for _ in 0..3 {
                let counter = Rc::clone(&counter);
                drop(coroutine::spawn(move || {
                    let add = || {
                        // SAFETY: two accesses to a word that is shared, under the lock or, in
                        // the control, without it, one kernel thread.
                        unsafe {
                            let value = counter.data_ptr().read_volatile();
                            for _ in 0..20 {
                                core::hint::spin_loop();
                            }
                            counter.data_ptr().write_volatile(value + 1);
                        }
                    };
                    // SAFETY: calls the lock and touches the word.
                    unsafe {
                        coroutine::preemptible(|| {
                            for _ in 0..ROUNDS {
                                let _guard = is_locked.then(|| counter.lock());
                                add();
                            }
                        });
                    }
                }));
            }
        })
        .unwrap();
        3 * ROUNDS - *counter.lock()
    };
    assert_eq!(lost(true), 0);
    assert!((0..20).any(|_| lost(false) > 0), "the control");
}

#[test]
fn coroutines_and_generators_are_made_in_regions_that_ticks_preempt() {
    /// Each takes a stack, after the first ones.
    const EACH: usize = 1000;
    let builder = Builder::new().slice(coroutine::MIN_SLICE);
    for round in 0..10 {
        let run = || {
            for _ in 0..3 {
                drop(coroutine::spawn(move || {
                    let mut handles = Vec::with_capacity(EACH);
                    let mut generators = Vec::with_capacity(EACH);
                    // SAFETY: what it calls is of this module; there is room for the results. No
                    // generator suspends.
                    unsafe {
                        coroutine::preemptible(|| {
                            for _ in 0..EACH {
                                if round % 2 == 0 {
                                    handles.push(coroutine::spawn(|| ()));
                                } else {
                                    let function = |_: &coroutine::Yielder<()>| ();
                                    let generator =
                                        coroutine::Generator::with_stack_size(4096, function);
                                    generators.extend(generator);
                                }
                            }
                        });
                    }
                    assert_eq!(handles.len() + generators.len(), EACH);
                    // Each second one first, so that neighbours in the list are of others.
                    while !generators.is_empty() {
                        drop(generators.swap_remove(generators.len() / 2));
                        coroutine::yield_now();
                    }
                    handles
                        .into_iter()
                        .for_each(|handle| handle.join().unwrap());
                }));
            }
        };
        run_with(builder.clone(), run).unwrap();
    }
}

#[test]
fn shared_structures_are_whole_at_any_preemption() {
    use atomseq::nonblocking::{LinkedQueue, LinkedStack, PriorityQueue, Queue, Stack};
    use atomseq::percpu;
    const COROUTINES: u64 = 4;
    const ROUNDS: u64 = 20_000;
    let (linked_queue, linked_stack) = (LinkedQueue::new(), LinkedStack::new());
    let (queue, stack) = (Queue::with_capacity(64), Stack::with_capacity(64));
    let (priority_queue, counter) = (PriorityQueue::new(), percpu::Counter::new());
    let of_cpus = percpu::Stack::with_capacity_per_cpu(64);
    let (put, taken) = (percpu::Counter::new(), percpu::Counter::new());
    let round = |value: u64| {
        let was_put = [
            linked_queue.push(value).is_ok(),
            linked_stack.push(value).is_ok(),
            queue.push(value).is_ok(),
            stack.push(value).is_ok(),
            priority_queue.insert(value % 16, value).is_ok(),
            of_cpus.push(value).is_ok(),
        ];
        was_put
            .iter()
            .for_each(|&is| put.add(u64::from(is) * value));
        let all = [
            linked_queue.pop(),
            linked_stack.pop(),
            queue.pop(),
            stack.pop(),
            priority_queue.pop_due(u64::MAX).map(|(_, value)| value),
            of_cpus.pop(),
        ];
        all.iter().flatten().for_each(|&value| taken.add(value));
        counter.add(1);
    };
    // What the first use of each allocates.
    round(0);
    let builder = Builder::new().slice(Duration::from_micros(100));
    let storm = || {
        coroutine::scope(|scope| {
            for id in 0..COROUTINES {
                let round = &round;
                drop(scope.spawn(move || {
                    // SAFETY: these structures, as `preemptible` allows.
                    unsafe {
                        coroutine::preemptible(|| {
                            (0..ROUNDS).for_each(|n| round(n * COROUTINES + id));
                        });
                    }
                }));
            }
        });
    };
    run_with(builder, storm).unwrap();
    let left = linked_queue.drain().chain(linked_stack.drain());
    let left = left.chain(queue.drain()).chain(stack.drain());
    let due = std::iter::from_fn(|| priority_queue.pop_due(u64::MAX)).map(|(_, value)| value);
    let left: u64 = left.chain(due).chain(of_cpus.drain()).sum();
    assert_eq!(put.sum(), taken.sum() + left);
    assert_eq!(counter.sum(), COROUTINES * ROUNDS + 1);
}
