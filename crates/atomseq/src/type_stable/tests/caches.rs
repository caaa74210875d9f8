//! Caches: which descriptor is replaced, which owner receives it, and that none is written back
//! while in use.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::AtomicBool;
use std::sync::{Barrier, Mutex};

use super::*;

/// Records what was written back.
#[derive(Default)]
struct Disk(Mutex<Vec<u64>>);

impl Disk {
    fn take(&self) -> Vec<u64> {
        std::mem::take(&mut self.0.lock().unwrap())
    }
}

impl WriteBack<AtomicU64> for &Disk {
    fn write_back(&self, victim: &AtomicU64) {
        self.0.lock().unwrap().push(victim.load(Relaxed));
    }
}

fn load<'a, W: WriteBack<AtomicU64>>(
    cache: &'a Cache<AtomicU64, W>,
    number: u64,
) -> Loaded<'a, AtomicU64, W> {
    let page = cache.load().unwrap();
    page.store(number, Relaxed);
    page.loaded()
}

#[test]
fn the_least_recently_used_goes() {
    let disk = Disk::default();
    let cache = Cache::try_new(3, &disk).unwrap();
    let [one, two, three] = [1, 2, 3].map(|number| load(&cache, number));
    for used in [three, one, two, one] {
        assert!(used.get().is_ok());
    }
    load(&cache, 4);
    assert_eq!(disk.take(), [3]);
    load(&cache, 5);
    assert_eq!(disk.take(), [2]);
    assert_eq!(one.get().unwrap().load(Relaxed), 1);
    assert!([two, three].map(|name| name.get().err()) == [Some(Gone::Unloaded); 2]);
    load(&cache, 6);
    assert_eq!(disk.take(), [4]);
}

#[test]
fn what_is_in_use_stays() {
    let disk = Disk::default();
    let cache = Cache::try_new(2, &disk).unwrap();
    let one = cache.load().unwrap();
    one.store(1, Relaxed);
    for number in 2..20 {
        load(&cache, number);
    }
    assert_eq!(disk.take(), (2..19).collect::<Vec<_>>());
    assert_eq!(one.load(Relaxed), 1);
    let _other = cache.load().unwrap();
    assert_eq!(disk.take(), [19]);
    assert_eq!(cache.load().err(), Some(Error::AllInUse));
    drop(one);
    assert!(cache.load().is_ok());
    assert_eq!(disk.take(), [1]);
}

#[test]
fn what_is_unloaded_is_not_written_back() {
    let disk = Disk::default();
    let cache = Cache::try_new(1, &disk).unwrap();
    let one = load(&cache, 1);
    let (first, second) = (one.get().unwrap(), one.get().unwrap());
    let first = first.unload().expect_err("another use exists");
    drop(second);
    first.unload().expect("no other use exists");
    assert_eq!(one.get().err(), Some(Gone::Unloaded));
    load(&cache, 2);
    assert_eq!(disk.take(), []);
}

#[test]
fn everything_goes_back_on_request_and_in_the_end() {
    let disk = Disk::default();
    let cache = Cache::try_new(10, &disk).unwrap();
    let names: Vec<_> = (0..5).map(|number| load(&cache, number)).collect();
    let used = names[2].get();
    assert_eq!(cache.write_back(), 4);
    let mut written = disk.take();
    written.sort_unstable();
    assert_eq!(written, [0, 1, 3, 4]);
    drop(used);
    drop(cache);
    assert_eq!(disk.take(), [2]);
}

#[test]
fn the_owner_may_choose() {
    /// Keeps even numbers.
    struct Odd(Disk);
    impl WriteBack<AtomicU64> for Odd {
        const COUNTS_USES: bool = false;
        fn write_back(&self, victim: &AtomicU64) {
            (&self.0).write_back(victim);
        }
        fn choose<'a>(
            &self,
            mut candidates: impl Iterator<Item = Candidate<'a, AtomicU64>>,
        ) -> Option<Candidate<'a, AtomicU64>> {
            candidates.find(|candidate| candidate.descriptor().load(Relaxed) % 2 == 1)
        }
    }
    let cache = Cache::try_new(3, Odd(Disk::default())).unwrap();
    for number in [2, 5, 4] {
        load(&cache, number);
    }
    load(&cache, 6);
    assert_eq!(cache.owner().0.take(), [5]);
    assert_eq!(cache.load().err(), Some(Error::AllInUse));
}

