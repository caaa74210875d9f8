//! A stack returns every element once and in order, and drops those that remain.

use std::sync::Arc;

use super::*;

#[test]
fn a_stack_holds_at_most_its_capacity() {
    let stack = Stack::with_capacity_per_cpu(3);
    let mut refused = 0;
    for value in 0..100usize {
        refused += usize::from(stack.push(value).is_err());
    }
    let left: Vec<usize> = stack.drain().collect();
    assert_eq!(left.len() + refused, 100);
    assert!(left.len() >= 3 && left.len() <= 3 * stack.cpus());
    assert!(stack.is_empty());
}

#[test]
fn a_push_to_a_full_stack_returns_the_element() {
    let stack = Stack::with_capacity_per_cpu(1);
    let refused = (0..=stack.cpus()).find_map(|value| stack.push(Box::new(value)).err());
    assert!(refused.is_some());
}

#[test]
fn a_dropped_stack_drops_its_elements_once() {
    let shared = Arc::new(());
    let stack = Stack::with_capacity_per_cpu(8);
    for _ in 0..5 {
        stack.push(shared.clone()).unwrap();
    }
    drop(stack.pop().or_else(|| stack.steal()));
    assert_eq!(Arc::strong_count(&shared), 5);
    let mut drain = stack.drain();
    drop(drain.next());
    drop(drain);
    drop(stack);
    assert_eq!(Arc::strong_count(&shared), 1);
}

#[test]
fn invalid_capacities_are_refused() {
    assert_eq!(
        Stack::<usize>::try_with_capacity_per_cpu(0).unwrap_err(),
        Error::ZeroCapacity
    );
    assert_eq!(
        Stack::<usize>::try_with_capacity_per_cpu(usize::MAX).unwrap_err(),
        Error::TooLarge
    );
    assert_eq!(
        Stack::<usize>::try_with_capacity_per_cpu(usize::MAX / 32).unwrap_err(),
        Error::TooLarge
    );
    assert_eq!(
        Stack::<usize>::try_with_capacity_per_cpu(isize::MAX as usize / 1024).unwrap_err(),
        Error::OutOfMemory
    );
}

#[test]
fn every_word_of_a_batch_that_fits_is_stored() {
    let stack: Stack<usize> = Stack::with_capacity_per_cpu(4);
    let words = [1, 2, 3].map(ElementWord::new);
    let mut taken = [ElementWord::EMPTY; 8];
    assert_eq!(stack.push_words(&words), 3);
    let mut all = stack.pop_words(&mut taken);
    while let Some(_word) = stack.steal() {
        all += 1;
    }
    assert_eq!(all, 3);
}

/// Removes three elements of each CPU, those pushed last. The others are dropped with the stack.
#[test]
fn words_are_removed_from_an_exclusive_stack() {
    let shared = Arc::new(());
    let mut stack = Stack::with_capacity_per_cpu(8);
    let pushed: Vec<_> = (0..8)
        .map(|number| Arc::new((number, shared.clone())))
        .collect();
    for element in &pushed {
        stack.push(element.clone()).unwrap();
    }
    let mut left = 0;
    for cpu in 0..stack.cpus() {
        let there = stack.len_on(cpu);
        let mut words = [ElementWord::EMPTY; 3];
        let popped = stack.pop_words_from(cpu, &mut words);
        assert_eq!(popped, there.min(3));
        assert_eq!(stack.len_on(cpu), there - popped);
        left += there - popped;
        let numbers = words[..popped].iter().map(|word| {
            // SAFETY: `pop_words_from` has just returned these words, and each is converted once.
            unsafe { Arc::<(i32, Arc<()>)>::from_word(word.word()) }.0
        });
        assert!(numbers.is_sorted());
    }
    let are_on_it = || {
        pushed
            .iter()
            .filter(|element| Arc::strong_count(element) == 2)
            .count()
    };
    assert_eq!(are_on_it(), left);
    drop(stack);
    assert_eq!(are_on_it(), 0);
}
