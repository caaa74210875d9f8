//! Type-stable memory and the system: when there is no memory, when memory is locked, and in the
//! child of a fork.
#![cfg(atomseq_sections)]

use std::sync::Barrier;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::time::Duration;

use atomseq::dcas::{Cell, Domain, force_kcas};
use atomseq::nonblocking::{LinkedStack, Queue, Stack};
use atomseq::percpu::{Counter, Queue as PerCpuQueue, Ring, Stack as PerCpuStack};
use atomseq::type_stable::{Cache, Error, Pool};
use verify_support::proc::{self, pages_of_addresses as addresses};
use verify_support::processes::{
    Circumstances, exit_code, fork, in_child, in_fresh_process_under, start_child,
};
use verify_support::sandbox::{ANSWERED, Answer, Refusal, When, answer_traps, refuse};
use verify_support::signals::install_short;
use verify_support::this_test;
use verify_support::threads::exit_this_thread;

type Kilobyte = [AtomicU64; 128];

/// Limits this process's address space to this many bytes more than it uses.
fn limit_addresses(more: usize) {
    proc::limit_addresses(addresses() * proc::page() + more);
}

#[test]
fn memory_that_ends_is_an_error_and_what_is_there_goes_on() {
    in_fresh_process_under(this_test!(), Circumstances::default(), || {
        let pool = Pool::<Kilobyte>::new();
        let mut allocated = Vec::with_capacity(100_000);
        drop(pool.allocate().expect("the first one"));
        limit_addresses(20 << 20);
        let error = loop {
            match pool.allocate() {
                Ok(one) => allocated.push(one),
                Err(error) => break error,
            }
        };
        assert_eq!(error, Error::OutOfMemory);
        let max = allocated.len();
        assert!((1000..20_000).contains(&max), "{max}");
        allocated.clear();
        allocated.extend((0..max).map(|_| pool.allocate().expect("one of those that are free")));
        assert_eq!(pool.allocate().err(), Some(Error::OutOfMemory));
        assert_eq!(
            Pool::<Kilobyte>::options()
                .cached(1 << 24)
                .try_build()
                .err(),
            Some(Error::OutOfMemory)
        );
    });
}

/// More new threads than k-CAS has descriptors, without memory for others. An insertion returns an
/// error, a removal succeeds, and nothing is lost. 2,000 rounds a thread.
#[test]
fn structures_by_k_cas_go_on_when_memory_has_ended() {
    const THREADS: usize = 48;
    const ROUNDS: u64 = 2_000;
    in_fresh_process_under(this_test!(), Circumstances::default(), || {
        force_kcas().expect("there was no domain before");
        let stack = Stack::with_capacity(64);
        let queue = Queue::with_capacity(64);
        let linked = LinkedStack::new();
        // Inserted, removed, and refused by the linked structure.
        let counts = [const { AtomicU64::new(0) }; 3];
        let started = Barrier::new(THREADS + 1);
        let ended = Barrier::new(THREADS + 1);
        std::thread::scope(|scope| {
            for _ in 0..THREADS {
                scope.spawn(|| {
                    started.wait();
                    ended.wait();
                    for round in 0..ROUNDS {
                        let refused = linked.push(round).is_err();
                        let put = [
                            stack.push(round).is_ok(),
                            queue.push(round).is_ok(),
                            !refused,
                        ];
                        // Leaves one value in four in the linked structure.
                        let from_linked = (round % 4 > 0).then(|| linked.pop()).flatten();
                        let taken = [stack.pop(), queue.pop(), from_linked];
                        counts[0].fetch_add(put.iter().map(|&put| u64::from(put)).sum(), Relaxed);
                        counts[1].fetch_add(taken.iter().flatten().count() as u64, Relaxed);
                        counts[2].fetch_add(u64::from(refused), Relaxed);
                    }
                });
            }
            started.wait();
            // None of the threads has taken a descriptor yet.
            limit_addresses(0);
            ended.wait();
        });
        let left = (stack.len() + queue.len() + linked.len()) as u64;
        let [put, taken, refused] = counts.map(AtomicU64::into_inner);
        println!("{put} put in, {taken} taken out, {left} left, {refused} refused");
        assert_eq!(put, taken + left);
        assert!(refused > 0, "there was memory for all");
        assert_eq!(
            linked.drain().count() + stack.drain().count() + queue.drain().count(),
            left as usize
        );
    });
}

