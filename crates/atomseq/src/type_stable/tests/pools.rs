//! Allocating, freeing, and reading freed descriptors.

use super::*;

#[test]
fn there_are_as_many_as_the_limit_says() {
    for limit in [1, 2, 63, 64, 65, 1000, 5000] {
        let pool = limited(limit);
        for _ in 0..3 {
            let allocated = all(&pool);
            assert_eq!(allocated.len(), limit);
            assert_eq!(addresses(&allocated).len(), limit, "one was given twice");
            assert_eq!(pool.allocate().err(), Some(Error::LimitReached));
        }
    }
}

/// A thread that steals or trims is preempted with a gate closed. The others make progress
/// meanwhile.
#[test]
fn a_held_gate_blocks_no_allocation() {
    use std::sync::mpsc::channel;
    use std::time::Duration;

    let pool = std::sync::Arc::new(Pool::<Words>::new());
    let (begin, begun) = channel();
    let (sender, receiver) = channel();
    let others = std::sync::Arc::clone(&pool);
    std::thread::spawn(move || {
        let kept = others.allocate().unwrap();
        begun.recv().unwrap();
        // More than a batch, and more than a CPU keeps.
        let many: Vec<_> = (0..200).map(|_| others.allocate().unwrap()).collect();
        let different = addresses(&many).len();
        drop((many, kept));
        sender.send(different).unwrap();
    });
    let mut held: Vec<_> = (0..pool.cache.cpus())
        .map(|cpu| pool.cache.hold(cpu))
        .collect();
    begin.send(()).unwrap();
    let done = receiver.recv_timeout(Duration::from_secs(60));
    while held.pop().is_some() {}
    assert_eq!(done, Ok(200));
    assert_eq!(pool.allocated().count(), 0);
}

#[test]
fn descriptors_begin_as_zeros_on_cache_lines_of_their_own() {
    let pool = limited(300);
    for allocated in all(&pool) {
        assert_eq!(allocated.address() % 64, 0);
        assert!(allocated.iter().all(|word| word.load(Relaxed) == 0));
    }
}

#[test]
fn what_is_impossible_is_refused() {
    let build = |limit, cached| {
        let options = Pool::<Words>::options().limit(limit).cached(cached);
        options.try_build().map(|pool| pool.limit())
    };
    assert_eq!(build(0, 64), Err(Error::Zero));
    assert_eq!(build(1, 0), Ok(1));
    assert_eq!(build(usize::MAX, 64), Err(Error::TooLarge));
    let cached = Pool::<Words>::options().cached(usize::MAX);
    assert_eq!(cached.try_build().err(), Some(Error::TooLarge));
    assert_eq!(build(1, 1), Ok(1));
    assert_eq!(build(1, usize::MAX), Ok(1));
    // The message says what to do.
    assert!(Error::LimitReached.to_string().contains("raise the limit"));
}

/// Descriptors are neither `Copy` nor, as here, `Debug`; their options are.
#[test]
fn options_serve_several_pools() {
    crate::type_stable::descriptor! {
        struct Silent {
            word: AtomicU64,
        }
    }
    let options = Pool::<Silent>::options().limit(7);
    let pools = [options, options].map(|options| options.try_build().unwrap());
    for pool in &pools {
        assert_eq!(pool.limit(), 7);
        assert_eq!(pool.allocate().unwrap().word.load(Relaxed), 0);
    }
    let described = format!("{options:?}");
    assert!(described.contains("limit: Some(7)"), "{described}");
}

/// On a list that is filled to its limit and popped by others, each push would close a gate.
#[test]
fn with_a_small_limit_no_cpu_keeps_any() {
    let kept = |options: Options<Words>| {
        let pool = options.try_build().unwrap();
        for _ in 0..3 {
            let some = Vec::from_iter((0..20).map(|_| pool.allocate().unwrap()));
            drop(some);
        }
        pool.cache.cached()
    };
    let share = 2 * crate::platform::cpu_slots();
    let options = || Pool::<Words>::options().limit(20 * share);
    assert_eq!(kept(Pool::options().limit(15 * share)), 0);
    assert_eq!(kept(options().cached(0)), 0);
    assert_eq!(kept(Pool::options().cached(0)), 0);
    // Negative control: with the default options a CPU keeps some.
    assert_eq!(kept(options()) > 0, crate::status().gates_active());
}

#[test]
fn contents_stay_when_a_descriptor_is_freed() {
    let pool = limited(10);
    let allocated = all(&pool);
    let references: Vec<_> = allocated.iter().map(Allocated::reference).collect();
    for (number, words) in allocated.iter().enumerate() {
        words.iter().for_each(|word| word.store(number, Relaxed));
    }
    drop(allocated);
    for (number, reference) in references.iter().enumerate() {
        let words = reference.descriptor();
        assert!(words.iter().all(|word| word.load(Relaxed) == number));
    }
}

