//! Tests of both mechanisms in one process.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use super::*;

#[derive(Covered)]
struct Pair {
    a: Cell,
    b: Cell,
}

fn pair(a: u64, b: u64) -> Domain<Pair> {
    Domain::new(Pair {
        a: Cell::new(a),
        b: Cell::new(b),
    })
}

/// The same domain under each mechanism.
fn by_each<T: Covered>(make: impl Fn() -> T) -> [Domain<T>; 2] {
    [Mechanism::Assisted, Mechanism::Kcas].map(|mechanism| Domain::forced(make(), mechanism))
}

fn words() -> Pair {
    Pair {
        a: Cell::new(1),
        b: Cell::new(2),
    }
}

#[test]
fn both_change_or_none() {
    for domain in by_each(words) {
        change_both_or_none(&domain);
    }
}

fn change_both_or_none(domain: &Domain<Pair>) {
    let before = domain.version();
    assert_eq!(
        domain.compare_exchange_pair(Change::of(&domain.a, 1, 3), Change::of(&domain.b, 9, 4)),
        Err(Changed)
    );
    assert_eq!(
        domain.compare_exchange_pair(Change::of(&domain.a, 9, 3), Change::of(&domain.b, 2, 4)),
        Err(Changed)
    );
    assert_eq!(domain.load_all([&domain.a, &domain.b]), [1, 2]);
    domain
        .compare_exchange_pair(Change::of(&domain.a, 1, 3), Change::of(&domain.b, 2, 4))
        .unwrap();
    let ([a, b], after) = domain.snapshot([&domain.a, &domain.b]);
    assert_eq!([a, b], [3, 4]);
    assert!(after > before && after == domain.version());
    domain
        .compare_exchange(Change::of(&domain.a, 3, 5))
        .unwrap();
    assert_eq!(
        domain.compare_exchange(Change::of(&domain.a, 3, 6)),
        Err(Changed)
    );
    assert_eq!(domain.fetch_update(&domain.a, |_| None), Err(5));
    assert_eq!(domain.fetch_update(&domain.a, |a| Some(a * 2)), Ok(5));
    assert_eq!((domain.load(&domain.a), domain.load(&domain.b)), (10, 4));
}

/// Words that are only compared count as a modification, except in `compare_exchange_all`.
#[test]
fn versions_count_exchanges_that_succeed() {
    for domain in by_each(words) {
        let version = || domain.version().number();
        let (a, b) = (Change::compare(&domain.a, 1), Change::compare(&domain.b, 2));
        let ([now_a, now_b], new) = domain.snapshot([&domain.a, &domain.b]);
        domain.compare_exchange(a).unwrap();
        assert!(version() > new.number());
        let before = version();
        domain.compare_exchange_pair(a, b).unwrap();
        assert!(version() > before);
        let before = version();
        domain.fetch_update(&domain.a, Some).unwrap();
        assert!(version() > before);
        let (since, before) = (domain.version(), version());
        let same = domain.store_pair_if(since, (&domain.a, now_a), (&domain.b, now_b));
        // An interruption uses the version up, too.
        assert!(version() > before, "{same:?}");
        let before = version();
        domain.compare_exchange_all(&[a, b]).unwrap();
        assert_eq!(version(), before);
    }
}

#[test]
fn a_version_proves_the_words() {
    for domain in by_each(words) {
        prove_by_version(&domain);
    }
}

fn prove_by_version(domain: &Domain<Pair>) {
    let (values, version) = domain.snapshot([&domain.a, &domain.b]);
    let swapped = domain.store_pair_if(version, (&domain.a, values[1]), (&domain.b, values[0]));
    // An interruption uses the version up.
    if swapped.is_ok() {
        assert_eq!(domain.load_all([&domain.a, &domain.b]), [2, 1]);
    }
    let again = domain.store_pair_if(version, (&domain.a, 7), (&domain.b, 7));
    assert_eq!(again, Err(Changed));
    assert_ne!(domain.load(&domain.a), 7);
}

