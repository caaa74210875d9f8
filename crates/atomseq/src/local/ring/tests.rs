use std::fmt::Debug;
use std::sync::Arc;

use super::*;
use crate::local::points::testing::interrupted;

fn elements_come_out_unchanged<T: Copy + PartialEq + Debug>(make: impl Fn(usize) -> T) {
    let ring: Ring<T, 64> = Ring::new();
    let made: Vec<T> = (0..40).map(&make).collect();
    for round in 0..10 {
        for element in &made[..round] {
            ring.push(*element).unwrap();
        }
        assert_eq!(ring.push_batch(&made[round..]), 40 - round);
        let mut all = vec![make(99); 25];
        assert_eq!(ring.pop_batch(&mut all), 25);
        all.extend(ring.drain());
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
    elements_come_out_unchanged(|value| [value, 2 * value, 3 * value]);
    elements_come_out_unchanged(|value| [value; 33]);
    elements_come_out_unchanged(|value| [value; 600]);
    elements_come_out_unchanged(|value| value as u128);
    elements_come_out_unchanged(|value| value as f32);
}

/// Elements that are whole words in size but not in alignment: a batch of them may lie at any even
/// address.
#[test]
fn batches_may_be_aligned_to_less_than_a_word() {
    #[repr(C, align(8))]
    struct Askew(u16, [[u16; 4]; 3]);
    let ring: Ring<[u16; 4], 4> = Ring::new();
    let from = Askew(0, [[1; 4], [2; 4], [3; 4]]);
    assert_eq!(ring.push_batch(&from.1), 3);
    let mut into = Askew(0, [[0; 4]; 3]);
    assert_eq!(ring.pop_batch(&mut into.1), 3);
    assert_eq!((into.0, into.1), (from.0, from.1));
}

#[test]
fn zero_sized_elements_are_counted() {
    let ring: Ring<(), 4> = Ring::new();
    assert_eq!(ring.push_batch(&[(); 9]), 4);
    assert_eq!(ring.push(()), Err(()));
    assert_eq!((ring.pop(), ring.len()), (Some(()), 3));
    assert_eq!(ring.drain().count(), 3);
}

#[test]
fn elements_keep_their_alignment() {
    #[derive(Clone, Copy, PartialEq, Debug)]
    #[repr(align(64))]
    struct Line(u8);
    elements_come_out_unchanged(|value| Line(value as u8));
    let ring: Ring<Line, 2> = Ring::new();
    assert!(ring.cell(1).is_aligned());
}

#[test]
fn a_push_to_a_full_ring_returns_the_element() {
    let ring: Ring<u64, 8> = Ring::new();
    assert_eq!(ring.push_batch(&[1; 100]), 8);
    assert_eq!((ring.len(), ring.capacity()), (8, 8));
    assert_eq!(ring.push(2), Err(2));
    assert_eq!(ring.drain().count(), 8);
    assert!(ring.is_empty() && ring.pop().is_none());
}

#[test]
fn elements_stay_in_order_across_the_end_of_the_buffer() {
    let ring: Ring<[usize; 5], 4> = Ring::new();
    let mut next = 0;
    for round in 0..20 {
        let values: Vec<_> = (3 * round..3 * round + 3).map(|value| [value; 5]).collect();
        assert_eq!(ring.push_batch(&values), 3);
        for value in ring.drain() {
            assert_eq!(value, [next; 5]);
            next += 1;
        }
    }
    assert_eq!(next, 60);
}

#[test]
fn vectors_are_appended_and_filled() {
    let ring: Ring<String, 8> = Ring::new();
    let mut vector: Vec<String> = (0..10).map(|number| number.to_string()).collect();
    assert_eq!(ring.append(&mut vector), 8);
    assert_eq!(vector, ["8", "9"]);
    let mut out = Vec::with_capacity(3);
    let popped = ring.pop_into(&mut out);
    assert_eq!(out, ["0", "1", "2", "3"][..popped]);
    assert!(popped >= 3);
    assert_eq!(ring.drain().count(), 8 - popped);
}

#[test]
fn a_dropped_ring_drops_its_elements_once() {
    let shared = Arc::new(());
    let ring: Ring<(Arc<()>, u8), 8> = Ring::new();
    for _ in 0..5 {
        ring.push((shared.clone(), 0)).unwrap();
    }
    // Moves the head past the end of the buffer.
    for _ in 0..6 {
        let element = ring.pop().unwrap();
        ring.push(element).unwrap();
    }
    drop(ring.pop());
    assert_eq!(Arc::strong_count(&shared), 5);
    drop(ring);
    assert_eq!(Arc::strong_count(&shared), 1);
}

/// Elements that take several sequences.
type Long = [usize; 6];
type Small = Ring<Long, 2>;

/// The result of an operation: the elements that a push or pops returned.
type Returned = Vec<Long>;

/// A name, and an operation on a ring.
type Operation = (&'static str, fn(&Small) -> Returned);

fn operations() -> Vec<Operation> {
    fn push(ring: &Small, value: usize) -> Returned {
        ring.push([value; 6]).err().into_iter().collect()
    }
    vec![
        ("nothing", |_| Returned::new()),
        ("push", |ring| push(ring, 7)),
        ("push two", |ring| [push(ring, 8), push(ring, 9)].concat()),
        ("push a batch", |ring| {
            vec![[ring.push_batch(&[[4; 6], [5; 6], [6; 6]]); 6]]
        }),
        ("pop", |ring| ring.pop().into_iter().collect()),
        ("pop a batch", |ring| {
            let mut out = [[0; 6]; 2];
            let count = ring.pop_batch(&mut out);
            // An attempt that an interruption invalidated leaves the rest of the caller's slice
            // unchanged.
            assert!(out[count..].iter().all(|element| *element == [0; 6]));
            out[..count].to_vec()
        }),
        ("pop and push", |ring| {
            let mut answer: Returned = ring.pop().into_iter().collect();
            answer.extend(push(ring, 8));
            answer
        }),
        ("go around", |ring| {
            let mut answer = Returned::new();
            for value in 20..23 {
                answer.extend(push(ring, value));
                answer.extend(ring.pop());
            }
            answer
        }),
    ]
}

fn filled(count: usize) -> Small {
    let ring = Small::new();
    // Starts in the middle of the buffer, so that operations cross its end.
    ring.push([0; 6]).unwrap();
    ring.pop().unwrap();
    (0..count).for_each(|value| ring.push([value + 1; 6]).unwrap());
    ring
}

/// The results of both operations, and the elements left in the ring.
type Outcome = (Returned, Returned, Returned);

/// Returns whether an operation takes effect at one moment. A batch that crosses the end of the
/// buffer takes effect in two steps.
fn is_atomic(name: &str) -> bool {
    !matches!(name, "push a batch" | "pop a batch")
}

/// 160 interruptions.
#[test]
fn an_interrupted_operation_is_serializable() {
    let mut interruptions = 0;
    for count in 0..=2 {
        for (name, operation) in operations().into_iter().filter(|(name, _)| is_atomic(name)) {
            if matches!(name, "push two" | "pop and push" | "go around") {
                continue;
            }
            for (others_name, other) in operations() {
                let serially = |other_first: bool| -> Outcome {
                    let ring = filled(count);
                    let (mine, others) = if other_first {
                        let others = other(&ring);
                        (operation(&ring), others)
                    } else {
                        let mine = operation(&ring);
                        (mine, other(&ring))
                    };
                    (mine, others, ring.drain().collect())
                };
                let legal = [serially(true), serially(false)];
                for at in 0.. {
                    let ring = filled(count);
                    let mut others = None;
                    let handler = || others = Some(other(&ring));
                    let Some(mine) = interrupted(at, handler, || operation(&ring)) else {
                        break;
                    };
                    interruptions += 1;
                    let outcome = (mine, others.unwrap(), ring.drain().collect());
                    assert!(
                        legal.contains(&outcome),
                        "{name}, interrupted at {at} by {others_name}, with {count} there: {outcome:?}, \
                         not one of {legal:?}"
                    );
                }
            }
        }
    }
    assert!(interruptions > 100, "only {interruptions}");
}

/// 180 interruptions.
#[test]
fn an_interrupted_batch_keeps_every_element_once() {
    let mut interruptions = 0;
    for count in 0..=2 {
        for (name, operation) in operations()
            .into_iter()
            .filter(|(name, _)| !is_atomic(name))
        {
            for (others_name, other) in operations().into_iter().filter(|(name, _)| is_atomic(name))
            {
                for at in 0.. {
                    let ring = filled(count);
                    let mut others = None;
                    let handler = || others = Some(other(&ring));
                    let Some(mine) = interrupted(at, handler, || operation(&ring)) else {
                        break;
                    };
                    interruptions += 1;
                    let mut all = others.unwrap();
                    let left: Returned = ring.drain().collect();
                    // Each value leaves the ring once and whole.
                    if name == "push a batch" {
                        let pushed = mine[0][0];
                        let batch = |element: &&Long| (4..=6).contains(&element[0]);
                        let there = all.iter().chain(&left).filter(batch).count();
                        assert_eq!(there, pushed, "{name} at {at}, {others_name}");
                    } else {
                        all.extend(mine);
                    }
                    all.extend(left);
                    let mut values: Vec<usize> = all.iter().map(|element| element[0]).collect();
                    values.sort_unstable();
                    values.dedup();
                    assert_eq!(
                        values.len(),
                        all.len(),
                        "{name} at {at}, {others_name}: {all:?}"
                    );
                    assert!(all.iter().all(|element| *element == [element[0]; 6]));
                    assert!((1..=count).all(|value| values.contains(&value)));
                }
            }
        }
    }
    assert!(interruptions > 100, "only {interruptions}");
}

/// The control: a push that does not check whether the tail has moved.
#[test]
fn a_push_without_the_check_is_detected() {
    let spoiled = (0..20).any(|at| {
        let ring = filled(0);
        let handler = || ring.push([7; 6]).unwrap();
        let push = || {
            let (_, tail) = ring.state();
            let to = ring.cell(tail).cast::<usize>().cast_mut();
            for word in 0..6 {
                // SAFETY: the word lies within the element at the tail.
                unsafe { to.add(word).write_volatile(3) };
                point();
            }
            // SAFETY: the address of this ring's tail.
            unsafe { advance::restarting(address(&ring) + TAIL, tail, tail + 1) }
        };
        interrupted(at, handler, push).is_some()
            && ring.drain().any(|element| element != [element[0]; 6])
    });
    assert!(spoiled, "a handler's element was never overwritten");
}
