//! Tests of `into_iter`.

use std::sync::Arc;

use crate::nonblocking::spsc::Ring;
use crate::nonblocking::{LinkedStack, OneVisitorList, Queue, RefList, Stack};

/// Checks that all values come out in this order, and that the remaining ones are dropped.
fn comes_apart<S>(in_order: bool)
where
    S: FromIterator<Box<(u32, Arc<()>)>> + IntoIterator<Item = Box<(u32, Arc<()>)>>,
{
    let alive = Arc::new(());
    let structure =
        |count| S::from_iter((0..count).map(|number| Box::new((number, alive.clone()))));
    let mut expected = Vec::from_iter(0..5);
    if !in_order {
        expected.reverse();
    }
    let all = structure(5).into_iter();
    let (min, max) = all.size_hint();
    assert!(min == 0 && max.is_none() || (min, max) == (5, Some(5)));
    let numbers: Vec<_> = all.map(|value| value.0).collect();
    assert_eq!(numbers, expected);
    let mut some = structure(5).into_iter();
    assert_eq!(some.next().map(|value| value.0), Some(expected[0]));
    assert_eq!(Arc::strong_count(&alive), 5);
    drop(some);
    let mut none = structure(0).into_iter();
    assert!(none.next().is_none() && none.next().is_none());
    drop(none);
    assert_eq!(Arc::strong_count(&alive), 1);
}

#[test]
fn values_come_out_in_the_order_of_their_structure() {
    comes_apart::<Stack<_>>(false);
    comes_apart::<Queue<_>>(true);
    comes_apart::<Ring<_>>(true);
    comes_apart::<LinkedStack<_>>(false);
    comes_apart::<RefList<_>>(false);
    comes_apart::<OneVisitorList<_>>(false);
}

#[test]
fn leaked_guards_and_visits_are_skipped_and_their_values_dropped() {
    let alive = Arc::new(());
    let numbers = || [1, 2, 3].map(|number| (number, alive.clone()));
    let list = RefList::from_iter(numbers());
    std::mem::forget(list.find(|value| value.0 == 2));
    let rest = list.into_iter().map(|value| value.0);
    assert_eq!(rest.collect::<Vec<_>>(), [3, 1]);
    assert_eq!(Arc::strong_count(&alive), 1);
    let list = OneVisitorList::from_iter(numbers());
    std::mem::forget(list.visit_first());
    let rest = list.into_iter().map(|value| value.0);
    assert_eq!(rest.collect::<Vec<_>>(), [2, 1]);
    assert_eq!(Arc::strong_count(&alive), 1);
}
