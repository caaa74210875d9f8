//! The threads' operations on a list, and the invariants afterwards.

use std::cell::Cell;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use verify_model::controls::shuttle_thread as thread;

use crate::Orders::{Every, Many};
use crate::dcas::Protection::{ExchangeVersion, LastLook, RemovedMark};
use crate::nonblocking::{List, OneVisitorList, RefList, Refused};
use crate::sync::step;
use crate::{fails, holds};

/// Runs two threads and the model's own.
pub fn beside<T: Send + Sync + 'static>(
    shared: &Arc<T>,
    work: impl FnOnce(&T) + Send + 'static,
) -> thread::JoinHandle<()> {
    let shared = Arc::clone(shared);
    thread::spawn(move || work(&shared))
}

/// Two words, so that a torn value is detectable.
type Pair = [u64; 2];

fn list_of(entries: &[(u64, Pair)]) -> Arc<List<u64, Pair>> {
    let list = List::new();
    for (key, value) in entries {
        list.try_insert(*key, *value).unwrap();
    }
    Arc::new(list)
}

fn updates() {
    let list = Arc::new(List::<u64, u64>::new());
    let add = |list: &List<u64, u64>| {
        list.insert_with(1, |count| count.unwrap_or(0) + 1).unwrap();
    };
    let other = beside(&list, add);
    add(&list);
    other.join().unwrap();
    assert_eq!(list.snapshot(), [(1, 2)], "an update is lost");
}

#[test]
fn no_update_is_lost() {
    holds("updates", Many(700), updates);
    let lost = "an update is lost";
    fails("updates", lost, ExchangeVersion, updates);
}

fn searches() {
    let list = list_of(&[(1, [1, 1]), (2, [2, 2])]);
    let other = beside(&list, |list| {
        assert_eq!(list.remove(&2), Ok(Some([2, 2])));
        // Reuses the node that was just freed.
        list.try_insert(3, [3, 3]).unwrap();
    });
    let found = list.get(&2).unwrap();
    assert!(found.is_none_or(|value| value == [2, 2]), "another's value");
    assert!(list.get(&1) == Ok(Some([1, 1])), "not found");
    other.join().unwrap();
    assert_eq!(list.snapshot(), [(1, [1, 1]), (3, [3, 3])]);
}

#[test]
fn a_search_finds_what_is_there() {
    holds("searches", Many(700), searches);
    fails("searches", "another's value", LastLook, searches);
}

fn same_key() {
    let list = list_of(&[]);
    let insert = |list: &List<u64, Pair>| list.try_insert(7, [7, 7]).is_ok();
    let inserted = Arc::new(AtomicUsize::new(0));
    let count = Arc::clone(&inserted);
    let other = beside(&list, move |list| {
        count.fetch_add(usize::from(insert(list)), Ordering::SeqCst);
    });
    inserted.fetch_add(usize::from(insert(&list)), Ordering::SeqCst);
    other.join().unwrap();
    assert_eq!(inserted.load(Ordering::SeqCst), 1, "inserted twice");
    assert_eq!(list.len(), 1, "inserted twice");
}

#[test]
fn a_key_is_there_once() {
    holds("insertions of one key", Many(700), same_key);
    let twice = "inserted twice";
    fails("insertions of one key", twice, ExchangeVersion, same_key);
}

fn neighbours() {
    let list = list_of(&[(1, [1, 1]), (2, [2, 2]), (3, [3, 3])]);
    let other = beside(&list, |list| {
        assert!(list.remove(&1).unwrap().is_some());
    });
    assert!(list.remove(&2).unwrap().is_some());
    other.join().unwrap();
    assert_eq!(list.snapshot(), [(3, [3, 3])], "deleted, and still there");
}

/// The operations that break lists on single compare-and-swaps: a deletion behind a node that is
/// being deleted.
#[test]
fn neighbours_are_deleted() {
    holds("deletions of neighbours", Many(700), neighbours);
    fails(
        "deletions of neighbours",
        "deleted, and still there",
        ExchangeVersion,
        neighbours,
    );
}

fn changes() {
    let list = list_of(&[(1, [0, 0])]);
    let other = beside(&list, |list| {
        let removed = list.check_out(&1).unwrap().unwrap();
        removed.check_in([5, 5]).unwrap();
    });
    if let Ok(found) = list.get(&1) {
        let value = found.expect("never deleted");
        assert!(value[0] == value[1], "torn");
    }
    other.join().unwrap();
    assert_eq!(list.get(&1), Ok(Some([5, 5])));
}

#[test]
fn a_change_is_seen_whole_or_not() {
    holds("changes in place", Many(700), changes);
    fails("changes in place", "torn", LastLook, changes);
}