#[test]
fn a_panic_while_writing_back_frees_the_place() {
    let fails = AtomicBool::new(true);
    let cache = Cache::try_new(1, |_: &AtomicU64| assert!(!fails.load(Relaxed))).unwrap();
    let one = load(&cache, 1);
    assert!(catch_unwind(AssertUnwindSafe(|| cache.load().map(drop))).is_err());
    assert_eq!(one.get().err(), Some(Gone::Unloaded));
    assert!(cache.load().is_ok());
    fails.store(false, Relaxed);
}

/// A load is not reported as unloaded before its owner has received the contents.
#[test]
fn what_is_being_written_back_is_not_gone_yet() {
    let steps = Barrier::new(2);
    let disk = AtomicU64::new(0);
    let cache = Cache::try_new(1, |page: &AtomicU64| {
        steps.wait();
        steps.wait();
        disk.store(page.load(Relaxed), Relaxed);
    });
    let cache = cache.unwrap();
    let one = load(&cache, 7);
    std::thread::scope(|scope| {
        scope.spawn(|| drop(cache.load().unwrap().unload()));
        steps.wait();
        assert_eq!(one.get().err(), Some(Gone::BeingWrittenBack));
        assert_eq!(cache.write_back(), 0, "another thread does");
        steps.wait();
        while one.get().err() == Some(Gone::BeingWrittenBack) {
            std::thread::yield_now();
        }
        assert_eq!(disk.load(Relaxed), 7);
        assert_eq!(one.get().err(), Some(Gone::Unloaded));
    });
}

/// Threads add to numbers, loading them when needed. No addition is lost.
#[test]
fn what_is_loaded_again_is_what_was_written_back() {
    const NUMBERS: usize = 6;
    const ADDITIONS: u64 = crate::tests::rounds(3000) as u64;
    /// The number and its value.
    #[derive(Default)]
    struct Page([AtomicU64; 2]);
    // SAFETY: both words are atomics, for which zeros are valid at any time.
    unsafe impl Descriptor for Page {}
    let disk: [AtomicU64; NUMBERS] = Default::default();
    let owner = |page: &Page| {
        let [number, value] = page.0.each_ref().map(|word| word.load(Relaxed));
        // Widens the window between the load and the store.
        std::thread::yield_now();
        disk[number as usize].store(value, Relaxed);
    };
    let cache = Cache::try_new(3, owner).unwrap();
    let names: [Mutex<Option<Loaded<'_, Page, _>>>; NUMBERS] = Default::default();
    std::thread::scope(|scope| {
        for thread in 0..3 {
            let (cache, disk, names) = (&cache, &disk, &names);
            scope.spawn(move || {
                let mut added = 0;
                while added < ADDITIONS {
                    let number = (thread + added as usize) % NUMBERS;
                    let mut name = names[number].lock().unwrap();
                    let page = match name.as_ref().map_or(Err(Gone::Unloaded), Loaded::get) {
                        Ok(page) => page,
                        Err(Gone::BeingWrittenBack) => continue,
                        Err(Gone::Unloaded) => {
                            let Ok(page) = cache.load() else { continue };
                            page.0[0].store(number as u64, Relaxed);
                            page.0[1].store(disk[number].load(Relaxed), Relaxed);
                            *name = Some(page.loaded());
                            page
                        }
                    };
                    page.0[1].fetch_add(1, Relaxed);
                    added += 1;
                }
            });
        }
    });
    cache.write_back();
    let sum: u64 = disk.iter().map(|number| number.load(Relaxed)).sum();
    assert_eq!(sum, 3 * ADDITIONS);
}

#[test]
fn what_is_impossible_is_refused() {
    let limit = |limit| Cache::try_new(limit, |_: &AtomicU64| ()).map(|cache| cache.limit());
    assert_eq!(limit(0), Err(Error::Zero));
    assert_eq!(limit(usize::MAX), Err(Error::TooLarge));
    assert_eq!(limit(7), Ok(7));
}

/// Threads load more than fits. Each use sees the contents of its own load, and everything is
/// written back once.
#[test]
fn threads_share_a_cache() {
    const LOADS: u64 = crate::tests::rounds(3000) as u64;
    let disk = Disk::default();
    let cache = Cache::try_new(20, &disk).unwrap();
    std::thread::scope(|scope| {
        for thread in 0..4 {
            let cache = &cache;
            scope.spawn(move || {
                let mut names = Vec::new();
                for number in thread * LOADS..(thread + 1) * LOADS {
                    names.push((number, load(cache, number)));
                    let (number, name) = names[names.len() / 2];
                    if let Ok(used) = name.get() {
                        assert_eq!(used.load(Relaxed), number);
                    }
                }
            });
        }
    });
    drop(cache);
    let mut written = disk.take();
    written.sort_unstable();
    assert_eq!(written, (0..4 * LOADS).collect::<Vec<_>>());
}

/// The action of another thread in the middle of a search.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Act {
    EndsItsUse,
    Unloads,
    HasWrittenBack,
    PanicsInWriteBack,
}

