use std::sync::mpsc::channel;

use super::*;
use crate::sync::AtomicU64;

/// Changes a word, and so takes a descriptor.
fn change(word: &AtomicU64) -> &'static Block {
    let old = super::super::kcas::load(word);
    let mut parts = [super::super::kcas::Part {
        word,
        old,
        new: old + 1,
    }];
    // SAFETY: the word is this test's alone.
    assert!(unsafe { super::super::kcas::exchange(&mut parts) });
    let content = word.load(Ordering::Relaxed);
    block((content >> 10) as usize & (BLOCKS - 1))
}

fn release(word: &AtomicU64) {
    super::super::kcas::release(word.load(Ordering::Relaxed));
}

fn blocks() -> usize {
    COUNT.load(Ordering::Acquire)
}

#[test]
fn threads_that_have_ended_leave_their_blocks_to_others() {
    let before = blocks();
    for _ in 0..400 {
        std::thread::spawn(|| {
            let word = AtomicU64::new(0);
            (0..100).for_each(|_| {
                change(&word);
            });
            release(&word);
        })
        .join()
        .unwrap();
    }
    // The other tests' threads make some meanwhile. If each thread kept its own, it would be 400.
    let more = blocks() - before;
    assert!(
        more < 200,
        "{more} new blocks for 400 threads, one after the other"
    );
}

#[test]
fn a_handler_that_comes_while_a_descriptor_is_taken_takes_a_shared_one() {
    let word = AtomicU64::new(0);
    let home = change(&word);
    let thread = thread();
    let is_alone = platform::knows_who_has_ended();
    assert_eq!(home.tenancy.is(SHARED), !is_alone);
    let next = thread.home.next.fetch_add(TAKING, Ordering::Relaxed);
    let in_handler = change(&word);
    let again = change(&word);
    assert!(in_handler.tenancy.is(SHARED) && again.tenancy.is(SHARED));
    assert_eq!(
        thread.home.next.load(Ordering::Relaxed),
        next + TAKING,
        "the thread's place was left alone"
    );
    thread.home.next.store(next, Ordering::Relaxed);
    let after = change(&word);
    assert_eq!(after.tenancy.is(SHARED), !is_alone);
    release(&word);
}

#[test]
fn a_home_is_its_threads_until_that_has_ended() {
    if !platform::knows_who_has_ended() {
        return;
    }
    let word = AtomicU64::new(0);
    let (at_home, thread_is_at_home) = channel();
    let (end, ends) = channel();
    let other = std::thread::spawn(move || {
        let word = AtomicU64::new(0);
        at_home.send((change(&word), thread().tenant())).unwrap();
        ends.recv().unwrap();
        release(&word);
    });
    let (home, tenant) = thread_is_at_home.recv().unwrap();
    change(&word);
    let me = platform::thread_name().unwrap();
    assert!(home.tenancy.move_in(me).is_none(), "somebody lives there");
    end.send(()).unwrap();
    other.join().unwrap();
    // Unless another test's thread does before. The kernel says a little later that it has ended.
    while home.tenancy.is(tenant) {
        match home.tenancy.move_in(me) {
            Some(tenant) => home.tenancy.move_out(tenant),
            None => std::thread::yield_now(),
        }
    }
    release(&word);
}

#[test]
fn a_home_whose_descriptors_are_all_bound_is_left() {
    let words: Vec<AtomicU64> = (0..3 * PER_BLOCK).map(|_| AtomicU64::new(0)).collect();
    let mut numbers: Vec<usize> = words.iter().map(|word| change(word).number).collect();
    numbers.dedup();
    assert!(numbers.len() >= 3, "{numbers:?}");
    words.iter().for_each(release);
}