fn given_up() {
    let list = list_of(&[(1, [1, 1])]);
    let other = beside(&list, |list| {
        if list.forget_checkout(&1) {
            list.try_insert(1, [2, 2]).unwrap();
        }
    });
    let reinserted = match list.check_out(&1) {
        Ok(Some(mut removed)) => match removed.set_key(9) {
            Ok(()) => removed.check_in([3, 3]).is_ok(),
            Err(Refused::Absent) => false,
            Err(other) => panic!("{other}"),
        },
        _ => panic!("no other thread removes it"),
    };
    other.join().unwrap();
    let left = list.snapshot();
    let both: &[(u64, Pair)] = &[(1, [2, 2]), (9, [3, 3])];
    // An entry that was revoked too late was already at its new position.
    assert!(left == both[..1] || left == both[1..] || left == both);
    assert_eq!(left.contains(&both[1]), reinserted);
    // The nodes are in the list or free: as many are left of three.
    assert!(list.try_insert(5, [5, 5]).is_ok());
}

/// Two threads move entries to the same key, each without memory for another node.
fn removals() {
    let list = list_of(&[(1, [1, 1]), (2, [2, 2])]);
    let moves = |list: &List<u64, Pair>, from: u64, spare: u64| {
        let Some(removal) = list.remove_to_change(&from).unwrap() else {
            panic!("no other thread removes it");
        };
        let value = removal.value();
        assert_eq!(value, [from, from], "another's entry");
        if let Err(refused) = removal.reinsert(3, value) {
            assert_eq!(refused.reason, Refused::Present);
            assert!(refused.removal.reinsert(spare, value).is_ok());
        }
    };
    let other = beside(&list, move |list| moves(list, 1, 4));
    moves(&list, 2, 5);
    other.join().unwrap();
    let left = list.snapshot();
    let first: &[(u64, Pair)] = &[(3, [1, 1]), (5, [2, 2])];
    let second: &[(u64, Pair)] = &[(3, [2, 2]), (4, [1, 1])];
    assert!(left == first || left == second, "lost or twice: {left:?}");
}

#[test]
fn removed_entries_come_back_once() {
    holds("reinsertions", Many(700), removals);
    fails("reinsertions", "", ExchangeVersion, removals);
}

#[test]
fn who_is_given_up_finds_out() {
    holds("entries that are given up", Many(700), given_up);
}

/// A value that detects uses after its drop.
pub struct Value {
    pub number: u32,
    alive: Cell<bool>,
    dropped: Arc<AtomicUsize>,
}

// SAFETY: all threads of a model run on one, and no use of the cell lasts over a step.
unsafe impl Sync for Value {}

impl Value {
    pub fn new(number: u32, dropped: &Arc<AtomicUsize>) -> Value {
        Value {
            number,
            alive: Cell::new(true),
            dropped: Arc::clone(dropped),
        }
    }

    fn look(&self) {
        assert!(self.alive.get(), "looked at after its end");
        step();
        assert!(self.alive.get(), "ended under a guard");
    }
}

impl Drop for Value {
    fn drop(&mut self) {
        // Not when a model has failed already.
        if !std::thread::panicking() {
            assert!(self.alive.replace(false), "ended twice");
            self.dropped.fetch_add(1, Ordering::SeqCst);
        }
    }
}

fn visitors() {
    let dropped = Arc::new(AtomicUsize::new(0));
    let list = RefList::new();
    for number in [1, 2, 3] {
        assert!(list.push_front(Value::new(number, &dropped)).is_ok());
    }
    let list = Arc::new(list);
    let counter = Arc::clone(&dropped);
    let other = beside(&list, move |list| {
        // 3 and 2 are popped, and 4 reuses the memory of one of them.
        drop(list.pop_front());
        drop(list.pop_front());
        assert!(list.push_front(Value::new(4, &counter)).is_ok());
    });
    let mut seen = Vec::new();
    list.for_each(|value| {
        value.look();
        seen.push(value.number);
    });
    assert_eq!(seen.last(), Some(&1), "missed what was always there");
    let mut once = seen.clone();
    once.dedup();
    assert_eq!(once, seen, "seen twice");
    other.join().unwrap();
    assert_eq!(list.len(), 2);
    drop(Arc::into_inner(list));
    assert_eq!(dropped.load(Ordering::SeqCst), 4, "not all have ended");
}

#[test]
fn guards_keep_what_they_guard() {
    holds("visitors of values that go", Many(700), visitors);
    for protection in [ExchangeVersion, RemovedMark] {
        fails("visitors of values that go", "", protection, visitors);
    }
}

/// One value takes the place of another: there is one all the time.
fn successors() {
    let dropped = Arc::new(AtomicUsize::new(0));
    let list = RefList::new();
    assert!(list.push_front(Value::new(1, &dropped)).is_ok());
    let list = Arc::new(list);
    let other = beside(&list, move |list| {
        let first = list.front().expect("no other thread removes it");
        assert!(list.push_front(Value::new(2, &dropped)).is_ok());
        assert!(list.remove(&first));
    });
    assert!(!list.is_empty(), "missed both");
    let first = list.front().expect("missed both");
    first.look();
    drop(first);
    assert!((1..=2).contains(&list.len()), "missed both");
    other.join().unwrap();
}

#[test]
fn a_list_with_a_value_is_not_empty() {
    holds("successors", Many(700), successors);
    fails("successors", "missed both", LastLook, successors);
}