/// Threads that live on have used k-CAS first. After them, 1,500 short-lived ones use it, one after
/// the other. If each of these kept its page of descriptors, there would be 1,500 more pages.
#[test]
fn short_lived_threads_leave_their_pages_of_k_cas_to_others() {
    const LIVING: usize = 40;
    in_fresh_process_under(this_test!(), Circumstances::default(), || {
        force_kcas().expect("there was no domain before");
        let count = Domain::new(Cell::new(0));
        let change = || {
            _ = count.fetch_update(&count, |number| Some(number + 1));
        };
        let (used, ended) = (Barrier::new(LIVING + 1), Barrier::new(LIVING + 1));
        std::thread::scope(|scope| {
            for _ in 0..LIVING {
                scope.spawn(|| {
                    change();
                    used.wait();
                    ended.wait();
                });
            }
            used.wait();
            let before = proc::pages_in_memory();
            for _ in 0..1_500 {
                scope.spawn(change).join().unwrap();
            }
            let more = proc::pages_in_memory().saturating_sub(before);
            ended.wait();
            println!("{more} more pages");
            assert!(
                more < 500,
                "{more} more pages after 1,500 short-lived threads"
            );
        });
    });
}

/// A cache without memory for all descriptors of its limit works with those that it has.
#[test]
fn a_cache_does_with_the_memory_there_is() {
    in_fresh_process_under(this_test!(), Circumstances::default(), || {
        let written_back = AtomicU64::new(0);
        let count = |_: &Kilobyte| _ = written_back.fetch_add(1, Relaxed);
        let cache = Cache::try_new(1 << 20, count).expect("a cache");
        drop(cache.load().expect("the first one"));
        limit_addresses(2 << 20);
        for _ in 0..4000 {
            drop(
                cache
                    .load()
                    .expect("the least recently used one is evicted"),
            );
        }
        assert!(written_back.load(Relaxed) > 500);
    });
}

/// The system refuses to take back memory that the program has locked. Nothing changes then.
#[test]
fn locked_memory_stays() {
    in_fresh_process_under(this_test!(), Circumstances::default(), || {
        // SAFETY: concerns this process alone.
        let locked = unsafe { libc::mlockall(libc::MCL_CURRENT | libc::MCL_FUTURE) } == 0;
        let pool = Pool::<AtomicU64>::options()
            .stable_for(Duration::ZERO)
            .try_build();
        let pool = pool.expect("a pool");
        let one = pool.allocate().expect("a descriptor");
        one.store(7, Relaxed);
        let reference = one.reference();
        drop(one);
        let given = pool.trim();
        let (given_back, contents) = (given > 0, reference.descriptor().load(Relaxed));
        assert_eq!(
            (given_back, contents),
            if locked { (false, 7) } else { (true, 0) }
        );
        println!("locked: {locked}");
        assert!(pool.allocate().is_ok());
    });
}

/// A child has its own copy of the pool, whatever the parent's threads were doing with it.
#[test]
fn a_child_allocates_while_its_parent_does() {
    let pool = Pool::<AtomicU64>::options();
    let pool = pool
        .cached(2)
        .stable_for(Duration::ZERO)
        .try_build()
        .expect("a pool");
    let over = std::sync::atomic::AtomicBool::new(false);
    std::thread::scope(|scope| {
        for _ in 0..2 {
            scope.spawn(|| {
                while !over.load(Relaxed) {
                    let some = [(); 20].map(|()| pool.allocate());
                    drop(some);
                    pool.trim();
                }
            });
        }
        let all_fit = (0..50).all(|_| {
            let child = start_child(fork, || {
                let alone = [(); 100].map(|()| pool.allocate());
                let all = alone.iter().flatten().all(|one| one.swap(9, Relaxed) != 9);
                alone.iter().flatten().for_each(|one| one.store(0, Relaxed));
                let fits = all && alone.iter().all(Result::is_ok);
                drop(alone);
                pool.trim();
                i32::from(!fits)
            });
            exit_code(child) == Some(0)
        });
        // First of all: the threads wait for it.
        over.store(true, Relaxed);
        assert!(all_fit, "a child");
    });
}

