//! A ring returns every element once and in order, and drops those that remain.

use std::sync::Arc;

use super::*;

fn everything<T: Send>(ring: &Ring<T>) -> Vec<T> {
    let mut all: Vec<T> = std::iter::from_fn(|| ring.pop()).collect();
    all.extend(ring.drain());
    all
}

fn elements_come_out_unchanged<T: Copy + Send + Ord + fmt::Debug>(make: impl Fn(usize) -> T) {
    let ring = Ring::with_capacity_per_cpu(100);
    let made: Vec<T> = (0..40).map(&make).collect();
    for round in 0..10 {
        for element in &made[..round] {
            ring.push(*element).unwrap();
        }
        assert_eq!(ring.push_batch(&made[round..]), 40 - round);
        let mut all = vec![make(99); 40];
        let popped = ring.pop_batch(&mut all);
        all.truncate(popped);
        all.extend(everything(&ring));
        all.sort_unstable();
        assert_eq!(all, made);
    }
}

#[test]
fn elements_of_any_size_come_out_unchanged() {
    elements_come_out_unchanged(|value| value);
    elements_come_out_unchanged(|value| value as u8);
    elements_come_out_unchanged(|value| (value as u8, value as u32));
    elements_come_out_unchanged(|value| (value, value as u8));
    elements_come_out_unchanged(|value| [value as u16; 7]);
    elements_come_out_unchanged(|value| [value; 33]);
    elements_come_out_unchanged(|value| value as u128);
}

#[test]
fn zero_sized_elements_are_counted() {
    let ring = Ring::with_capacity_per_cpu(3);
    let pushed = ring.push_batch(&[(); 3]);
    assert_eq!(everything(&ring).len(), pushed);
}

#[test]
fn a_capacity_above_the_maximum_distance_is_refused() {
    const MAX: usize = isize::MAX as usize;
    assert_eq!(Ring::<()>::with_capacity_per_cpu(MAX).capacity(), MAX);
    for capacity in [MAX + 1, usize::MAX] {
        let refused = Ring::<()>::try_with_capacity_per_cpu(capacity);
        assert_eq!(refused.err(), Some(Error::TooLarge));
    }
}

#[test]
fn a_ring_holds_at_most_its_capacity() {
    let ring = Ring::with_capacity_per_cpu(5);
    let pushed = ring.push_batch(&[1u64; 100]);
    assert!(pushed >= 5 && pushed <= 5 * ring.cpus());
    assert_eq!(ring.len(), pushed);
    assert_eq!(everything(&ring).len(), pushed);
}

#[test]
fn elements_stay_in_order_across_the_end_of_the_buffer() {
    let ring: Ring<usize> = Ring::with_capacity_per_cpu(4);
    let held = ring.area.close_gate(0);
    let mut next = 0;
    for round in 0..20usize {
        let values = [3 * round, 3 * round + 1, 3 * round + 2];
        let mut pushed = 0;
        while pushed < 3 {
            let from = values[pushed..].as_ptr() as usize;
            // SAFETY: the rest of the values at `from`, and `held` closes this slot.
            pushed += unsafe { push_batch::gated(&held, from, 3 - pushed, 1) };
        }
        while let Some(raw) = ring.take(&held) {
            // SAFETY: `take` has just returned it. Converting a number needs no open gate.
            let value = unsafe { ring.element(raw) };
            assert_eq!(value, next);
            next += 1;
        }
    }
    assert_eq!(next, 60);
}

#[test]
fn vectors_are_appended_and_filled() {
    let ring = Ring::with_capacity_per_cpu(8);
    let mut vector: Vec<String> = (0..10).map(|number| number.to_string()).collect();
    let pushed = ring.append(&mut vector);
    assert!(pushed >= 8 && vector.len() == 10 - pushed);
    let mut out = Vec::with_capacity(3);
    let popped = ring.pop_into(&mut out);
    assert!(popped <= 3 && out.len() == popped);
    assert_eq!(everything(&ring).len(), pushed - popped);
}

#[test]
fn a_dropped_ring_drops_its_elements_once() {
    let shared = Arc::new(());
    let ring = Ring::with_capacity_per_cpu(8);
    for _ in 0..5 {
        ring.push((shared.clone(), 0u8)).unwrap();
    }
    // Moves the head past the end of the buffer.
    for _ in 0..6 {
        if let Some(element) = ring.pop() {
            ring.push(element).unwrap();
        }
    }
    drop(ring.pop().or_else(|| ring.steal()));
    assert_eq!(Arc::strong_count(&shared), 5);
    drop(ring);
    assert_eq!(Arc::strong_count(&shared), 1);
}

#[test]
fn invalid_capacities_are_refused() {
    assert_eq!(
        Ring::<u8>::try_with_capacity_per_cpu(0).unwrap_err(),
        Error::ZeroCapacity
    );
    assert_eq!(
        Ring::<u8>::try_with_capacity_per_cpu(usize::MAX).unwrap_err(),
        Error::TooLarge
    );
    assert_eq!(
        Ring::<[u64; 1000]>::try_with_capacity_per_cpu(1).unwrap_err(),
        Error::TooLarge
    );
}
