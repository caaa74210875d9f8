#[cfg_attr(miri, allow(unused_imports))]
use std::sync::atomic::AtomicBool;
#[cfg_attr(miri, allow(unused_imports))]
use std::time::{Duration, Instant};

use super::*;

#[test]
fn the_first_comes_first_and_no_more_than_fit() {
    for capacity in [1, 2, 3, 7, 8] {
        let mut ring = Ring::with_capacity(capacity);
        let (mut producer, mut consumer) = ring.split();
        for start in 0..20 {
            for value in start..start + capacity {
                assert_eq!(producer.push(value), Ok(()));
            }
            assert_eq!(producer.push(99), Err(99));
            assert_eq!((producer.len(), consumer.len()), (capacity, capacity));
            assert_eq!(consumer.peek(), Some(&start));
            for value in start..start + capacity {
                assert_eq!(consumer.pop(), Some(value));
            }
            assert_eq!((consumer.pop(), consumer.peek()), (None, None));
        }
    }
}

#[test]
fn batches_cross_the_end() {
    let mut ring = Ring::with_capacity(6);
    let (mut producer, mut consumer) = ring.split();
    let mut next = 0;
    let mut expected = 0;
    for round in 0..200 {
        let batch: Vec<u32> = (next..next + 1 + round % 7).collect();
        next += producer.push_batch(&batch) as u32;
        let mut out = [0; 4];
        let taken = consumer.pop_batch(&mut out[..round as usize % 5]);
        for value in &out[..taken] {
            assert_eq!(*value, expected);
            expected += 1;
        }
    }
    assert!(next > 300);
    assert_eq!(
        consumer.drain().collect::<Vec<_>>(),
        Vec::from_iter(expected..next)
    );
}

#[test]
fn elements_move_in_and_out_of_vectors() {
    let mut ring = Ring::with_capacity(3);
    let (mut producer, mut consumer) = ring.split();
    let mut boxes: Vec<Box<u32>> = (0..5).map(Box::new).collect();
    assert_eq!(producer.append(&mut boxes), 3);
    assert_eq!(boxes, [Box::new(3), Box::new(4)]);
    let mut out = Vec::with_capacity(2);
    out.push(Box::new(9));
    let spare = out.capacity() - 1;
    assert_eq!(consumer.pop_into(&mut out), spare.min(3));
    assert_eq!(out[..2], [Box::new(9), Box::new(0)]);
}

#[test]
fn what_is_left_is_dropped_once() {
    let value = Arc::new(());
    let mut ring = Ring::with_capacity(5);
    {
        let (mut producer, mut consumer) = ring.split();
        (0..4).for_each(|_| producer.push(value.clone()).unwrap());
        drop(consumer.pop());
    }
    assert_eq!((ring.len(), Arc::strong_count(&value)), (3, 4));
    // Split again, the ring continues where it was.
    ring.split().0.push(value.clone()).unwrap();
    let (producer, consumer) = ring.into_ends();
    drop(consumer);
    assert!(producer.is_abandoned());
    assert_eq!(Arc::strong_count(&value), 5);
    drop(producer);
    assert_eq!(Arc::strong_count(&value), 1);
}

#[test]
fn elements_without_a_size_are_counted() {
    let mut ring = Ring::with_capacity(3);
    let (mut producer, mut consumer) = ring.split();
    assert_eq!(producer.push_batch(&[(); 5]), 3);
    assert_eq!(consumer.drain().count(), 3);
    // A very large capacity works too.
    let mut ring = Ring::with_capacity(usize::MAX / 2);
    let (mut producer, mut consumer) = ring.split();
    assert_eq!(producer.push(()), Ok(()));
    assert_eq!((consumer.pop(), consumer.pop()), (Some(()), None));
}

/// The maximum length of a ring. One more would overflow the length, and is refused. Dropping the
/// elements takes no time.
#[test]
fn as_many_elements_without_a_size_as_can_be_counted() {
    const MAX: usize = isize::MAX as usize;
    let mut ring = Ring::<()>::with_capacity(MAX);
    let (mut producer, mut consumer) = ring.split();
    // Positions wrap around within the second round.
    for _ in 0..3 {
        assert_eq!(producer.push_batch(&[(); MAX]), MAX);
        assert_eq!((producer.len(), producer.push(())), (MAX, Err(())));
        assert_eq!((consumer.len(), consumer.is_empty()), (MAX, false));
        assert_eq!(consumer.pop(), Some(()));
        assert_eq!(consumer.len(), MAX - 1);
        // All but one.
        let all_but_one: &mut [()] = &mut [(); MAX - 2];
        assert_eq!(consumer.pop_batch(all_but_one), MAX - 2);
        assert_eq!((consumer.pop(), consumer.pop()), (Some(()), None));
    }
    assert_eq!(producer.push_batch(&[(); MAX]), MAX);
    for capacity in [MAX + 1, usize::MAX] {
        let refused = Ring::<()>::try_with_capacity(capacity);
        assert_eq!(refused.err(), Some(Error::OutOfMemory));
    }
}