static ENDED: AtomicU64 = AtomicU64::new(0);

/// Ends the thread at the instruction where it was interrupted: no destructor runs, nothing is
/// released.
extern "C" fn end_this_thread(_signal: libc::c_int) {
    ENDED.fetch_add(1, Relaxed);
    exit_this_thread();
}

type Small = Pool<[AtomicU64; 2]>;

extern "C" fn allocate_and_free(pool: *mut libc::c_void) -> *mut libc::c_void {
    // SAFETY: the test's pool, which outlives the threads.
    let pool = unsafe { &*pool.cast::<Small>() };
    loop {
        let some = [(); 12].map(|()| pool.allocate());
        for one in some.iter().flatten() {
            one[0].store(1, Relaxed);
        }
    }
}

/// Threads exit at arbitrary instructions. The others continue, and only what the exited threads
/// held is missing: an audit finds what they had allocated.
#[test]
fn threads_that_end_in_the_middle_take_little_with_them() {
    in_fresh_process_under(this_test!(), Circumstances::default(), || {
        const LIMIT: usize = 6000;
        const THREADS: usize = 60;
        let pool = Small::options()
            .limit(LIMIT)
            .cached(4)
            .try_build()
            .expect("a pool");
        install_short(libc::SIGUSR2, end_this_thread, 0);
        for round in 0..THREADS {
            let mut thread = 0;
            let shared = std::ptr::from_ref(&pool).cast_mut().cast();
            // SAFETY: a thread that uses the pool, which lives until the thread has exited; it has
            // no Rust destructors to run.
            unsafe {
                let attributes = std::ptr::null();
                let result =
                    libc::pthread_create(&mut thread, attributes, allocate_and_free, shared);
                assert_eq!(result, 0);
                std::thread::sleep(Duration::from_micros(300 + 7 * round as u64));
                assert_eq!(libc::pthread_kill(thread, libc::SIGUSR2), 0);
                assert_eq!(libc::pthread_join(thread, std::ptr::null_mut()), 0);
            }
            // The remaining threads can allocate, and none waits for the thread that exited.
            drop(pool.allocate().expect("one that is free"));
        }
        assert_eq!(ENDED.load(Relaxed), THREADS as u64);

        // The descriptors that a thread had allocated when it exited are found.
        let mut reclaimed = 0;
        for _ in 0..2 {
            pool.audit(Duration::ZERO, |unclaimed| {
                // SAFETY: their owners have exited, and this thread has none.
                reclaimed += usize::from(unsafe { unclaimed.reclaim() }.is_some());
            });
        }
        assert!(reclaimed > 0, "no thread had anything when it ended");
        assert!(reclaimed <= 13 * THREADS);
        let left = std::iter::from_fn(|| pool.allocate().ok()).collect::<Vec<_>>();
        let lost = LIMIT - left.len();
        println!("reclaimed {reclaimed}, lost {lost}");
        assert!(lost <= 32 * THREADS, "{lost} descriptors were lost");
    });
}

/// Maps pages that cannot be merged into one mapping, until the system refuses. Returns them.
fn exhaust_mappings() -> Vec<*mut libc::c_void> {
    let mut pages = Vec::with_capacity(2 << 20);
    for access in [libc::PROT_NONE, libc::PROT_READ].into_iter().cycle() {
        let kind = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS;
        // SAFETY: new mappings.
        let page = unsafe { libc::mmap(std::ptr::null_mut(), 4096, access, kind, -1, 0) };
        if page == libc::MAP_FAILED || pages.len() == pages.capacity() {
            break;
        }
        pages.push(page);
    }
    pages
}

