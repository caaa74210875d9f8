//! Condition variables, semaphores, barriers, channels and scopes: order, outcomes, deadlocks.

mod support;

use std::cell::{Cell, RefCell};
use std::panic::{self, AssertUnwindSafe};
use std::rc::Rc;
use std::sync::atomic::{AtomicU32, Ordering::Relaxed};
use std::sync::mpsc::{RecvError, SendError, TryRecvError, TrySendError};
use std::time::{Duration, Instant};

use atomseq::mutex::{Interlocked, RawMutex};
use atomseq_threads::coroutine::{self, Barrier, Condvar, Mutex, Semaphore, SharedMutex, channel};

use support::run;

/// The message of the panic that `f` ends with.
fn panic_of<R>(f: impl FnOnce() -> R) -> String {
    let payload = panic::catch_unwind(AssertUnwindSafe(f)).err().unwrap();
    payload
        .downcast_ref::<String>()
        .cloned()
        .or_else(|| payload.downcast_ref::<&str>().map(|text| (*text).into()))
        .unwrap()
}

/// Lets the others run until they wait.
fn let_others_wait() {
    for _ in 0..3 {
        coroutine::yield_now();
    }
}

#[test]
fn notifications_wake_in_order_and_none_by_itself() {
    let woken = RefCell::new(Vec::new());
    let (lock, changed) = (Mutex::new(()), Condvar::new());
    assert!(!changed.notify_one(), "outside of a run, none waits");
    run(|| {
        coroutine::scope(|scope| {
            for n in 0..4 {
                let (woken, lock, changed) = (&woken, &lock, &changed);
                drop(scope.spawn(move || {
                    changed.wait(&mut lock.lock());
                    assert!(lock.try_lock().is_some(), "the guard was dropped");
                    woken.borrow_mut().push(n);
                }));
            }
            let_others_wait();
            assert!(woken.borrow().is_empty() && lock.try_lock().is_some());
            assert!(changed.notify_one());
            let_others_wait();
            assert_eq!(*woken.borrow(), [0]);
            assert_eq!(changed.notify_all(), 3);
            assert!(!changed.notify_one());
        });
    });
    assert_eq!(*woken.borrow(), [0, 1, 2, 3]);
}

#[test]
fn a_wait_reacquires_the_lock() {
    let (lock, changed) = (Mutex::new(0), Condvar::new());
    run(|| {
        coroutine::scope(|scope| {
            for parity in 0..2 {
                let (lock, changed) = (&lock, &changed);
                drop(scope.spawn(move || {
                    for _ in 0..100 {
                        let mut turn = lock.lock();
                        changed.wait_while(&mut turn, |turn| *turn % 2 != parity);
                        let before = *turn;
                        coroutine::yield_now(); // the other one cannot have the lock
                        *turn = before + 1;
                        changed.notify_one();
                    }
                }));
            }
        });
    });
    assert_eq!(lock.into_inner(), 200);
}

/// One that waits alone panics with the lock held, and leaves nothing behind that a later
/// notification finds.
#[test]
fn a_wait_that_none_can_end_panics() {
    let (lock, changed) = (Mutex::new(()), Condvar::new());
    run(|| {
        let mut guard = lock.lock();
        assert!(panic_of(|| changed.wait(&mut guard)).contains("none can notify"));
        assert!(lock.try_lock().is_none(), "it is locked again");
        assert_eq!(changed.notify_all(), 0);
    });
    assert!(panic_of(|| changed.wait(&mut lock.lock())).contains("coroutine::run"));
    assert!(lock.try_lock().is_some());
}

#[test]
fn permits_go_to_those_that_wait_first() {
    let order = RefCell::new(Vec::new());
    let permits = Semaphore::new(1);
    run(|| {
        let first = permits.acquire();
        coroutine::scope(|scope| {
            for n in 0..3 {
                let (order, permits) = (&order, &permits);
                drop(scope.spawn(move || {
                    let _permit = permits.acquire();
                    order.borrow_mut().push(n);
                    coroutine::yield_now();
                }));
            }
            let_others_wait();
            drop(first);
            assert!(permits.try_acquire().is_none(), "given to one that waits");
        });
        assert_eq!(permits.permits(), 1);
        permits.acquire().forget();
        assert!(panic_of(|| permits.acquire().forget()).contains("none can release"));
        permits.release_many(2).unwrap();
        assert_eq!(
            permits.permits(),
            2,
            "the one that panicked has left the queue"
        );
    });
    assert_eq!(*order.borrow(), [0, 1, 2]);
    assert!(permits.release_many(Semaphore::MAX).is_err());
    assert_eq!(permits.permits(), 2, "nothing changed");
}

