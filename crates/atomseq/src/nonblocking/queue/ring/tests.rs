use super::*;

/// Returns a ring of this many cells, if the processor supports it.
fn ring(capacity: usize) -> Option<Ring> {
    // SAFETY: called only if `has_double_width` returns `true`.
    crate::platform::has_double_width().then(|| unsafe { Ring::new(capacity) }.unwrap())
}

/// For each number of elements passed through each ring, a thread that was stopped for long stores
/// each old hint again.
#[test]
fn hints_may_be_late_by_any_number_of_rounds() {
    for capacity in 1..=9_u64 {
        for passed in 0..3 * capacity {
            for late in 0..=passed {
                for there in 0..=capacity {
                    let Some(ring) = ring(capacity as usize) else {
                        return;
                    };
                    let place =
                        |count| (count / capacity) * (ring.fixed.mask + 1) + count % capacity;
                    for number in 0..passed {
                        assert!(ring.push(number as usize));
                        assert_eq!(ring.pop(), Some(number as usize));
                    }
                    for number in 0..there {
                        assert!(ring.push(number as usize));
                    }
                    ring.tail.hint.store(place(late), Ordering::SeqCst);
                    ring.head.hint.store(place(late), Ordering::SeqCst);
                    assert_eq!(ring.search::<EMPTY>(place(late)), place(passed + there));
                    assert_eq!(ring.search::<FULL>(place(late)), place(passed));
                    assert_eq!(ring.len() as u64, there);
                    assert_eq!(ring.push(99), there < capacity);
                    ring.head.hint.store(place(late), Ordering::SeqCst);
                    let popped: Vec<usize> = std::iter::from_fn(|| ring.pop()).collect();
                    let pushed = (0..there as usize).chain((there < capacity).then_some(99));
                    assert!(popped.iter().copied().eq(pushed), "{popped:?}");
                }
            }
        }
    }
}

/// The ring has passed through enough rounds for places to use all their bits.
#[test]
fn a_late_hint_costs_few_looks() {
    let Some(ring) = ring(1000) else { return };
    for number in 0..100_900 {
        assert!(ring.push(number));
        assert_eq!(ring.pop(), Some(number));
    }
    ring.tail.hint.store(0, Ordering::SeqCst);
    assert_eq!(ring.count(ring.search::<EMPTY>(0)), 100_900);
    assert_eq!(ring.len(), 0);
}