/// Chooses the default victim. In the `at`-th call, counted from 0, the search meets an act before
/// it visits the candidates (point 0) or after (point 1).
struct Meeting {
    act: Act,
    at: usize,
    point: usize,
    calls: AtomicUsize,
    steps: Barrier,
}

impl Meeting {
    /// In the search: lets the other thread act, if this is the point.
    fn meet(&self) {
        self.steps.wait();
        self.steps.wait();
    }

    /// In the other thread: waits for the point.
    fn arrive(&self) {
        for _ in 0..=2 * self.point {
            self.steps.wait();
        }
    }

    /// In the other thread: reports that it has acted.
    fn leave(&self) {
        for _ in 2 * self.point + 1..4 {
            self.steps.wait();
        }
    }

    fn is_flush(&self) -> bool {
        matches!(self.act, Act::HasWrittenBack | Act::PanicsInWriteBack)
    }
}

impl WriteBack<AtomicU64> for &Meeting {
    fn write_back(&self, _: &AtomicU64) {
        if self.is_flush() {
            // From here on nothing can be loaded.
            self.steps.wait();
            self.arrive();
            assert_ne!(self.act, Act::PanicsInWriteBack, "the disk is full");
        }
    }

    fn choose<'a>(
        &self,
        candidates: impl Iterator<Item = Candidate<'a, AtomicU64>>,
    ) -> Option<Candidate<'a, AtomicU64>> {
        let meets = self.calls.fetch_add(1, Relaxed) == self.at;
        if meets {
            self.meet();
        }
        let chosen = candidates.min_by_key(Candidate::last_use);
        if meets {
            self.meet();
        }
        chosen
    }
}

/// A thread loads while another owns the only descriptor. In the middle of a failing search, the
/// other thread vacates it: in the first search, which is not yet announced, and in the second. 16
/// runs, one for each combination, none dependent on chance.
#[test]
fn what_becomes_vacant_during_a_search_is_found() {
    use Act::{EndsItsUse, HasWrittenBack, PanicsInWriteBack, Unloads};
    for act in [EndsItsUse, Unloads, HasWrittenBack, PanicsInWriteBack] {
        for (at, point) in [(0, 0), (0, 1), (1, 0), (1, 1)] {
            let (calls, steps) = (AtomicUsize::new(0), Barrier::new(2));
            let meeting = Meeting {
                act,
                at,
                point,
                calls,
                steps,
            };
            let cache = Cache::try_new(1, &meeting).unwrap();
            let used = cache.load().unwrap();
            std::thread::scope(|scope| {
                scope.spawn(|| {
                    if !meeting.is_flush() {
                        meeting.arrive();
                    }
                    match act {
                        Unloads => drop(used.unload()),
                        _ => drop(used),
                    }
                    if meeting.is_flush() {
                        let panics = catch_unwind(AssertUnwindSafe(|| cache.write_back())).is_err();
                        assert_eq!(panics, act == PanicsInWriteBack);
                    }
                    meeting.leave();
                });
                if meeting.is_flush() {
                    meeting.steps.wait();
                }
                let loaded = cache.load().map(|used| drop(used.unload()));
                assert_eq!(loaded, Ok(()), "{act:?}, search {at}, point {point}");
            });
        }
    }
}

/// Audits twice, with enough time in between, and returns how many descriptors each recovered.
fn audit_twice<W: WriteBack<AtomicU64>>(cache: &Cache<AtomicU64, W>) -> [usize; 2] {
    let time = std::time::Duration::from_millis(1);
    [0, 3].map(|pause| {
        std::thread::sleep(pause * time);
        // SAFETY: no other thread uses the cache, and no use that this one goes on with is as old
        // as an earlier audit.
        unsafe { cache.audit(time) }.unclaimed
    })
}