#[test]
fn a_barrier_holds_all_until_the_last() {
    let (log, barrier) = (RefCell::new(Vec::new()), Barrier::new(3));
    let leaders = Cell::new(0);
    run(|| {
        assert!(panic_of(|| barrier.wait()).contains("none can arrive"));
        coroutine::scope(|scope| {
            for _ in 0..3 {
                drop(scope.spawn(|| {
                    for round in 0..4 {
                        log.borrow_mut().push(round);
                        let result = barrier.wait();
                        leaders.set(leaders.get() + u32::from(result.is_leader()));
                    }
                }));
            }
        });
        assert!(Barrier::new(0).wait().is_leader());
    });
    assert_eq!(*log.borrow(), [0, 0, 0, 1, 1, 1, 2, 2, 2, 3, 3, 3]);
    assert_eq!(leaders.get(), 4);
}

/// Those that a run has left behind in a deadlock do not count in a later run, and are not woken.
#[test]
fn a_later_run_finds_none_of_an_earlier_one() {
    let barrier = Rc::new(Barrier::new(2));
    let permits = Rc::new(Semaphore::new(0));
    let (sender, receiver) = channel::bounded(0);
    let left = panic_of(|| {
        run(|| {
            let (barrier, permits) = (Rc::clone(&barrier), Rc::clone(&permits));
            let (sender, receiver) = (sender.clone(), receiver.clone());
            drop(coroutine::spawn(move || barrier.wait()));
            drop(coroutine::spawn(move || permits.acquire().forget()));
            drop(coroutine::spawn(move || sender.send(1)));
            let_others_wait();
            assert_eq!(receiver.recv(), Ok(1));
            drop(coroutine::spawn(move || receiver.recv()));
            drop(coroutine::spawn(let_others_wait));
        });
    });
    assert!(left.contains("3 coroutines wait"), "{left}");
    run(|| {
        assert!(panic_of(|| barrier.wait()).contains("none can arrive"));
        permits.release().unwrap();
        assert_eq!(permits.permits(), 1);
        assert_eq!(sender.try_send(2), Err(TrySendError::Full(2)));
        assert_eq!(receiver.try_recv(), Err(TryRecvError::Empty));
    });
}

#[test]
fn each_message_arrives_once_and_in_order() {
    for capacity in [Some(0), Some(1), Some(3), None] {
        let seen = RefCell::new(Vec::new());
        run(|| {
            let (sender, receiver) = match capacity {
                Some(capacity) => channel::bounded(capacity),
                None => channel::unbounded(),
            };
            assert_eq!(receiver.capacity(), capacity);
            coroutine::scope(|scope| {
                for n in 0..3u32 {
                    let sender = sender.clone();
                    drop(scope.spawn(move || {
                        for message in 0..50 {
                            sender.send((n, message)).unwrap();
                            if message % 7 == n {
                                coroutine::yield_now();
                            }
                        }
                    }));
                }
                drop(sender);
                for reader in 0..2 {
                    let (receiver, seen) = (receiver.clone(), &seen);
                    drop(scope.spawn(move || {
                        for (n, message) in receiver.iter() {
                            seen.borrow_mut().push((reader, n, message));
                            if message % 5 == reader {
                                coroutine::yield_now();
                            }
                        }
                    }));
                }
            });
            assert!(receiver.is_empty());
        });
        let mut all: Vec<_> = seen.borrow().iter().map(|&(_, n, m)| (n, m)).collect();
        for reader in 0..2 {
            for n in 0..3 {
                let of = |&&(r, s, _): &&(u32, u32, u32)| (r, s) == (reader, n);
                let seen = seen.borrow();
                let messages: Vec<_> = seen.iter().filter(of).map(|(.., m)| m).collect();
                assert!(messages.is_sorted(), "{capacity:?}: {messages:?}");
            }
        }
        all.sort_unstable();
        let expected: Vec<_> = (0..3).flat_map(|n| (0..50).map(move |m| (n, m))).collect();
        assert_eq!(all, expected, "{capacity:?}");
    }
}

#[test]
fn a_channel_without_room_waits_for_its_receiver() {
    run(|| {
        let (sender, receiver) = channel::bounded(0);
        assert_eq!(sender.try_send(0), Err(TrySendError::Full(0)));
        let sent = Cell::new(0);
        coroutine::scope(|scope| {
            drop(scope.spawn(|| {
                for n in 1..=2 {
                    sender.send(n).unwrap();
                    sent.set(n);
                }
            }));
            let_others_wait();
            assert_eq!((sent.get(), receiver.len()), (0, 0), "none has received");
            assert_eq!(receiver.try_recv(), Ok(1));
            let_others_wait();
            assert_eq!(sent.get(), 1);
            assert_eq!(receiver.recv(), Ok(2));
        });
        coroutine::scope(|scope| {
            let received = scope.spawn(|| receiver.recv());
            let_others_wait();
            assert_eq!(sender.try_send(3), Ok(()), "one waits for it");
            assert_eq!(sender.try_send(4), Err(TrySendError::Full(4)));
            assert_eq!(received.join().unwrap(), Ok(3));
        });
    });
}

