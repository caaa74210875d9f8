//! Tests of entries that are checked out.

#[cfg_attr(miri, allow(unused_imports))]
use std::sync::atomic::{AtomicUsize, Ordering};

use super::*;

#[test]
fn a_checked_out_entry_is_reported() {
    for mechanism in MECHANISMS {
        let list = list_of(mechanism, &[1, 2, 3]);
        let removed = list.check_out(&2).unwrap().unwrap();
        assert_eq!((removed.key(), removed.value()), (2, 20));

        let mine = list.get(&2).unwrap_err();
        assert!(mine.by_this_thread());
        assert_eq!(list.get(&2), Err(mine));
        assert_eq!(list.remove(&2), Err(mine));
        assert_eq!(list.try_insert(2, 0), Err(mine.into()));
        assert_eq!(list.insert(2, 0), Err(mine.into()));
        assert_eq!(list.update(&2, |value| value), Err(mine.into()));
        assert_eq!(list.check_out(&2).err(), Some(mine));
        assert!(list.contains(&2));
        std::thread::scope(|scope| {
            let others = scope.spawn(|| list.get(&2).unwrap_err().by_this_thread());
            assert!(!others.join().unwrap());
        });

        // The entries before and behind it are unaffected.
        assert_eq!(list.snapshot(), [(1, 10), (3, 30)]);
        assert_eq!(list.insert(1, 11), Ok(Some(10)));
        assert_eq!(list.remove(&3), Ok(Some(30)));
        list.try_insert(4, 40).unwrap();
        assert_eq!(list.pop_first(), Some((1, 11)));
        list.try_insert(0, 0).unwrap();

        removed.check_in(25).unwrap();
        assert_eq!(list.snapshot(), [(0, 0), (2, 25), (4, 40)]);
        assert_eq!(list.get(&2), Ok(Some(25)));
    }
}

#[test]
fn a_dropped_checkout_is_checked_in_and_a_removed_one_is_gone() {
    for mechanism in MECHANISMS {
        let list = list_of(mechanism, &[1, 2]);
        drop(list.check_out(&1).unwrap());
        assert_eq!(list.get(&1), Ok(Some(10)));
        list.check_out(&1).unwrap().unwrap().remove().unwrap();
        assert_eq!(list.snapshot(), [(2, 20)]);
        assert!(list.check_out(&1).unwrap().is_none());
    }
}

#[test]
fn a_new_key_moves_the_entry() {
    for mechanism in MECHANISMS {
        let list = list_of(mechanism, &[1, 2, 3]);
        let mut removed = list.check_out(&1).unwrap().unwrap();
        assert_eq!(removed.set_key(3), Err(Refused::Present));
        let other = list.check_out(&2).unwrap().unwrap();
        assert!(matches!(removed.set_key(2), Err(Refused::CheckedOut(_))));
        drop(other);
        assert_eq!(removed.set_key(1), Ok(()));
        assert_eq!(removed.set_key(5), Ok(()));
        // The old key is free, and the new one taken.
        assert_eq!(list.try_insert(1, 0), Ok(()));
        assert!(list.get(&5).unwrap_err().by_this_thread());
        assert_eq!(removed.key(), 5);
        removed.check_in(55).unwrap();
        assert_eq!(list.snapshot(), [(1, 0), (2, 20), (3, 30), (5, 55)]);

        // Checks an entry in with a new key and its old value.
        let mut removed = list.check_out(&3).unwrap().unwrap();
        removed.set_key(9).unwrap();
        drop(removed);
        assert_eq!(list.snapshot(), [(1, 0), (2, 20), (5, 55), (9, 30)]);
    }
}

/// In an unordered list, an entry that gets a new key is the newest.
#[test]
fn a_new_key_moves_the_entry_to_the_front_of_an_unordered_list() {
    let mut list = List::unordered();
    list.extend([(1, 1), (2, 2), (3, 3)]);
    let mut removed = list.check_out(&1).unwrap().unwrap();
    removed.set_key(2).unwrap();
    drop(removed);
    assert_eq!(list.snapshot(), [(2, 1), (3, 3), (2, 2)]);
}

/// A thread that exits with an entry checked out never drops it.
#[test]
fn the_checkout_of_an_exited_thread_is_forgotten() {
    for mechanism in MECHANISMS {
        let list = list_of(mechanism, &[1, 2, 3]);
        assert!(!list.forget_checkout(&2) && !list.forget_checkout(&7));
        std::thread::scope(|scope| {
            scope.spawn(|| std::mem::forget(list.check_out(&2)));
        });
        assert!(list.get(&2).is_err());
        assert!(list.forget_checkout(&2) && !list.forget_checkout(&2));
        assert_eq!(list.get(&2), Ok(None));
        list.try_insert(2, 22).unwrap();
        assert_eq!(list.snapshot(), [(1, 10), (2, 22), (3, 30)]);
    }
}