/// The system refuses to unmap part of a mapping where that would split it into more mappings.
#[test]
fn what_is_dropped_at_the_limit_of_mappings_is_used_again() {
    const KILOBYTES: usize = 256;
    const DROPPED: usize = 8;
    let test = this_test!();
    in_fresh_process_under(test, Circumstances::default(), || {
        let make = || Ring::<[u8; 64]>::try_with_capacity_per_cpu(KILOBYTES << 4).expect("memory");
        let make_full = || {
            let ring = make();
            while ring.push([7; 64]).is_ok() {}
            ring
        };
        drop(make_full());
        let before = addresses();
        // One behind the other, in one mapping or, where something else lies between them, in a
        // few.
        let mut all: Vec<_> = (0..2 * DROPPED + 1).map(|_| Some(make_full())).collect();
        let each = (addresses() - before) / all.len();
        let fillers = exhaust_mappings();
        let full = [addresses(), proc::kilobytes_in_memory()];
        (0..DROPPED).for_each(|index| all[2 * index + 1] = None);
        let kept = [addresses(), proc::kilobytes_in_memory()];
        // Only those at the end of a mapping are unmapped.
        let refused = (DROPPED - (full[0] - kept[0]) / each)
            * usize::from(fillers.len() < fillers.capacity());
        let made: Vec<_> = (0..refused).map(|_| make()).collect();
        let made_again = addresses();
        let empty = made.iter().all(|ring| ring.pop().is_none());
        drop(made);
        for page in &fillers {
            // SAFETY: mapped above.
            unsafe { libc::munmap(*page, 4096) };
        }
        if fillers.len() == fillers.capacity() {
            eprintln!("{test}: does not apply, for there may be more mappings than that");
            return;
        }
        assert!(
            refused > 0,
            "the system has refused nothing: {full:?} {kept:?}"
        );
        assert!(
            kept[1] + DROPPED * KILOBYTES * 3 / 4 < full[1],
            "{full:?} {kept:?}"
        );
        assert_eq!(made_again, kept[0], "what was kept is not used again");
        assert!(empty);
        all.clear();
        drop(fillers);
        let after = addresses();
        assert!(after <= before, "{before} pages before, {after} afterwards");
    });
}

/// Refuses a system call to this thread from now on.
fn refuse_from_now_on(call: libc::c_long, answer: Answer) {
    let when = When::Always;
    refuse(&Refusal { call, answer, when }).expect("filters need no privileges");
}

/// Makes and drops structures of many sizes, small ones and pools of descriptors, one at a time.
fn use_many_sizes() {
    for kilobytes in (1..40).chain([100, 333, 1000]) {
        drop(PerCpuStack::<u64>::try_with_capacity_per_cpu(kilobytes * 128).expect("memory"));
    }
    drop([(); 600].map(|()| Counter::try_new().expect("memory")));
    let queue = PerCpuQueue::<u64>::try_new().expect("memory");
    (0..3000).for_each(|element| queue.push(element).expect("memory"));
    let pool = Pool::<AtomicU64>::new();
    drop(pool.allocate().expect("memory"));
}

/// A sandbox refuses every unmapping. 40 rounds for each error number.
#[test]
fn what_cannot_be_unmapped_is_used_again_whatever_its_size() {
    for errno in [libc::EPERM, libc::EINVAL] {
        let circumstances = Circumstances {
            environment: vec![("ERRNO", if errno == libc::EPERM { "1" } else { "22" })],
            ..Circumstances::default()
        };
        let printed = in_fresh_process_under(this_test!(), circumstances, || {
            let errno = std::env::var("ERRNO").expect("said by the parent");
            use_many_sizes();
            refuse_from_now_on(
                libc::SYS_munmap,
                Answer::Error(errno.parse().expect("a number")),
            );
            use_many_sizes();
            let before = addresses();
            (0..40).for_each(|_| use_many_sizes());
            assert_eq!(addresses(), before, "pages of addresses");
        });
        if printed.is_none() {
            return;
        }
    }
}