#[test]
fn a_disconnected_channel_says_so() {
    struct Counted(Rc<Cell<u32>>);
    impl Drop for Counted {
        fn drop(&mut self) {
            self.0.set(self.0.get() + 1);
        }
    }
    let drops = Rc::new(Cell::new(0));
    let new = || Counted(Rc::clone(&drops));
    run(|| {
        let (sender, receiver) = channel::bounded(1);
        sender.send(new()).unwrap();
        coroutine::scope(|scope| {
            let refused = scope.spawn(|| sender.send(new()).is_err());
            let_others_wait();
            drop(receiver);
            assert_eq!(drops.get(), 1, "the one in the channel");
            assert!(refused.join().unwrap());
        });
        assert_eq!(drops.get(), 2, "the one that was refused");
        assert!(matches!(
            sender.try_send(new()),
            Err(TrySendError::Disconnected(_))
        ));

        let (sender, receiver) = channel::unbounded();
        sender.send(1).unwrap();
        coroutine::scope(|scope| {
            let others = receiver.clone();
            let all = scope.spawn(move || others.iter().collect::<Vec<_>>());
            let_others_wait();
            sender.send(2).unwrap();
            drop(sender);
            assert_eq!(all.join().unwrap(), [1, 2]);
        });
        assert_eq!(receiver.recv(), Err(RecvError));
        assert_eq!(receiver.try_recv(), Err(TryRecvError::Disconnected));
        assert_eq!(receiver.try_iter().count(), 0);
    });
    // Outside of a run, what does not wait works.
    let (sender, receiver) = channel::bounded(1);
    assert_eq!(sender.send(5), Ok(()));
    assert!(panic_of(|| sender.send(6)).contains("coroutine::run"));
    assert_eq!(receiver.recv(), Ok(5));
    drop(receiver);
    assert_eq!(sender.send(7), Err(SendError(7)));
}

/// A message whose destructor uses its own channel.
#[test]
fn a_message_may_hold_a_side_of_its_channel() {
    struct Message(Option<channel::Sender<Message>>);
    impl Drop for Message {
        fn drop(&mut self) {
            if let Some(sender) = self.0.take() {
                assert!(sender.send(Message(None)).is_err());
                coroutine::yield_now();
            }
        }
    }
    run(|| {
        let (sender, receiver) = channel::unbounded();
        sender.send(Message(Some(sender.clone()))).unwrap();
        drop((sender, receiver));
    });
}

#[test]
fn a_channel_that_none_can_use_panics() {
    run(|| {
        let (sender, receiver) = channel::bounded(1);
        assert!(panic_of(|| receiver.recv()).contains("none can send"));
        sender.send(1).unwrap();
        assert!(panic_of(|| sender.send(2)).contains("none can receive"));
        assert_eq!(receiver.try_recv(), Ok(1), "both have left their queues");
        assert_eq!(receiver.try_recv(), Err(TryRecvError::Empty));
        assert_eq!(sender.try_send(3), Ok(()));
    });
    // The first one is blocked when the last other one ends: it panics, and others can go on.
    run(|| {
        let (sender, receiver) = channel::bounded::<u32>(0);
        drop(coroutine::spawn(coroutine::yield_now));
        assert!(panic_of(|| receiver.recv()).contains("none can send"));
        assert_eq!(sender.try_send(1), Err(TrySendError::Full(1)));
    });
}

#[test]
fn a_scope_ends_after_its_coroutines() {
    let done = Cell::new(0);
    let count = |times: u32| {
        for _ in 0..times {
            coroutine::yield_now();
        }
        done.set(done.get() + 1);
    };
    run(|| {
        let result = coroutine::scope(|scope| {
            for times in 0..5 {
                let count = &count;
                drop(scope.spawn(move || {
                    drop(scope.spawn(move || count(times)));
                    count(2);
                }));
            }
            let result = scope.spawn(|| String::from("borrowed"));
            assert_eq!(done.get(), 0);
            result.join().unwrap()
        });
        assert_eq!((done.get(), &*result), (10, "borrowed"));
        let panicking = panic_of(|| {
            coroutine::scope(|scope| {
                drop(scope.spawn(|| count(3)));
                panic::resume_unwind(Box::new("of the function"));
            });
        });
        assert_eq!((done.get(), &*panicking), (11, "of the function"));
    });
}

