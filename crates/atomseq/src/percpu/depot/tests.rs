use std::collections::BTreeSet;
use std::thread;

use super::*;

fn words(of: impl IntoIterator<Item = usize>) -> Vec<ElementWord> {
    of.into_iter().map(ElementWord::new).collect()
}

fn take(depot: &Depot) -> Vec<usize> {
    let mut batch = [ElementWord::EMPTY; LARGEST];
    let len = depot.take(&mut batch);
    // SAFETY: the depot has initialized the first `len` places.
    batch[..len]
        .iter()
        .map(|place| unsafe { place.word() })
        .collect()
}

#[test]
fn a_batch_comes_out_whole() {
    let depot = Depot::try_new(64, 2).unwrap();
    assert_eq!(depot.room(), LARGEST);
    assert_eq!(take(&depot), [0; 0]);
    assert!(depot.put(&words(0..31)) && depot.put(&words(100..101)));
    assert_eq!(depot.len(), 32);
    let mut both = [take(&depot), take(&depot)];
    both.sort();
    assert_eq!(both[0], (0..31).collect::<Vec<_>>());
    assert_eq!(both[1], [100]);
    assert_eq!((take(&depot), depot.len()), (vec![], 0));
}

#[test]
fn the_room_is_that_of_all_cpus_within_bounds() {
    for capacity in [1, 2, 3, 7, 64, 500, 1 << 20] {
        for cpus in [1, 2, 5, 48, 300] {
            let depot = Depot::try_new(capacity, cpus).unwrap();
            let batch = words(0..depot.room());
            let batches = (0..).take_while(|_| depot.put(&batch)).count();
            assert!((MIN_BATCHES..=MAX_BATCHES * cpus).contains(&batches));
            let max = (capacity * cpus).max(MIN_BATCHES * depot.room());
            assert!(depot.len() <= max, "{capacity} {cpus}: {}", depot.len());
            assert_eq!(depot.len(), batches * depot.room());
            let taken = (0..).take_while(|_| !take(&depot).is_empty()).count();
            assert_eq!(taken, batches);
        }
    }
}

#[test]
fn a_batch_larger_than_a_cell_is_refused() {
    let depot = Depot::try_new(4, 1).unwrap();
    assert_eq!(depot.room(), 3);
    assert!(!depot.put(&words(0..4)));
    assert!(depot.put(&words(0..3)));
}

/// The thread stops between its claim of a cell and the release.
#[test]
fn a_stopped_thread_withholds_one_cell_only() {
    let depot = Depot::try_new(64, 2).unwrap();
    let all = depot.cells_per_shelf;
    let mut inside = 0;
    depot.shelf(0).put(|_| {
        // Other threads, and handlers of this one, can use every other cell meanwhile.
        inside = (0..).take_while(|_| depot.put(&words(0..1))).count();
        assert_eq!(depot.shelf(0).take(|_| depot.len()), Some(inside - 1));
        while !take(&depot).is_empty() {}
    });
    assert_eq!(inside, all - 1);
}

#[test]
fn a_thread_that_exits_removes_one_cell_only() {
    let depot = Depot::try_new(64, 2).unwrap();
    assert!(depot.put(&words(1..4)) && depot.put(&words(4..5)));
    let exits = |inside: &dyn Fn()| {
        std::panic::catch_unwind(std::panic::AssertUnwindSafe(inside)).unwrap_err();
    };
    exits(&|| {
        _ = depot
            .shelf(0)
            .put(|_| panic!("exits while it fills a cell"))
    });
    exits(&|| {
        _ = depot
            .shelf(0)
            .take(|_| -> () { panic!("exits while it empties one") })
    });
    // Only the first of the two batches is lost.
    assert_eq!(take(&depot), [4]);
    assert_eq!(take(&depot), [0; 0]);
    let left = (0..).take_while(|_| depot.put(&words(0..1))).count();
    assert_eq!(left, depot.cells() - 2);
}

#[test]
fn concurrent_puts_and_takes_keep_every_word_once() {
    const THREADS: usize = 4;
    const ROUNDS: usize = if cfg!(miri) { 50 } else { 20_000 };
    // Twice as many cells as threads: often all cells are full, and often all are empty.
    let depot = Depot::try_new(4, THREADS).unwrap();
    let left: Vec<Vec<usize>> = thread::scope(|scope| {
        let work = |thread: usize| {
            let depot = &depot;
            move || {
                let mut mine: Vec<usize> = (0..30).map(|word| thread * 100 + word).collect();
                for round in 0..ROUNDS {
                    let len = (1 + round % depot.room()).min(mine.len());
                    let batch = mine.split_off(mine.len() - len);
                    if batch.is_empty() || !depot.put(&words(batch.iter().copied())) {
                        mine.extend(batch);
                    }
                    if round % 3 != 0 {
                        mine.extend(take(depot));
                    }
                }
                mine
            }
        };
        let threads: Vec<_> = (0..THREADS)
            .map(|thread| scope.spawn(work(thread)))
            .collect();
        threads
            .into_iter()
            .map(|thread| thread.join().unwrap())
            .collect()
    });
    let mut all: Vec<usize> = left.into_iter().flatten().collect();
    while let batch @ [_, ..] = &take(&depot)[..] {
        all.extend(batch);
    }
    let different: BTreeSet<_> = all.iter().collect();
    assert_eq!((all.len(), different.len()), (30 * THREADS, 30 * THREADS));
}