#[test]
fn any_number_is_compared_and_two_are_changed() {
    for domain in by_each(|| std::array::from_fn::<_, 20, _>(|place| Cell::new(place as u64))) {
        let version = domain.version();
        let mut changes: [Change<'_>; 20] =
            std::array::from_fn(|place| Change::compare(&domain[place], place as u64));
        assert_eq!(domain.compare_exchange_all(&changes), Ok(()));
        assert_eq!(domain.compare_exchange_all(&[]), Ok(()));
        assert_eq!(domain.version(), version);
        changes[3] = Change::of(&domain[3], 3, 33);
        assert_eq!(domain.compare_exchange_all(&changes), Ok(()));
        assert_eq!(domain.load(&domain[3]), 33);
        assert_eq!(domain.compare_exchange_all(&changes), Err(Changed));
        changes[3] = Change::of(&domain[3], 33, 3);
        changes[19] = Change::of(&domain[19], 19, 99);
        assert_eq!(domain.compare_exchange_all(&changes), Ok(()));
        assert_eq!(domain.load_all([&domain[3], &domain[19]]), [3, 99]);
        changes[19] = Change::compare(&domain[19], 19);
        assert_eq!(domain.compare_exchange_all(&changes), Err(Changed));
        assert_eq!(domain.load(&domain[3]), 3);
    }
}

#[test]
fn a_wide_domain_changes_up_to_eight() {
    let domain: Domain<[Cell; MAX_CHANGES + 1]> = Domain::wide(Default::default());
    for count in 0..=MAX_CHANGES {
        let before = domain.version().number();
        let round = |old: u64, new| -> Vec<Change<'_>> {
            (0..count)
                .map(|place| Change::of(&domain[place], old, new))
                .collect()
        };
        assert_eq!(domain.compare_exchange_all(&round(0, 5)), Ok(()));
        assert_eq!(domain.compare_exchange_all(&round(5, 0)), Ok(()));
        assert_eq!(
            domain.compare_exchange_all(&round(5, 0)).is_err(),
            count > 0
        );
        let changes = if count > 0 { 2 } else { 0 };
        assert_eq!(domain.version().number(), before + changes);
    }
    let words: [&Cell; MAX_CHANGES + 1] = std::array::from_fn(|place| &domain[place]);
    assert_eq!(domain.load_all(words), [0; MAX_CHANGES + 1]);
}

/// Exclusive access counts as a modification.
#[test]
fn a_version_from_before_exclusive_access_is_an_old_one() {
    for mut domain in by_each(words) {
        let before = domain.version();
        let _ = domain.get_mut();
        assert_eq!(domain.version().number(), before.number() + 1);
        let late = domain.store_pair_if(before, (&domain.a, 7), (&domain.b, 8));
        assert_eq!(late, Err(Changed));
        let now = domain.version();
        let early = domain.store_pair_if(now, (&domain.a, 7), (&domain.b, 8));
        assert_eq!(early, Ok(()));
        assert_eq!(domain.load_all([&domain.a, &domain.b]), [7, 8]);
    }
}

/// Under k-CAS a word may hold a reference, which means nothing in a domain of the other mechanism.
#[test]
fn words_that_leave_a_domain_keep_their_values() {
    let mut domains = by_each(words);
    for domain in &domains {
        domain
            .compare_exchange_pair(Change::of(&domain.a, 1, 3), Change::of(&domain.b, 2, 4))
            .unwrap();
    }
    let [one, other] = &mut domains;
    std::mem::swap(one.get_mut(), other.get_mut());
    for domain in &domains {
        assert_eq!(domain.load_all([&domain.a, &domain.b]), [3, 4]);
        domain
            .compare_exchange_pair(Change::of(&domain.a, 3, 5), Change::of(&domain.b, 4, 6))
            .unwrap();
        assert_eq!(domain.load_all([&domain.a, &domain.b]), [5, 6]);
    }
}

