use std::sync::mpsc::channel;

use super::*;
use crate::sync::AtomicU64;

/// Takes a descriptor and leaves it. Returns its block.
fn use_one() -> &'static Block {
    let taken = take(1);
    let block = block(taken.index / PLACES);
    taken.leave();
    block
}

fn blocks() -> usize {
    COUNT.load(Ordering::Acquire)
}

#[test]
fn exited_threads_leave_their_blocks_to_others() {
    let before = blocks();
    for _ in 0..400 {
        std::thread::spawn(|| {
            (0..crate::tests::rounds(100)).for_each(|_| {
                use_one();
            });
        })
        .join()
        .unwrap();
    }
    // Threads of other tests allocate some meanwhile. If each thread kept its own, there would be
    // 400.
    let more = blocks() - before;
    assert!(
        more < 200,
        "{more} new blocks for 400 threads, one after the other"
    );
}

#[test]
fn a_handler_that_interrupts_a_take_takes_a_shared_descriptor() {
    let home = use_one();
    let thread = thread();
    let is_alone = platform::knows_who_has_ended();
    assert_eq!(home.owner.is(SHARED), !is_alone);
    let next = thread.owned.next.fetch_add(TAKING, Ordering::Relaxed);
    let in_handler = use_one();
    let again = use_one();
    assert!(in_handler.owner.is(SHARED) && again.owner.is(SHARED));
    assert_eq!(
        thread.owned.next.load(Ordering::Relaxed),
        next + TAKING,
        "the thread's place was left alone"
    );
    thread.owned.next.store(next, Ordering::Relaxed);
    assert_eq!(use_one().owner.is(SHARED), !is_alone);
}

#[test]
fn a_home_belongs_to_its_thread_until_that_exits() {
    if !platform::knows_who_has_ended() {
        return;
    }
    let (owns, thread_owns) = channel();
    let (end, ends) = channel();
    let other = std::thread::spawn(move || {
        owns.send((use_one(), thread().word())).unwrap();
        ends.recv().unwrap();
    });
    let (home, word) = thread_owns.recv().unwrap();
    use_one();
    let me = platform::thread_name().unwrap();
    assert!(home.owner.claim(me).is_none(), "its thread is alive");
    end.send(()).unwrap();
    other.join().unwrap();
    // A thread of another test may claim it first. The kernel reports the exit a little later.
    while home.owner.is(word) {
        match home.owner.claim(me) {
            Some(word) => home.owner.release(word),
            None => std::thread::yield_now(),
        }
    }
}

#[test]
fn a_home_whose_descriptors_are_all_taken_is_left() {
    let all: Vec<Taken> = (0..3 * PER_BLOCK).map(|_| take(1)).collect();
    let mut indices: Vec<usize> = all.iter().map(|taken| taken.index).collect();
    indices.sort_unstable();
    indices.dedup();
    assert_eq!(indices.len(), all.len(), "each was taken once");
    let mut numbers: Vec<usize> = indices.iter().map(|index| index / PLACES).collect();
    numbers.dedup();
    assert!(numbers.len() >= 3, "{numbers:?}");
    all.into_iter().for_each(Taken::leave);
}

/// With an owner, a block of the reserve would serve that thread alone, however many other threads
/// have no memory.
#[test]
fn a_block_of_the_reserve_is_no_threads_home() {
    let block = add_reserved().expect("other tests leave some");
    assert!(block.owner.is(SHARED));
    assert!(block.owner.claim(3 << 30).is_none());
}

#[test]
fn the_home_of_an_exited_thread_can_be_shared() {
    if !platform::knows_who_has_ended() {
        return;
    }
    let home = Owner::new();
    let me = platform::thread_name().unwrap();
    assert!(home.claim(me).is_some() && !home.reserve(SHARED));
    let home = Owner::new();
    let other = std::thread::scope(|scope| {
        let claim = || {
            let name = platform::thread_name().unwrap();
            home.claim(name).map(|_| name)
        };
        scope.spawn(claim).join().unwrap().unwrap()
    });
    // The kernel still knows a thread for a moment after it was joined.
    while !platform::has_ended(other) {
        std::thread::yield_now();
    }
    assert!(home.reserve(SHARED) && home.is(SHARED));
    assert!(home.claim(me).is_none() && !home.reserve(SHARED));
}

/// Changes of many words, one after the other, leave plain values in all of them, and no further
/// descriptor taken.
#[test]
fn words_keep_no_descriptor() {
    use crate::dcas::kcas::{MARK, begin, exchange};
    use crate::dcas::part::Part;

    let version = AtomicU64::new(1);
    let words: Vec<AtomicU64> = (0..1000).map(|_| AtomicU64::new(0)).collect();
    // A thread that stopped in a change, as in other tests, has left its descriptor taken in the
    // block that this one may have taken over.
    let taken = || {
        let home = thread().owned.block().or(thread().shared.block()).unwrap();
        let taken = home.descriptors.iter().filter(|it| it.is_taken());
        (!home.owner.is(SHARED)).then(|| taken.count())
    };
    let mut taken_at_first = None;
    for pair in words.chunks(2) {
        let part = |word| Part {
            word,
            old: 0,
            new: 7,
        };
        let parts = [part(&raw const pair[0]), part(&raw const pair[1])];
        // SAFETY: only this thread has the words, and all are 0 so far.
        assert!(unsafe { exchange(&version, begin(&version), &parts) });
        // SAFETY: only this thread has the words. The version has advanced, so the old values do
        // not matter.
        assert!(!unsafe { exchange(&version, 1, &parts) });
        taken_at_first = taken_at_first.or(Some(taken()));
    }
    assert!(words.iter().all(|word| word.load(Ordering::Relaxed) == 7));
    assert_eq!(version.load(Ordering::Relaxed), 501, "below {MARK}");
    assert_eq!(taken_at_first, Some(taken()));
}