/// A value goes behind a visited one, which another thread removes meanwhile.
fn insertions_behind() {
    let dropped = Arc::new(AtomicUsize::new(0));
    let list = RefList::new();
    for number in [1, 2] {
        assert!(list.push_front(Value::new(number, &dropped)).is_ok());
    }
    let list = Arc::new(list);
    let other = beside(&list, move |list| {
        // Its node may be reused for the new value.
        drop(list.pop_front());
    });
    let inserted = list.front().map(|front| {
        let inserted = front.insert_behind(Value::new(3, &dropped));
        front.look();
        (front.number, inserted.is_ok())
    });
    other.join().unwrap();
    let mut left = Vec::new();
    list.for_each(|value| {
        value.look();
        left.push(value.number);
    });
    match inserted {
        Some((2, true)) => assert_eq!(left, [3, 1], "not behind"),
        Some((2, false)) => assert_eq!(left, [1], "refused, and there"),
        Some((1, true)) => assert_eq!(left, [1, 3], "not behind"),
        other => panic!("{other:?}, and {left:?}"),
    }
    drop(Arc::into_inner(list));
    assert_eq!(dropped.load(Ordering::SeqCst), 3, "not all have ended");
}

#[test]
fn a_value_goes_behind_another_that_is_there() {
    holds("insertions behind a value", Many(700), insertions_behind);
    for protection in [ExchangeVersion, RemovedMark] {
        fails(
            "insertions behind a value",
            "",
            protection,
            insertions_behind,
        );
    }
}

fn fronts() {
    let dropped = Arc::new(AtomicUsize::new(0));
    let list = RefList::new();
    assert!(list.push_front(Value::new(1, &dropped)).is_ok());
    let list = Arc::new(list);
    let length = Arc::new(AtomicUsize::new(0));
    let (counter, seen) = (Arc::clone(&dropped), Arc::clone(&length));
    let other = beside(&list, move |list| {
        assert!(list.push_front(Value::new(2, &counter)).is_ok());
        seen.store(list.len(), Ordering::SeqCst);
    });
    let first = list.pop_front().map(|first| first.number);
    other.join().unwrap();
    // Had both been present, the first would have been the other one.
    assert!(
        first == Some(2) || length.load(Ordering::SeqCst) == 1,
        "not the first"
    );
}

#[test]
fn the_first_is_taken() {
    holds("the first value", Many(700), fronts);
}

fn last_guards() {
    let dropped = Arc::new(AtomicUsize::new(0));
    let list = RefList::new();
    assert!(list.push_front(Value::new(1, &dropped)).is_ok());
    let list = Arc::new(list);
    let removed = Arc::new(AtomicUsize::new(0));
    let remove = |list: &RefList<Value>, removed: &AtomicUsize| {
        if let Some(value) = list.front() {
            removed.fetch_add(usize::from(list.remove(&value)), Ordering::SeqCst);
            value.look();
        }
    };
    let counter = Arc::clone(&removed);
    let other = beside(&list, move |list| remove(list, &counter));
    remove(&list, &removed);
    other.join().unwrap();
    assert_eq!(removed.load(Ordering::SeqCst), 1, "removed twice");
    assert_eq!(dropped.load(Ordering::SeqCst), 1, "not ended once");
}

#[test]
fn a_value_is_removed_and_ended_once() {
    holds("last guards", Many(700), last_guards);
    fails("last guards", "", ExchangeVersion, last_guards);
}

/// A resource for one visitor at a time.
#[derive(Default)]
struct Room {
    inside: bool,
    visits: u32,
}

fn rooms() {
    let list = OneVisitorList::new();
    for _ in 0..2 {
        assert!(list.push_front(Room::default()).is_ok());
    }
    let list = Arc::new(list);
    let visit = |room: &mut Room| {
        assert!(!room.inside, "two visitors");
        room.inside = true;
        step();
        room.inside = false;
        room.visits += 1;
    };
    let other = beside(&list, move |list| list.for_each(visit));
    let mut went = 0;
    list.retain(|room| {
        visit(room);
        went += u32::from(room.visits == 2);
        room.visits < 2
    });
    other.join().unwrap();
    assert_eq!(list.len() as u32, 2 - went);
}

#[test]
fn visitors_are_alone() {
    holds("one visitor at a time", Many(700), rooms);
    fails("one visitor at a time", "", ExchangeVersion, rooms);
}

fn pushes() {
    let list = Arc::new(OneVisitorList::new());
    let other = beside(&list, |list: &OneVisitorList<u32>| {
        assert!(list.push_front(1).is_ok());
    });
    assert!(list.push_front(2).is_ok());
    other.join().unwrap();
    assert_eq!(
        list.pop_front().zip(list.pop_front()).map(|(a, b)| a + b),
        Some(3)
    );
}

#[test]
fn every_order_of_two_pushes() {
    holds("two pushes", Every, pushes);
    fails("two pushes", "", ExchangeVersion, pushes);
}