#[test]
fn a_reference_is_current_while_the_allocation_lasts() {
    let pool = limited(1);
    let first = pool.allocate().unwrap();
    let reference = first.reference();
    let same = pool.reference_at(reference.address());
    assert_eq!(same, Some(reference));
    first[0].store(1, Relaxed);
    assert_eq!(reference.read(|words| words[0].load(Relaxed)), Some(1));
    drop(first);
    assert!(!reference.is_current());
    assert_eq!(pool.reference_at(reference.address()), None);

    let second = pool.allocate().unwrap();
    assert_eq!(second.address(), reference.address());
    assert!(!reference.is_current());
    assert_ne!(second.reference(), reference);
    assert_eq!(reference.read(|words| words[0].load(Relaxed)), None);
}

/// A read is void if the allocation ends during it.
#[test]
fn a_read_that_was_overtaken_is_void() {
    let pool = limited(1);
    let mut allocated = Some(pool.allocate().unwrap());
    let reference = allocated.as_ref().unwrap().reference();
    let read = reference.read(|_| allocated = None);
    assert_eq!(read, None);
}

#[test]
fn raw_descriptors_come_back() {
    let pool = limited(1);
    let raw = pool.allocate().unwrap().into_raw();
    assert_eq!(pool.allocate().err(), Some(Error::LimitReached));
    // SAFETY: returned by `into_raw` of this pool above, and adopted only here.
    drop(unsafe { pool.adopt(raw) });
    assert!(pool.allocate().is_ok());
}

#[test]
fn addresses_are_checked() {
    let pool = limited(1000);
    let other = limited(1000);
    let allocated = all(&pool);
    let inside = allocated[500].address();
    assert!(std::ptr::eq(
        pool.descriptor_at(inside).unwrap(),
        &*allocated[500]
    ));
    assert!(pool.descriptor_at(inside + 8).is_none());
    assert!(other.descriptor_at(inside).is_none());
    assert!(pool.descriptor_at(0).is_none());
    assert!(pool.descriptor_at(usize::MAX).is_none());
}

#[test]
fn large_and_empty_descriptors_work_too() {
    let pool = Pool::<[AtomicU64; 2000]>::options().limit(50).try_build();
    let pool = pool.unwrap();
    let allocated = all(&pool);
    assert_eq!(allocated.len(), 50);
    for (number, words) in allocated.iter().enumerate() {
        words
            .iter()
            .for_each(|word| word.store(number as u64, Relaxed));
    }
    for (number, words) in allocated.iter().enumerate() {
        assert!(words.iter().all(|word| word.load(Relaxed) == number as u64));
    }
    let empty = Pool::<[AtomicU64; 0]>::options().limit(100).try_build();
    assert_eq!(addresses(&all(&empty.unwrap())).len(), 100);
}

/// Each thread finds in its descriptors what it wrote there, and frees some that others allocated.
#[test]
fn threads_share_a_pool() {
    let pool = limited(400);
    let (sender, receiver) = std::sync::mpsc::sync_channel(50);
    std::thread::scope(|scope| {
        for thread in 1..=4 {
            let (pool, sender) = (&pool, sender.clone());
            scope.spawn(move || {
                for round in 0..crate::tests::rounds(5000) {
                    let words = pool.allocate().unwrap();
                    let before = words[0].swap(thread, Relaxed);
                    assert_eq!(before, 0, "another thread owns it");
                    words[1].store(round, Relaxed);
                    assert_eq!(words[0].load(Relaxed), thread);
                    if round % 3 == 0 {
                        sender.send(words).unwrap();
                    } else {
                        words[0].store(0, Relaxed);
                    }
                }
            });
        }
        drop(sender);
        for words in receiver {
            assert_ne!(words[0].swap(0, Relaxed), 0);
        }
    });
    assert_eq!(all(&pool).len(), 400);
}

/// Descriptors freed on another CPU return in transit between the CPUs, however small the limit:
/// they need no gate.
#[cfg(atomseq_sections)]
#[test]
fn few_descriptors_flow_from_cpu_to_cpu() {
    use crate::percpu::gate::CLOSED;

    const ROUNDS: usize = 200;
    crate::affinity::on_two_cpus(|[here, there], move_to| {
        for limit in [10, 40, 64, 100, 1000] {
            let pool = limited(limit);
            let before = CLOSED.get();
            for _ in 0..ROUNDS {
                move_to(here);
                let half: Vec<_> = (0..limit / 2).map(|_| pool.allocate().unwrap()).collect();
                move_to(there);
                drop(half);
            }
            let closed = CLOSED.get() - before;
            // Allows a few, where the kernel restarted a section too often.
            assert!(closed <= ROUNDS / 10, "limit {limit}: {closed} gates");
        }
    });
}