/// A newer entry of the key does not hide it.
#[test]
fn the_checkout_of_an_exited_thread_is_forgotten_behind_newer_entries() {
    for mechanism in MECHANISMS {
        let list = List::<u64, u64, Unordered>::unordered_forced(mechanism);
        let push = |key, value| list.push_front(key, value).unwrap();
        push(1, 9);
        push(1, 10);
        std::mem::forget(list.check_out(&1));
        push(1, 11);
        push(2, 20);
        push(1, 12);
        assert!(list.forget_checkout(&1) && !list.forget_checkout(&1));
        assert_eq!(list.snapshot(), [(1, 12), (2, 20), (1, 11), (1, 9)]);
    }
}

#[test]
fn a_holder_finds_out_that_its_checkout_was_forgotten() {
    for mechanism in MECHANISMS {
        let list = list_of(mechanism, &[1, 2, 3]);
        let give_up = |key| {
            let removed = list.check_out(&key).unwrap().unwrap();
            assert!(list.forget_checkout(&key));
            removed
        };
        assert_eq!(give_up(1).check_in(5), Err(GivenUp));
        assert_eq!(give_up(2).remove(), Err(GivenUp));
        let mut removed = give_up(3);
        assert_eq!(removed.set_key(7), Err(Refused::Absent));
        drop(removed);
        assert!(list.is_empty());
        // Their nodes can be used again.
        for key in 0..100 {
            list.try_insert(key, key).unwrap();
        }
        assert!((0..100).all(|key| list.get(&key) == Ok(Some(key))));
    }
}

/// A real signal interrupts the thread that has checked the entry out. No operation in its handler
/// waits for the entry.
#[cfg(all(unix, not(miri)))]
#[test]
fn a_handler_never_waits_for_its_own_thread() {
    use std::sync::OnceLock;

    static LIST: OnceLock<List<u64, u64>> = OnceLock::new();
    static ANSWERS: AtomicUsize = AtomicUsize::new(0);

    extern "C" fn handler(_: i32) {
        let list = LIST.get().expect("made before");
        let mine = |checked_out: CheckedOut| checked_out.by_this_thread();
        let answers = [
            // A handler that retried here would never return.
            (0..1000).all(|_| list.get(&2).is_err()),
            list.get(&2).is_err_and(mine),
            list.remove(&2).is_err_and(mine),
            matches!(list.try_insert(2, 1), Err(Refused::CheckedOut(changing)) if mine(changing)),
            list.check_out(&2).is_err_and(mine),
            list.try_insert(4, 40).is_ok(),
            list.insert_with(1, |value| value.unwrap_or(0) + 1).is_ok(),
            list.fold(0, |count, _, _| count + 1) == 3,
        ];
        let right = answers.iter().filter(|answer| **answer).count();
        ANSWERS.fetch_add(right, Ordering::Relaxed);
    }

    LIST.get_or_init(|| list_of(Mechanism::Assisted, &[1, 2, 3]));
    let list = LIST.get().unwrap();
    // SAFETY: the handler has the required signature, and accesses only statics.
    unsafe {
        libc::signal(
            libc::SIGURG,
            handler as extern "C" fn(i32) as libc::sighandler_t,
        )
    };
    let removed = list.check_out(&2).unwrap().unwrap();
    // SAFETY: the signal goes to this thread, and has a handler.
    unsafe { libc::raise(libc::SIGURG) };
    assert_eq!(ANSWERS.load(Ordering::Relaxed), 8);
    removed.check_in(21).unwrap();
    assert_eq!(list.snapshot(), [(1, 11), (2, 21), (3, 30), (4, 40)]);
}

#[test]
fn an_entry_that_was_removed_to_be_changed_is_absent() {
    for mechanism in MECHANISMS {
        let list = list_of(mechanism, &[1, 2, 3]);
        let removal = list.remove_to_change(&2).unwrap().unwrap();
        assert_eq!((removal.key(), removal.value()), (2, 20));
        assert_eq!(list.get(&2), Ok(None));
        assert_eq!(list.snapshot(), [(1, 10), (3, 30)]);
        assert!(list.remove_to_change(&2).unwrap().is_none());
        removal.reinsert(0, 5).unwrap();
        assert_eq!(list.snapshot(), [(0, 5), (1, 10), (3, 30)]);
    }
}

