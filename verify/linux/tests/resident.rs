//! The memory use of large per-CPU structures: that of the CPUs that use them, plus what the
//! documentation names.
#![cfg(atomseq_sections)]

use atomseq::percpu::{Queue, Ring, Stack};
use verify_support::cpus::{allowed, move_to, pin};
use verify_support::proc::{kilobytes_in_memory, page};
use verify_support::processes::{Circumstances, in_fresh_process_under};
use verify_support::this_test;

/// The words of a CPU's part: one mebibyte.
const CAPACITY: usize = 1 << 17;

/// Further memory of the program: pages of the library that are touched for the first time.
const BESIDE: usize = 3;

/// Returns the exact number of resident pages of this process.
fn resident() -> usize {
    kilobytes_in_memory() * 1024 / page()
}

/// Returns how many more pages are resident after the action.
fn growth<R>(action: impl FnOnce() -> R) -> (R, usize) {
    let before = resident();
    let outcome = action();
    (outcome, resident().saturating_sub(before))
}

/// Runs `check` in a process without huge pages, which has made each of its requests once before.
fn check(test: &str, check: impl FnOnce()) {
    in_fresh_process_under(test, Circumstances::default(), || {
        // SAFETY: concerns this process alone.
        let result = unsafe { libc::prctl(libc::PR_SET_THP_DISABLE, 1, 0, 0, 0) };
        assert_eq!(result, 0);
        // Starts up, and registers this thread.
        Stack::<u64>::with_capacity_per_cpu(10)
            .push(1)
            .expect("room");
        resident();
        check();
    });
}

/// Fills this CPU's part, and then that of another CPU if this process may use one. Each takes the
/// part's memory, of which one page may be resident already.
fn check_parts<S: Sync>(structure: &S, push: impl Fn(&S, u64) -> bool + Sync) {
    let part = CAPACITY * 8 / page();
    let fill = || {
        let cpu = pin();
        (0..CAPACITY as u64).for_each(|value| assert!(push(structure, value)));
        assert!(!push(structure, 0), "this CPU's part is full");
        cpu
    };
    let allowed = allowed();
    let (here, taken) = growth(fill);
    println!("filled on CPU {here}: {taken} pages");
    assert!(
        (part - 1..=part + BESIDE).contains(&taken),
        "{taken} of {part}"
    );
    let Some(other) = allowed.into_iter().find(|&cpu| cpu != here as usize) else {
        return;
    };
    move_to(other);
    let (there, taken) = growth(fill);
    assert_eq!(there, other as i32);
    assert!(
        (part - 1..=part + BESIDE).contains(&taken),
        "{taken} of {part}"
    );
}

/// Two words in the slot of each possible CPU, and the gates of the two guard slots.
#[test]
fn a_ring_takes_a_page_a_cpu_and_the_memory_of_those_that_use_it() {
    check(this_test!(), || {
        let (ring, made) = growth(|| Ring::<u64>::with_capacity_per_cpu(CAPACITY));
        println!("made: {made} pages, {} CPUs", ring.cpus());
        assert!((ring.cpus()..=ring.cpus() + 2 + BESIDE).contains(&made));
        check_parts(&ring, |ring, value| ring.push(value).is_ok());
    });
}

/// The gates of the two guard slots.
#[test]
fn a_stack_takes_two_pages_and_the_memory_of_cpus_that_use_it() {
    check(this_test!(), || {
        let (stack, made) = growth(|| Stack::<u64>::with_capacity_per_cpu(CAPACITY));
        println!("made: {made} pages");
        assert!((2..=2 + BESIDE).contains(&made), "{made}");
        check_parts(&stack, |stack, value| stack.push(value).is_ok());
    });
}

/// A slot and 32 cells a CPU; then chunks of up to a mebibyte, of which the last is used in part.
/// The others are together no larger than the last, unless it is of the largest size.
#[test]
fn a_queue_takes_32_cells_a_cpu_and_chunks_for_those_that_use_it() {
    const CELL: usize = 24;
    check(this_test!(), || {
        let (queue, made) = growth(Queue::<u64>::new);
        let slots = (queue.cpus() + 2) * (128 + 32 * CELL) / page() + 1;
        println!("made: {made} pages, {} CPUs", queue.cpus());
        assert!(made <= slots + BESIDE, "{made} of {slots}");
        pin();
        let elements = 10 * CAPACITY;
        let ((), taken) = growth(|| {
            (0..elements as u64).for_each(|value| queue.push(value).expect("memory"));
        });
        let least = elements * CELL / page();
        let max = least + (1 << 20) / page() + BESIDE + least / 100;
        println!("filled: {taken} pages of {least}");
        assert!(
            (least..=max).contains(&taken),
            "{taken} of {least} to {max}"
        );
    });
}