#[test]
#[should_panic(expected = "no more than 8 words at once")]
fn more_words_than_a_wide_domain_changes_are_refused() {
    let domain: Domain<[Cell; MAX_CHANGES + 1]> = Domain::wide(Default::default());
    let changes: [Change<'_>; MAX_CHANGES + 1] =
        std::array::from_fn(|place| Change::of(&domain[place], 0, 1));
    let _ = domain.compare_exchange_all(&changes);
}

#[test]
#[should_panic(expected = "two changes are of the same word")]
fn a_word_that_changes_twice_is_refused() {
    let domain = Domain::wide(words());
    let changes = [2, 3].map(|new| Change::of(&domain.a, 1, new));
    let _ = domain.compare_exchange_all(&changes);
}

/// Keeps the sum of all words constant by changes of five words and of two, while other threads do
/// the same and read all words.
#[test]
fn wide_exchanges_lose_nothing() {
    const EACH: usize = crate::tests::rounds(2_000);
    let domain: Domain<[Cell; 6]> = Domain::wide(std::array::from_fn(|_| Cell::new(100_000)));
    let all: [&Cell; 6] = std::array::from_fn(|place| &domain[place]);
    std::thread::scope(|scope| {
        for first in 0..4 {
            let domain = &domain;
            scope.spawn(move || {
                for round in 0..EACH {
                    loop {
                        let values = domain.load_all(all);
                        assert_eq!(values.iter().sum::<u64>(), 600_000);
                        let change = |step: usize, by: i64| {
                            let place = (first + step + round) % 6;
                            let old = values[place];
                            Change::of(&domain[place], old, old.wrapping_add_signed(by))
                        };
                        let five = [-4, 1, 1, 1, 1, 0];
                        let changes: [Change<'_>; 6] =
                            std::array::from_fn(|step| change(step, five[step]));
                        let done = match round % 2 {
                            0 => domain.compare_exchange_all(&changes),
                            _ => domain.compare_exchange_pair(change(0, -1), change(1, 1)),
                        };
                        if done.is_ok() {
                            break;
                        }
                    }
                }
            });
        }
    });
    assert_eq!(domain.load_all(all).iter().sum::<u64>(), 600_000);
    assert_eq!(domain.version().number(), 1 + 4 * EACH as u64);
}

#[test]
#[should_panic(expected = "not one of this domain's")]
fn a_word_of_another_domain_is_refused() {
    let (one, other) = (pair(1, 2), pair(1, 2));
    let _ = one.compare_exchange_pair(Change::of(&one.a, 1, 2), Change::of(&other.b, 2, 3));
}

#[test]
#[should_panic(expected = "the same word")]
fn the_same_word_twice_is_refused() {
    let domain = pair(1, 2);
    let _ = domain.compare_exchange_pair(Change::of(&domain.a, 1, 2), Change::of(&domain.a, 1, 3));
}

#[test]
#[should_panic(expected = "below 2^63")]
fn a_value_that_is_too_large_is_refused() {
    let domain = pair(1, 2);
    let _ = domain.compare_exchange(Change::of(&domain.a, 1, 1 << 63));
}

/// Leaves a domain of [`words`] as a holder does that is stopped: after its changes or before, and
/// claimed by another thread or not. Returns `false` where no holder can be stopped like this.
///
/// # Safety
///
/// The domain is not moved before a later operation has rolled the change back.
unsafe fn stop_a_holder(domain: &Domain<Pair>, changed: bool, claimed: bool) -> bool {
    let left = if changed {
        // SAFETY: the caller's promise.
        unsafe { domain.abandon(Change::of(&domain.a, 1, 50), Change::of(&domain.b, 2, 60)) }
    } else {
        domain.abandon_lock()
    };
    if left && claimed {
        domain.abandon_claim();
    }
    left
}

/// A thread that is stopped indefinitely blocks no other, and whichever operation comes next rolls
/// its changes back.
#[test]
fn a_stopped_holder_is_revoked() {
    type Next = fn(&Domain<Pair>);
    let nexts: [Next; 3] = [
        |domain| assert_eq!(domain.load_all([&domain.a, &domain.b]), [1, 2]),
        |domain| {
            let version = domain.snapshot([&domain.a]).1;
            let swapped = domain.store_pair_if(version, (&domain.a, 1), (&domain.b, 2));
            assert!(swapped.is_ok() || domain.version() != version);
        },
        |domain| {
            let (a, b) = (&domain.a, &domain.b);
            domain
                .compare_exchange_pair(Change::of(a, 1, 1), Change::of(b, 2, 2))
                .unwrap();
        },
    ];
    for (changed, claimed) in [(true, false), (true, true), (false, false), (false, true)] {
        for next in nexts {
            let [domain, _] = by_each(words);
            let (a, b) = (&domain.a, &domain.b);
            // SAFETY: the domain is not moved before the next operation.
            if !unsafe { stop_a_holder(&domain, changed, claimed) } {
                return;
            }
            let before = statistics();
            next(&domain);
            assert_eq!(domain.load_all([a, b]), [1, 2]);
            let after = statistics();
            assert!(after.revocations > before.revocations);
            assert!(!changed || after.rollbacks > before.rollbacks);
        }
    }
}

/// A store that fails because of a stopped holder leaves the domain at another version, also for a
/// caller that asks for nothing but the version, as a handler does that interrupted the holder.
#[test]
fn a_stopped_holder_leaves_no_version_at_which_stores_fail() {
    for (changed, claimed) in [(true, false), (true, true), (false, false), (false, true)] {
        let [domain, _] = by_each(words);
        let (a, b) = (&domain.a, &domain.b);
        let before = domain.version();
        // SAFETY: the domain is not moved before the next operation.
        if !unsafe { stop_a_holder(&domain, changed, claimed) } {
            return;
        }
        assert_eq!(domain.store_pair_if(before, (a, 3), (b, 4)), Err(Changed));
        assert!(domain.version() > before);
        let mut stored = (0..1000).map(|_| domain.store_pair_if(domain.version(), (a, 3), (b, 4)));
        assert!(stored.any(|stored| stored.is_ok()));
        assert_eq!(domain.load_all([a, b]), [3, 4]);
    }
}

/// Reports what its words held when it was dropped.
#[derive(Covered)]
struct Witness {
    pair: Pair,
    /// The address of the word that takes the report.
    seen: usize,
}

impl Drop for Witness {
    fn drop(&mut self) {
        // SAFETY: the test keeps the word alive until the domain has been dropped.
        let seen = unsafe { AtomicU64::from_ptr(self.seen as *mut u64) };
        let [a, b] = [self.pair.a.value(), self.pair.b.value()];
        seen.store(a << 32 | b, Ordering::Relaxed);
    }
}

/// A thread is stopped in the middle of an exchange, and then the domain is dropped: the words' own
/// destructor sees no unfinished exchange. (Under k-CAS `abandon` has nothing to leave; there,
/// `verify/history` stops threads.)
#[test]
fn a_destructor_sees_no_half_done_exchange() {
    for claimed in [false, true] {
        let seen = AtomicU64::new(0);
        let witness = Witness {
            pair: words(),
            seen: seen.as_ptr() as usize,
        };
        // In a box, the domain stays in place when the box moves.
        let domain = Box::new(Domain::forced(witness, Mechanism::Assisted));
        let (a, b) = (&domain.pair.a, &domain.pair.b);
        // SAFETY: the domain is not moved before its drop has rolled the change back.
        if !unsafe { domain.abandon(Change::of(a, 1, 50), Change::of(b, 2, 60)) } {
            return;
        }
        if claimed {
            domain.abandon_claim();
        }
        drop(domain);
        assert_eq!(seen.load(Ordering::Relaxed), 1 << 32 | 2, "{claimed}");
    }
}

/// Several threads find the stopped holder at once. It is rolled back once.
#[test]
fn many_threads_revoke_one_holder() {
    for _ in 0..200 {
        let [domain, _] = by_each(words);
        let (a, b) = (&domain.a, &domain.b);
        // SAFETY: the domain is not moved before a thread has rolled the change back.
        if !unsafe { domain.abandon(Change::of(a, 1, 50), Change::of(b, 2, 60)) } {
            return;
        }
        let done = AtomicU64::new(0);
        std::thread::scope(|scope| {
            for _ in 0..4 {
                scope.spawn(|| {
                    let first = Change::of(&domain.a, 1, 3);
                    let exchanged =
                        domain.compare_exchange_pair(first, Change::of(&domain.b, 2, 4));
                    done.fetch_add(u64::from(exchanged.is_ok()), Ordering::Relaxed);
                });
            }
        });
        assert_eq!(done.load(Ordering::Relaxed), 1);
        assert_eq!(domain.load_all([&domain.a, &domain.b]), [3, 4]);
    }
}

/// Keeps the sum of all words constant: every snapshot must show it, and every transfer must count
/// once.
#[test]
#[cfg_attr(miri, ignore = "takes long to interpret")]
fn transfers_lose_nothing() {
    for domain in by_each(|| std::array::from_fn::<_, WORDS, _>(|_| Cell::new(1000))) {
        transfer(&domain);
    }
}

const WORDS: usize = 4;

fn transfer(domain: &Domain<[Cell; WORDS]>) {
    let stop = AtomicBool::new(false);
    let done = AtomicU64::new(0);
    std::thread::scope(|scope| {
        let workers: Vec<_> = (0..8u64)
            .map(|seed| {
                let done = &done;
                scope.spawn(move || {
                    let mut random = seed * 7919 + 1;
                    for _ in 0..20_000 {
                        random = random
                            .wrapping_mul(6_364_136_223_846_793_005)
                            .wrapping_add(1);
                        let from = (random >> 33) as usize % WORDS;
                        let to = (from + 1 + (random >> 40) as usize % (WORDS - 1)) % WORDS;
                        loop {
                            let words = [&domain[from], &domain[to]];
                            let ([a, b], version) = domain.snapshot(words);
                            if a == 0 {
                                break;
                            }
                            let changed = if random & 1 << 50 == 0 {
                                domain.compare_exchange_pair(
                                    Change::of(words[0], a, a - 1),
                                    Change::of(words[1], b, b + 1),
                                )
                            } else {
                                domain.store_pair_if(version, (words[0], a - 1), (words[1], b + 1))
                            };
                            if changed.is_ok() {
                                done.fetch_add(1, Ordering::Relaxed);
                                break;
                            }
                        }
                    }
                })
            })
            .collect();
        scope.spawn(|| {
            while !stop.load(Ordering::Relaxed) {
                let words: [&Cell; WORDS] = std::array::from_fn(|index| &domain[index]);
                assert_eq!(domain.load_all(words).iter().sum::<u64>(), 4000);
            }
        });
        for worker in workers {
            worker.join().unwrap();
        }
        stop.store(true, Ordering::Relaxed);
    });
    let words: [&Cell; WORDS] = std::array::from_fn(|index| &domain[index]);
    assert_eq!(domain.load_all(words).iter().sum::<u64>(), 4000);
    assert!(domain.version().number() > done.load(Ordering::Relaxed));
}

/// A watchpoint on a word interrupts each attempt after it has taken the lock and stored the word.
/// Every exchange still ends, by the slow path.
#[test]
#[cfg(all(target_os = "linux", not(miri)))]
fn exchanges_end_under_a_watchpoint() {
    extern "C" fn on_trap(_: i32) {}
    let domain = Domain::forced([7, 8, 9].map(Cell::new), Mechanism::Assisted);
    let [a, b, c] = [0, 1, 2].map(|word| &domain[word]);
    // SAFETY: zeros are valid in every field; the handler does nothing.
    let mut before = unsafe {
        let (mut new, mut old): (libc::sigaction, libc::sigaction) = std::mem::zeroed();
        new.sa_sigaction = on_trap as *const () as usize;
        libc::sigaction(libc::SIGTRAP, &new, &mut old);
        old
    };
    // `struct perf_event_attr`: a breakpoint (5) of 8 bytes, at each store (2), of this thread in
    // user space, that sends SIGTRAP and ends at an exec.
    let mut attributes = [0_u64; 16];
    attributes[0] = 5 | (size_of_val(&attributes) as u64) << 32;
    attributes[2] = 1;
    attributes[5] = 1 << 5 | 1 << 6 | 1 << 36 | 1 << 37;
    attributes[6] = 2 << 32;
    attributes[7] = std::ptr::from_ref(a).addr() as u64;
    attributes[8] = 8;
    // SAFETY: the attributes are valid as long as the call.
    let watchpoint =
        unsafe { libc::syscall(libc::SYS_perf_event_open, &attributes, 0, -1, -1, 8) } as i32;
    // Where the system refuses it, the exchanges still end.
    let exchanged = [
        domain.compare_exchange(Change::of(a, 7, 1)),
        domain.compare_exchange_pair(Change::of(a, 1, 2), Change::of(b, 8, 3)),
        domain.compare_exchange_all(&[Change::of(a, 2, 4), Change::compare(c, 9)]),
        domain.compare_exchange_all(&[
            Change::compare(c, 9),
            Change::of(a, 4, 5),
            Change::of(b, 3, 6),
        ]),
        domain.compare_exchange_all(&[Change::of(a, 5, 0), Change::compare(c, 8)]),
    ];
    // SAFETY: closes what was opened, and restores what `sigaction` has returned.
    unsafe {
        libc::close(watchpoint);
        libc::sigaction(libc::SIGTRAP, &raw mut before, std::ptr::null_mut());
    }
    assert_eq!(exchanged, [Ok(()), Ok(()), Ok(()), Ok(()), Err(Changed)]);
    assert_eq!(domain.load_all([a, b, c]), [5, 6, 9]);
}