#[test]
fn invalid_capacities_are_refused() {
    assert_eq!(
        Ring::<u8>::try_with_capacity(0).err(),
        Some(Error::ZeroCapacity)
    );
    for capacity in [usize::MAX, usize::MAX / 4] {
        let made = Ring::<u64>::try_with_capacity(capacity).err();
        assert_eq!(made, Some(Error::OutOfMemory));
    }
    assert_eq!(Ring::<u8>::from_iter([]).capacity(), 1);
    assert_eq!(Ring::from_iter(0..5).len(), 5);
    assert_eq!(
        format!("{:?}", Ring::<u8>::with_capacity(2)),
        "Ring { len: 0, capacity: 2 }"
    );
}

/// Values of two words that show whether they are torn.
#[test]
fn two_threads_lose_and_tear_nothing() {
    const VALUES: u64 = crate::tests::rounds(20_000) as u64;
    let (mut producer, mut consumer) = Ring::with_capacity(7).into_ends();
    let thread = std::thread::spawn(move || {
        for value in 0..VALUES {
            while producer.push([value, !value]).is_err() {
                assert!(!producer.is_abandoned(), "the consumer failed");
                std::thread::yield_now();
            }
        }
    });
    let mut expected = 0;
    while expected < VALUES {
        // Loaded before the pop: if the ring is abandoned now, all elements were pushed before.
        let is_abandoned = consumer.is_abandoned();
        match consumer.pop() {
            Some(value) => {
                assert_eq!(value, [expected, !expected]);
                expected += 1;
            }
            None => {
                assert!(!is_abandoned, "{expected} of {VALUES} came");
                std::thread::yield_now();
            }
        }
    }
    thread.join().unwrap();
    assert!(consumer.is_abandoned() && consumer.is_empty());
}

/// Either end is dropped while the other is in use. Elements between them are dropped once.
#[test]
#[cfg_attr(miri, ignore = "takes long to interpret")]
fn a_dropped_end_loses_and_duplicates_nothing() {
    const TAKEN: usize = 100;
    for pushed in 0..2 * TAKEN {
        let value = Arc::new(());
        let (mut producer, mut consumer) = Ring::with_capacity(1 + pushed % 5).into_ends();
        std::thread::scope(|scope| {
            let value = &value;
            scope.spawn(move || {
                let mut left = pushed;
                while left > 0 && !producer.is_abandoned() {
                    match producer.push(Arc::clone(value)) {
                        Ok(()) => left -= 1,
                        Err(_) => std::thread::yield_now(),
                    }
                }
            });
            scope.spawn(move || {
                let mut left = TAKEN;
                while left > 0 && !(consumer.is_abandoned() && consumer.is_empty()) {
                    match consumer.pop() {
                        Some(_) => left -= 1,
                        None => std::thread::yield_now(),
                    }
                }
            });
        });
        assert_eq!(Arc::strong_count(&value), 1, "{pushed} pushed");
    }
}

/// The state that a producer stopped in `push` leaves: the element is in its slot, and not visible
/// yet.
#[test]
fn a_stopped_push_blocks_no_pop() {
    let mut ring = Ring::with_capacity(4);
    let (mut producer, mut consumer) = ring.split();
    producer.push(1).unwrap();
    let tail = producer.0.tail;
    // SAFETY: the slot at the tail belongs to the producer, which is borrowed exclusively here.
    unsafe { (*producer.0.ring().place(tail)).write(2) };
    assert_eq!((consumer.pop(), consumer.pop()), (Some(1), None));
    // The producer continues.
    producer.push(3).unwrap();
    assert_eq!(consumer.pop(), Some(3));
}

#[cfg(all(unix, not(miri)))]
mod handlers {
    use std::ptr;
    use std::sync::Mutex;
    use std::sync::atomic::{AtomicPtr, AtomicU64};

    use super::*;

