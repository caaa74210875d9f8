//! Finding leaked descriptors.

use std::thread::sleep;
use std::time::{Duration, Instant};

use super::*;
use crate::clock::refusal;
use crate::type_stable::moment::Moment;

const TIME: Duration = Duration::from_millis(15);

/// Returns the result of an audit, in the order of addresses.
fn audit(pool: &Pool<Words>) -> (Audit, Vec<Unclaimed<'_, Words>>) {
    let mut found = Vec::new();
    let audit = pool.audit(TIME, |unclaimed| found.push(unclaimed));
    assert_eq!(audit.unclaimed, found.len());
    (audit, found)
}

#[test]
fn all_that_is_allocated_is_walked_through() {
    let pool = limited(1000);
    assert_eq!(pool.allocated().count(), 0);
    let mut held = all(&pool);
    let addresses_of_all: BTreeSet<_> = pool.allocated().map(|words| words.address()).collect();
    assert_eq!(addresses_of_all, addresses(&held));
    held.truncate(7);
    let references: BTreeSet<_> = pool.allocated().map(|words| words.address()).collect();
    assert_eq!(references, addresses(&held));
    assert!(pool.allocated().all(|words| words.is_current()));
    drop(held);
    assert_eq!(pool.allocated().count(), 0);
}

#[test]
fn unclaimed_descriptors_are_found_after_the_time() {
    let pool = limited(500);
    let mut held = all(&pool);
    let lost: Vec<_> = held
        .drain(100..110)
        .map(|words| (words.address(), words.into_raw()))
        .collect();
    let claim = || {
        held.iter()
            .for_each(|words| assert!(words.reference().claim()))
    };

    let start = Instant::now();
    let (first, found) = audit(&pool);
    assert_eq!((first.allocated, found.len()), (500, 0), "just allocated");
    claim();
    let (_, found) = audit(&pool);
    assert!(found.is_empty() || start.elapsed() > TIME, "too early");
    sleep(TIME + Duration::from_millis(5));
    claim();
    let (_, found) = audit(&pool);
    let found_at: BTreeSet<_> = found
        .iter()
        .map(|words| words.reference().address())
        .collect();
    assert_eq!(found_at, lost.iter().map(|(address, _)| *address).collect());

    for unclaimed in found {
        let old = unclaimed.reference();
        // SAFETY: the test only compares the addresses that `into_raw` returned, and adopts none.
        let again = unsafe { unclaimed.reclaim() }.unwrap();
        assert!(!old.is_current() && again.reference().is_current());
    }
    assert_eq!(pool.allocated().count(), 490);
    assert_eq!(all(&pool).len(), 10);
}

/// Negative control of the test above: without claims every descriptor is found.
#[test]
fn what_is_held_and_not_claimed_is_found_too() {
    let pool = limited(500);
    let held = all(&pool);
    audit(&pool);
    sleep(TIME + Duration::from_millis(5));
    assert_eq!(audit(&pool).1.len(), held.len());
}

#[test]
fn a_claim_restarts_the_time() {
    let pool = limited(1);
    let held = pool.allocate().unwrap();
    audit(&pool);
    sleep(TIME + Duration::from_millis(5));
    held.reference().claim();
    let start = Instant::now();
    assert_eq!(audit(&pool).1.len(), 0);
    assert!(audit(&pool).1.is_empty() || start.elapsed() > TIME);
    sleep(TIME + Duration::from_millis(5));
    assert_eq!(audit(&pool).1.len(), 1);
}

/// An audit without a clock finds nothing, and the next one continues from earlier records.
#[test]
fn without_a_clock_no_time_passes() {
    let pool = limited(10);
    let held = all(&pool);
    let after = |milliseconds| Some(Moment::after(Duration::from_millis(milliseconds)));
    let unclaimed = |now| pool.audit_by(TIME, || now, |_| ()).unclaimed;
    let passed = 1_001 + TIME.as_millis() as u64;
    let found = [None, after(1_000), None, after(passed), None].map(unclaimed);
    assert_eq!(found, [0, 0, 0, held.len(), 0]);
    let at_once = pool.audit_by(Duration::ZERO, || None, |_| ());
    assert_eq!(at_once.unclaimed, held.len());
    assert_eq!(refusal::during(|| audit(&pool)).1.len(), 0);
}

/// An owner that links its descriptor behind the walk through the structure has not held it for
/// too long only because the walk took long.
#[test]
fn a_long_walk_does_not_count() {
    let pool = limited(10);
    let held = all(&pool);
    let found_after = |pause: Duration| {
        loop {
            let start = Instant::now();
            audit(&pool);
            sleep(pause);
            let mut in_time = pause > TIME;
            let audit = pool.audit_after(
                TIME,
                || {
                    in_time |= start.elapsed() < TIME;
                    sleep(2 * TIME);
                },
                |_| (),
            );
            // Otherwise this thread was delayed before the walk, and the time has passed.
            if in_time {
                return audit.unclaimed;
            }
            held.iter().for_each(|words| _ = words.reference().claim());
        }
    };
    assert_eq!(found_after(Duration::ZERO), 0);
    // The control: the time had passed before the walk.
    assert_eq!(found_after(2 * TIME), held.len());
}

/// The next owner of a descriptor does not inherit the earlier owner's time.
#[test]
fn an_allocation_restarts_the_time() {
    let pool = limited(1);
    let first = pool.allocate().unwrap();
    audit(&pool);
    sleep(TIME + Duration::from_millis(5));
    drop(first);
    let second = pool.allocate().unwrap();
    assert_eq!(audit(&pool).1.len(), 0);
    sleep(TIME + Duration::from_millis(5));
    assert_eq!(audit(&pool).1.len(), 1);
    drop(second);
    assert_eq!(audit(&pool), (Audit::default(), Vec::new()));
}

impl PartialEq for Unclaimed<'_, Words> {
    fn eq(&self, other: &Self) -> bool {
        self.reference() == other.reference()
    }
}

#[test]
fn what_ends_meanwhile_is_not_reclaimed() {
    let pool = limited(1);
    let held = pool.allocate().unwrap();
    audit(&pool);
    sleep(TIME + Duration::from_millis(5));
    let unclaimed = audit(&pool).1.pop().unwrap();
    drop(held);
    let _other = pool.allocate().unwrap();
    // SAFETY: the former owner has already freed it and does not use it again.
    assert!(unsafe { unclaimed.reclaim() }.is_none());
    assert_eq!(pool.allocated().count(), 1);
}