#[test]
fn a_key_that_was_inserted_meanwhile_keeps_the_entry_out() {
    for mechanism in MECHANISMS {
        let list = list_of(mechanism, &[1, 2]);
        let removal = list.remove_to_change(&2).unwrap().unwrap();
        list.try_insert(2, 0).unwrap();
        let refused = removal.reinsert(2, 5).unwrap_err();
        assert_eq!(refused.reason, Refused::Present);
        assert_eq!(list.snapshot(), [(1, 10), (2, 0)]);
        let removal = refused.removal;
        assert_eq!((removal.key(), removal.value()), (2, 20));
        removal.reinsert(3, 30).unwrap();
        assert_eq!(list.snapshot(), [(1, 10), (2, 0), (3, 30)]);
        list.remove(&3).unwrap();

        let removal = list.remove_to_change(&1).unwrap().unwrap();
        let checkout = list.check_out(&2).unwrap().unwrap();
        let out = list.remove_to_change(&2).unwrap_err();
        assert!(out.by_this_thread());
        let refused = removal.reinsert(2, 5).unwrap_err();
        assert_eq!(refused.reason, out.into());
        drop(checkout);
        assert_eq!(list.snapshot(), [(2, 0)]);
    }
}

/// The node is kept, so the limit does not matter; a dropped removal frees it.
#[test]
fn a_full_list_reinserts_an_entry() {
    let list = List::<u64, u64>::try_with_limit(1).unwrap();
    list.try_insert(1, 10).unwrap();
    let full = Refused::Memory(type_stable::Error::LimitReached);
    for key in 2..100 {
        let removal = list.remove_to_change(&(key - 1)).unwrap().unwrap();
        assert_eq!(list.try_insert(0, 0), Err(full));
        removal.reinsert(key, 0).unwrap();
        assert_eq!(list.len(), 1);
    }
    drop(list.remove_to_change(&99));
    list.try_insert(5, 50).unwrap();
    assert_eq!(list.snapshot(), [(5, 50)]);
}

#[test]
fn an_unordered_list_reinserts_at_the_front() {
    for mechanism in MECHANISMS {
        let list = List::unordered_forced(mechanism);
        for key in [1, 2, 2, 3] {
            list.push_front(key, key).unwrap();
        }
        let removal = list.remove_to_change(&2).unwrap().unwrap();
        removal.reinsert(2, 9).unwrap();
        assert_eq!(list.snapshot(), [(2, 9), (3, 3), (2, 2), (1, 1)]);
    }
}

/// A thread has exited with each kind of node that is in no list: audits free them, and no others.
#[test]
#[cfg_attr(miri, ignore = "waits")]
fn an_audit_frees_what_exited_threads_held() {
    let time = std::time::Duration::from_millis(2);
    for mechanism in MECHANISMS {
        let list = list_of(mechanism, &[1, 2, 3, 4]);
        let sibling = list.sibling();
        sibling.try_insert(9, 90).unwrap();
        let audit_now = || {
            // SAFETY: the list has one sibling. The only thread is here, inside no operation, and
            // holds nothing but `kept`, for a short time.
            unsafe { list.audit(&[&sibling], time) }
        };
        let audit = || {
            std::thread::sleep(2 * time);
            audit_now()
        };
        audit();
        std::mem::forget(list.remove_to_change(&1));
        std::mem::forget(list.check_out(&2));
        assert!(list.forget_checkout(&2));
        assert_eq!(
            (audit().unclaimed, audit().unclaimed),
            (0, 2),
            "{mechanism:?}"
        );
        let after = audit();
        assert_eq!((after.allocated, after.unclaimed), (3, 0), "{mechanism:?}");

        // Found in the list by the audits so far, and unlinked only now.
        std::thread::sleep(2 * time);
        let kept = list.remove_to_change(&3).unwrap().unwrap();
        let found = audit_now().unclaimed;
        assert_eq!(
            found, 0,
            "{mechanism:?}: it was claimed when it was unlinked"
        );
        kept.reinsert(5, 50).unwrap();
        assert_eq!(list.insert(4, 41), Ok(Some(40)));
        audit();
        assert_eq!(audit().unclaimed, 0, "{mechanism:?}");
        assert_eq!(list.snapshot(), [(4, 41), (5, 50)]);
        assert_eq!(sibling.snapshot(), [(9, 90)]);
        // Freed nodes carry no mark.
        for key in 10..20 {
            list.try_insert(key, 0).unwrap();
            assert_eq!(list.get(&key), Ok(Some(0)));
        }
    }
}

/// The shortest time is a millisecond, even if the caller's is zero: what is in the list was
/// claimed just now.
#[test]
#[cfg_attr(miri, ignore = "waits")]
fn an_audit_without_a_time_frees_nothing_that_is_in_a_list() {
    for mechanism in MECHANISMS {
        let list = list_of(mechanism, &[1, 2, 3]);
        std::mem::forget(list.remove_to_change(&2));
        let audit = || {
            std::thread::sleep(std::time::Duration::from_millis(3));
            // SAFETY: the only thread is here, inside no operation, and holds nothing.
            unsafe { list.audit(&[], std::time::Duration::ZERO) }.unclaimed
        };
        assert_eq!([audit(), audit(), audit()], [0, 1, 0], "{mechanism:?}");
        list.try_insert(4, 40).unwrap();
        assert_eq!(list.snapshot(), [(1, 10), (3, 30), (4, 40)]);
    }
}
