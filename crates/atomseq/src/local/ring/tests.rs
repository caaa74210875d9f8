use std::fmt::Debug;
use std::sync::Arc;

use super::*;
use crate::local::points::testing::interrupted;

fn elements_come_back<T: Copy + PartialEq + Debug>(make: impl Fn(usize) -> T) {
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
fn elements_of_any_size_come_back() {
    elements_come_back(|value| value);
    elements_come_back(|value| value as u8);
    elements_come_back(|value| (value as u8, value as u32));
    elements_come_back(|value| (value, value as u8));
    elements_come_back(|value| [value as u16; 7]);
    elements_come_back(|value| [value, 2 * value, 3 * value]);
    elements_come_back(|value| [value; 33]);
    elements_come_back(|value| [value; 600]);
    elements_come_back(|value| value as u128);
    elements_come_back(|value| value as f32);
}

/// Whole words in size, but not in alignment: batches of them may lie at any even address.
#[test]
fn batches_lie_wherever_their_elements_may() {
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
fn elements_without_size_are_counted() {
    let ring: Ring<(), 4> = Ring::new();
    assert_eq!(ring.push_batch(&[(); 9]), 4);
    assert_eq!(ring.push(()), Err(()));
    assert_eq!((ring.pop(), ring.len()), (Some(()), 3));
    assert_eq!(ring.drain().count(), 3);
}

#[test]
fn aligned_elements_stay_aligned() {
    #[derive(Clone, Copy, PartialEq, Debug)]
    #[repr(align(64))]
    struct Line(u8);
    elements_come_back(|value| Line(value as u8));
    let ring: Ring<Line, 2> = Ring::new();
    assert!(ring.cell(1).is_aligned());
}

#[test]
fn holds_its_capacity_and_no_more() {
    let ring: Ring<u64, 8> = Ring::new();
    assert_eq!(ring.push_batch(&[1; 100]), 8);
    assert_eq!((ring.len(), ring.capacity()), (8, 8));
    assert_eq!(ring.push(2), Err(2));
    assert_eq!(ring.drain().count(), 8);
    assert!(ring.is_empty() && ring.pop().is_none());
}

#[test]
fn oldest_first_around_the_end_of_the_buffer() {
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
fn vectors_move_in_and_out() {
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
fn drops_what_it_holds_once() {
    let shared = Arc::new(());
    let ring: Ring<(Arc<()>, u8), 8> = Ring::new();
    for _ in 0..5 {
        ring.push((shared.clone(), 0)).unwrap();
    }
    // Around the end of the buffer.
    for _ in 0..6 {
        let element = ring.pop().unwrap();
        ring.push(element).unwrap();
    }
    drop(ring.pop());
    assert_eq!(Arc::strong_count(&shared), 5);
    drop(ring);
    assert_eq!(Arc::strong_count(&shared), 1);
}

/// Elements long enough for several sequences.
type Long = [usize; 6];
type Small = Ring<Long, 2>;

/// What an operation answers: what a push returned, or what pops returned.
type Answer = Vec<Long>;

/// What may happen to a ring, and its name.
type Operation = (&'static str, fn(&Small) -> Answer);

fn operations() -> Vec<Operation> {
    fn push(ring: &Small, value: usize) -> Answer {
        ring.push([value; 6]).err().into_iter().collect()
    }
    vec![
        ("nothing", |_| Answer::new()),
        ("push", |ring| push(ring, 7)),
        ("push two", |ring| [push(ring, 8), push(ring, 9)].concat()),
        ("push a batch", |ring| {
            vec![[ring.push_batch(&[[4; 6], [5; 6], [6; 6]]); 6]]
        }),
        ("pop", |ring| ring.pop().into_iter().collect()),
        ("pop a batch", |ring| {
            let mut out = [[0; 6]; 2];
            let count = ring.pop_batch(&mut out);
            // An attempt that an interruption made void leaves alone what the caller has there.
            assert!(out[count..].iter().all(|element| *element == [0; 6]));
            out[..count].to_vec()
        }),
        ("pop and push", |ring| {
            let mut answer: Answer = ring.pop().into_iter().collect();
            answer.extend(push(ring, 8));
            answer
        }),
        ("go around", |ring| {
            let mut answer = Answer::new();
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
    // Begin before the end of the buffer.
    ring.push([0; 6]).unwrap();
    ring.pop().unwrap();
    (0..count).for_each(|value| ring.push([value + 1; 6]).unwrap());
    ring
}

/// Answers of both, and what is left.
type Outcome = (Answer, Answer, Answer);

/// Operations that are one moment: a batch that crosses the end of the buffer is two.
fn is_one_moment(name: &str) -> bool {
    !matches!(name, "push a batch" | "pop a batch")
}

/// 160 interruptions.
#[test]
fn an_interruption_anywhere_is_one_before_or_after() {
    let mut interruptions = 0;
    for count in 0..=2 {
        for (name, operation) in operations()
            .into_iter()
            .filter(|(name, _)| is_one_moment(name))
        {
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
fn an_interruption_of_a_batch_loses_and_repeats_nothing() {
    let mut interruptions = 0;
    for count in 0..=2 {
        for (name, operation) in operations()
            .into_iter()
            .filter(|(name, _)| !is_one_moment(name))
        {
            for (others_name, other) in operations()
                .into_iter()
                .filter(|(name, _)| is_one_moment(name))
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
                    let left: Answer = ring.drain().collect();
                    // What is in comes out whole, each value once.
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

/// The same push without asking whether the tail has moved.
#[test]
fn a_push_that_does_not_look_is_found_out() {
    let spoiled = (0..20).any(|at| {
        let ring = filled(0);
        let handler = || ring.push([7; 6]).unwrap();
        let push = || {
            let (_, tail) = ring.state();
            let to = ring.cell(tail).cast::<usize>().cast_mut();
            for word in 0..6 {
                // SAFETY: within the buffer.
                unsafe { to.add(word).write_volatile(3) };
                point();
            }
            // SAFETY: this ring's tail.
            unsafe { advance::restarting(address(&ring) + TAIL, tail, tail + 1) }
        };
        interrupted(at, handler, push).is_some()
            && ring.drain().any(|element| element != [element[0]; 6])
    });
    assert!(spoiled, "a handler's element was never overwritten");
}