/// A sandbox refuses every unmapping. Threads that make and drop pools at the same time need no
/// more address space than they had in use at one time: a pool each, so few of each size that no
/// table is made. 4 threads, 3,000 pools a thread, for each kind of pool.
#[test]
fn threads_that_make_pools_at_the_same_time_use_what_they_had_at_one_time() {
    const THREADS: usize = 4;
    const POOLS: usize = 3_000;
    in_fresh_process_under(this_test!(), Circumstances::default(), || {
        let make = |cached| {
            let pool = Pool::<AtomicU64>::options().cached(cached).try_build();
            let pool = pool.expect("memory");
            drop(pool.allocate().expect("memory"));
            pool
        };
        drop(make(64));
        refuse_from_now_on(libc::SYS_munmap, Answer::Error(libc::EPERM));
        for cached in [0, 64, 5_000] {
            let together = Barrier::new(THREADS + 1);
            let grown = std::thread::scope(|scope| {
                for _ in 0..THREADS {
                    scope.spawn(|| {
                        let pool = make(cached);
                        together.wait();
                        drop(pool);
                        together.wait();
                        together.wait();
                        (0..POOLS).for_each(|_| drop(make(cached)));
                        together.wait();
                        // A thread that exits changes the process's mappings.
                        together.wait();
                    });
                }
                together.wait();
                together.wait();
                let before = addresses();
                together.wait();
                together.wait();
                let after = addresses();
                together.wait();
                after - before
            });
            assert_eq!(grown, 0, "pages of addresses, with {cached} cached");
        }
    });
}

/// Each audit makes a table of what is protected, and drops the previous one. 400 audits.
#[test]
fn audits_use_what_cannot_be_given_back_again() {
    in_fresh_process_under(this_test!(), Circumstances::default(), || {
        fn handler(_: &mut atomseq::signal::Event<'_>) {}
        // SAFETY: the handler does nothing.
        let installed = unsafe { atomseq::signal::install(libc::SIGUSR1, handler) };
        installed.expect("a handler");
        refuse_from_now_on(libc::SYS_munmap, Answer::Error(libc::EPERM));
        // The C library's memory for a report is allocated after a few as well.
        (0..4).for_each(|_| _ = atomseq::signal::audit());
        let before = addresses();
        (0..400).for_each(|_| _ = atomseq::signal::audit());
        assert_eq!(addresses(), before, "pages of addresses");
    });
}

/// A sandbox answers calls for memory in a handler of `SIGSYS`, which the kernel calls where that
/// signal is not blocked; otherwise it ends the process. One run for each set of calls.
#[test]
fn calls_for_memory_are_made_with_no_signal_blocked() {
    for trapped in ["mmap", "munmap", "munmap madvise", "mmap munmap madvise"] {
        let circumstances = Circumstances {
            environment: vec![("TRAPPED", trapped)],
            ..Circumstances::default()
        };
        let printed = in_fresh_process_under(this_test!(), circumstances, || {
            let trapped = std::env::var("TRAPPED").expect("said by the parent");
            use_many_sizes();
            // In a child: the C library ends threads with a trapped call, and with signals blocked.
            in_child(|| use_memory_trapped(&trapped));
        });
        if printed.is_none() {
            return;
        }
    }
}

fn use_memory_trapped(trapped: &str) {
    let large = PerCpuStack::<u64>::with_capacity_per_cpu(10_000);
    let pool = Pool::<AtomicU64>::new();
    drop(pool.allocate());
    let mut small = Vec::with_capacity(10_000);
    answer_traps();
    for (name, call) in [
        ("mmap", libc::SYS_mmap),
        ("munmap", libc::SYS_munmap),
        ("madvise", libc::SYS_madvise),
    ] {
        if trapped.split(' ').any(|one| one == name) {
            refuse_from_now_on(call, Answer::Trap);
        }
    }
    drop(large);
    drop(pool);
    // More than are left in a block.
    while small.len() < small.capacity() {
        match Counter::try_new() {
            Ok(one) => small.push(one),
            Err(_) => break,
        }
    }
    drop(PerCpuStack::<u64>::try_with_capacity_per_cpu(20_000));
    assert!(ANSWERED.load(Relaxed) > 0, "no call was trapped");
}