    static PRODUCER: AtomicPtr<Producer<'static, [u64; 3]>> = AtomicPtr::new(ptr::null_mut());
    static CONSUMER: AtomicPtr<Consumer<'static, [u64; 3]>> = AtomicPtr::new(ptr::null_mut());
    static PUSHED: AtomicU64 = AtomicU64::new(0);
    static POPPED: AtomicU64 = AtomicU64::new(0);
    static TORN: AtomicU64 = AtomicU64::new(0);

    /// One test at a time: the handler's ends are statics.
    static ALONE: Mutex<()> = Mutex::new(());

    extern "C" fn push_in_handler(_: libc::c_int) {
        // SAFETY: only the handler uses this end, and its signal is blocked while it runs.
        let producer = unsafe { &mut *PRODUCER.load(Ordering::Relaxed) };
        let value = PUSHED.load(Ordering::Relaxed);
        if producer.push([value; 3]).is_ok() {
            PUSHED.store(value + 1, Ordering::Relaxed);
        }
    }

    extern "C" fn pop_in_handler(_: libc::c_int) {
        // SAFETY: only the handler uses this end, and its signal is blocked while it runs.
        let consumer = unsafe { &mut *CONSUMER.load(Ordering::Relaxed) };
        while let Some(value) = consumer.pop() {
            let expected = POPPED.load(Ordering::Relaxed);
            if value != [expected; 3] {
                TORN.fetch_add(1, Ordering::Relaxed);
            }
            POPPED.store(expected + 1, Ordering::Relaxed);
        }
    }

    /// Repeats `work` until it returns `false`, while another thread sends signals that call the
    /// handler in between.
    fn interrupted(handler: extern "C" fn(libc::c_int), mut work: impl FnMut() -> bool) {
        // SAFETY: all zeros is a valid `sigaction`. The handler calls only wait-free operations of
        // its own end.
        unsafe {
            let mut action: libc::sigaction = std::mem::zeroed();
            action.sa_sigaction = handler as *const () as usize;
            action.sa_flags = libc::SA_RESTART;
            assert_eq!(libc::sigaction(libc::SIGUSR2, &action, ptr::null_mut()), 0);
        }
        // SAFETY: always allowed. The thread is alive until the senders have been joined.
        let me = unsafe { libc::pthread_self() } as usize;
        let done = AtomicBool::new(false);
        std::thread::scope(|scope| {
            scope.spawn(|| {
                while !done.load(Ordering::Relaxed) {
                    // SAFETY: the thread is alive, because it joins this one.
                    unsafe { libc::pthread_kill(me as libc::pthread_t, libc::SIGUSR2) };
                    std::thread::yield_now();
                }
            });
            // Set even if `work` panics.
            let _done = Done(&done);
            let deadline = Instant::now() + Duration::from_secs(60);
            while work() {
                assert!(
                    Instant::now() < deadline,
                    "the handler never came in between"
                );
            }
        });
    }

    struct Done<'a>(&'a AtomicBool);

    impl Drop for Done<'_> {
        fn drop(&mut self) {
            self.0.store(true, Ordering::Relaxed);
        }
    }

    #[test]
    fn a_handler_pushes_while_its_thread_pops() {
        let _alone = ALONE
            .lock()
            .unwrap_or_else(|poisoned| poisoned.into_inner());
        let (mut producer, mut consumer) = Ring::with_capacity(5).into_ends();
        PUSHED.store(0, Ordering::Relaxed);
        PRODUCER.store(&raw mut producer, Ordering::Relaxed);
        let mut expected = 0;
        interrupted(push_in_handler, || {
            if let Some(value) = consumer.pop() {
                assert_eq!(value, [expected; 3]);
                expected += 1;
            }
            expected < 300
        });
        expected += consumer.drain().count() as u64;
        assert_eq!(expected, PUSHED.load(Ordering::Relaxed));
    }

    #[test]
    fn a_handler_pops_while_its_thread_pushes() {
        let _alone = ALONE
            .lock()
            .unwrap_or_else(|poisoned| poisoned.into_inner());
        let (mut producer, mut consumer) = Ring::with_capacity(5).into_ends();
        POPPED.store(0, Ordering::Relaxed);
        CONSUMER.store(&raw mut consumer, Ordering::Relaxed);
        let mut pushed = 0;
        interrupted(pop_in_handler, || {
            if producer.push([pushed; 3]).is_ok() {
                pushed += 1;
            }
            pushed < 300
        });
        pop_in_handler(0);
        assert_eq!(pushed, POPPED.load(Ordering::Relaxed));
        assert_eq!(TORN.load(Ordering::Relaxed), 0);
    }
}