#[test]
#[cfg_attr(miri, ignore = "needs the time")]
fn an_audit_ends_uses_of_exited_threads_and_no_other() {
    let disk = Disk::default();
    let cache = Cache::try_new(2, &disk).unwrap();
    let one = load(&cache, 1);
    // As if two threads had exited with the descriptor in use.
    (0..2).for_each(|_| std::mem::forget(one.get().unwrap()));
    assert_eq!(audit_twice(&cache)[0], 0);
    // The second audit has ended both.
    assert_eq!(cache.write_back(), 1);
    assert_eq!(
        (disk.take(), one.get().err()),
        (vec![1], Some(Gone::Unloaded))
    );

    let two = load(&cache, 2);
    std::mem::forget(two.get().unwrap());
    let kept = two.get().unwrap();
    let time = std::time::Duration::from_millis(1);
    // A use that begins between two audits, as a live thread's must, and may last.
    for _ in 0..4 {
        let _again = kept.loaded().get().unwrap();
        // SAFETY: no other thread uses the cache. `kept` is older than an earlier audit, but no
        // audit ends it: each has found a new use of the descriptor since the one before.
        assert_eq!(unsafe { cache.audit(time) }.unclaimed, 0);
        std::thread::sleep(3 * time);
        assert_eq!(cache.write_back(), 0, "it is in use");
    }
    drop(kept);
    // The use of the exited thread is left. `audit_twice` sees it, and ends it.
    assert_eq!(audit_twice(&cache).iter().sum::<usize>(), 1);
    assert_eq!((cache.write_back(), disk.take()), (1, vec![2]));
}

/// An entry that is marked as seen in use is unloaded, evicted and used like any other.
#[test]
#[cfg_attr(miri, ignore = "needs the time")]
fn an_audit_changes_nothing_for_live_threads() {
    let disk = Disk::default();
    let cache = Cache::try_new(1, &disk).unwrap();
    let time = std::time::Duration::from_millis(1);
    for unloads in [true, false] {
        let page = cache.load().unwrap();
        page.store(7, Relaxed);
        let name = page.loaded();
        // SAFETY: no use is as old as an earlier audit.
        assert_eq!(unsafe { cache.audit(time) }.unclaimed, 0);
        assert!(cache.load().is_err());
        match unloads {
            true => page.unload().unwrap(),
            false => {
                drop(page);
                assert_eq!(cache.write_back(), 1);
                assert_eq!(disk.take(), [7]);
            }
        }
        assert_eq!(name.get().err(), Some(Gone::Unloaded));
    }
    assert!(disk.take().is_empty());
}

/// A thread does not go on in a write-back: the audit writes the same contents back, and the
/// descriptor is free.
#[test]
#[cfg_attr(miri, ignore = "needs the time, and a thread that never ends")]
fn an_audit_repeats_the_write_back_of_an_exited_thread() {
    static WRITTEN: Mutex<Vec<u64>> = Mutex::new(Vec::new());
    static STOPS: AtomicBool = AtomicBool::new(true);
    let cache = Cache::try_new(1, |victim: &AtomicU64| {
        if STOPS.swap(false, Relaxed) {
            loop {
                std::thread::park();
            }
        }
        WRITTEN.lock().unwrap().push(victim.load(Relaxed));
    });
    let cache: &'static Cache<AtomicU64, _> = Box::leak(Box::new(cache.unwrap()));
    let name = load(cache, 5);
    std::thread::spawn(|| cache.write_back());
    while name.get().err() != Some(Gone::BeingWrittenBack) || STOPS.load(Relaxed) {
        std::thread::yield_now();
    }
    assert_eq!(cache.load().err(), Some(Error::AllInUse));
    assert_eq!(audit_twice(cache), [0, 1]);
    assert_eq!(*WRITTEN.lock().unwrap(), [5]);
    assert_eq!(name.get().err(), Some(Gone::Unloaded));
    assert!(cache.load().is_ok());
}

#[test]
fn words_name_a_load() {
    let cache = Cache::try_new(1, |_: &AtomicU64| ()).unwrap();
    let other = Cache::try_new(1, |_: &AtomicU64| ()).unwrap();
    let words = load(&cache, 3).to_words();
    let found = cache.loaded_from_words(words).unwrap();
    assert_eq!(found.get().unwrap().load(Relaxed), 3);
    assert!(other.loaded_from_words(words).is_none());
    assert!(cache.loaded_from_words([0; 2]).is_none());
    // The next load of the same descriptor has another name.
    let next = load(&cache, 4).to_words();
    assert_eq!((words[0], words[1] != next[1]), (next[0], true));
    let gone = cache.loaded_from_words(words).unwrap().get();
    assert_eq!(gone.err(), Some(Gone::Unloaded));
}