/// A panic that no handle has taken is reported by the scope; one that was joined is not.
#[test]
fn a_scope_reports_panics() {
    let fail = || panic::resume_unwind(Box::new("seven"));
    run(|| {
        let dropped_before = || coroutine::scope(|scope| drop(scope.spawn(fail)));
        assert!(panic_of(dropped_before).contains("scoped coroutine panicked"));
        let dropped_after = || {
            coroutine::scope(|scope| {
                let handle = scope.spawn(fail);
                let_others_wait();
                assert!(handle.is_finished());
            })
        };
        assert!(panic_of(dropped_after).contains("scoped coroutine panicked"));
        coroutine::scope(|scope| assert!(scope.spawn(fail).join().is_err()));
    });
}

/// Coroutines of three threads, and a thread without, exclude each other.
#[test]
fn a_shared_lock_excludes_threads() {
    const ROUNDS: u64 = 200;
    let sum = SharedMutex::new(0u64);
    let add = || {
        for _ in 0..ROUNDS {
            let mut guard = sum.lock();
            let before = *guard;
            coroutine::yield_now();
            *guard = before + 1;
        }
    };
    std::thread::scope(|scope| {
        for _ in 0..3 {
            scope.spawn(|| {
                run(|| {
                    coroutine::scope(|scope| {
                        for _ in 0..3 {
                            drop(scope.spawn(add));
                        }
                    });
                });
            });
        }
        scope.spawn(|| {
            for _ in 0..ROUNDS {
                *sum.lock() += 1;
            }
        });
    });
    assert_eq!(sum.into_inner(), 10 * ROUNDS);
}

/// While a coroutine waits for a lock that another thread holds, others of its thread run; with a
/// lock that the thread waits for, they do not.
#[test]
fn others_run_while_one_waits_for_a_thread() {
    fn turns<R: lock_api::RawMutex + Sync>(patience: Duration) -> u32 {
        let lock = lock_api::Mutex::<R, ()>::new(());
        let (held, turns) = (std::sync::Barrier::new(2), AtomicU32::new(0));
        std::thread::scope(|scope| {
            scope.spawn(|| {
                let start = Instant::now();
                let _guard = lock.lock();
                held.wait();
                while turns.load(Relaxed) == 0 && start.elapsed() < patience {
                    std::thread::sleep(Duration::from_millis(1));
                }
            });
            held.wait();
            run(|| {
                let is_done = Cell::new(false);
                coroutine::scope(|scope| {
                    drop(scope.spawn(|| {
                        drop(lock.lock());
                        is_done.set(true);
                    }));
                    drop(scope.spawn(|| {
                        while !is_done.get() {
                            turns.fetch_add(1, Relaxed);
                            coroutine::yield_now();
                        }
                    }));
                });
            });
        });
        turns.into_inner()
    }
    assert!(turns::<coroutine::RawSharedMutex>(Duration::from_secs(60)) > 0);
    let asleep = turns::<RawMutex<Interlocked>>(Duration::from_millis(20));
    assert_eq!(asleep, 0, "the control");
}

/// One whose lock is free gets it although many wait for another one, which a thread holds: they
/// sleep in turn, not all of them before it.
#[test]
fn those_that_wait_for_a_thread_do_not_all_sleep() {
    const WAITERS: usize = 200;
    /// Returns how often this thread has slept.
    fn sleeps() -> libc::c_long {
        // SAFETY: plain old data, which the call fills in.
        unsafe {
            let mut usage: libc::rusage = core::mem::zeroed();
            libc::getrusage(libc::RUSAGE_THREAD, &mut usage);
            usage.ru_nvcsw
        }
    }
    let (held, free) = (SharedMutex::new(()), SharedMutex::new(()));
    let (is_held, is_over) = (std::sync::Barrier::new(2), AtomicU32::new(0));
    let slept = std::thread::scope(|scope| {
        scope.spawn(|| {
            let _guard = held.lock();
            is_held.wait();
            while is_over.load(Relaxed) == 0 {
                std::thread::sleep(Duration::from_millis(1));
            }
        });
        is_held.wait();
        let (before, after) = (Cell::new(0), Cell::new(0));
        run(|| {
            coroutine::scope(|scope| {
                let guard = free.lock();
                for _ in 0..WAITERS {
                    drop(scope.spawn(|| drop(held.lock())));
                }
                drop(scope.spawn(|| {
                    drop(free.lock());
                    after.set(sleeps());
                    is_over.store(1, Relaxed);
                }));
                coroutine::yield_now();
                before.set(sleeps());
                drop(guard);
            });
        });
        after.get() - before.get()
    });
    assert!(slept < WAITERS as libc::c_long / 10, "{slept}");
}
