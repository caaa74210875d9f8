//! Caches: what goes, to whom, and that nothing is written back while it is used.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Mutex;
use std::sync::atomic::AtomicBool;

use super::*;

/// What was written back.
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
    let cache = Cache::new(3, &disk).unwrap();
    let [one, two, three] = [1, 2, 3].map(|number| load(&cache, number));
    for used in [three, one, two, one] {
        assert!(used.get().is_some());
    }
    load(&cache, 4);
    assert_eq!(disk.take(), [3]);
    load(&cache, 5);
    assert_eq!(disk.take(), [2]);
    assert_eq!(one.get().unwrap().load(Relaxed), 1);
    assert!(two.get().is_none() && three.get().is_none());
    load(&cache, 6);
    assert_eq!(disk.take(), [4]);
}

#[test]
fn what_is_in_use_stays() {
    let disk = Disk::default();
    let cache = Cache::new(2, &disk).unwrap();
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
    let cache = Cache::new(1, &disk).unwrap();
    let one = load(&cache, 1);
    let (first, second) = (one.get().unwrap(), one.get().unwrap());
    let first = first.unload().expect_err("somebody else uses it");
    drop(second);
    first.unload().expect("nobody else uses it");
    assert!(one.get().is_none());
    load(&cache, 2);
    assert_eq!(disk.take(), []);
}

#[test]
fn everything_goes_back_on_request_and_in_the_end() {
    let disk = Disk::default();
    let cache = Cache::new(10, &disk).unwrap();
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
    let cache = Cache::new(3, Odd(Disk::default())).unwrap();
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
    let cache = Cache::new(1, |_: &AtomicU64| assert!(!fails.load(Relaxed))).unwrap();
    let one = load(&cache, 1);
    assert!(catch_unwind(AssertUnwindSafe(|| cache.load().map(drop))).is_err());
    assert!(one.get().is_none());
    assert!(cache.load().is_ok());
    fails.store(false, Relaxed);
}

#[test]
fn what_is_impossible_is_refused() {
    let limit = |limit| Cache::new(limit, |_: &AtomicU64| ()).map(|cache| cache.limit());
    assert_eq!(limit(0), Err(Error::Zero));
    assert_eq!(limit(usize::MAX), Err(Error::TooLarge));
    assert_eq!(limit(7), Ok(7));
}

/// Threads load more than there is room for. Whatever is used is what was loaded under that name, and everything
/// is written back once.
#[test]
fn threads_share_a_cache() {
    const LOADS: u64 = 3000;
    let disk = Disk::default();
    let cache = Cache::new(20, &disk).unwrap();
    std::thread::scope(|scope| {
        for thread in 0..4 {
            let cache = &cache;
            scope.spawn(move || {
                let mut names = Vec::new();
                for number in thread * LOADS..(thread + 1) * LOADS {
                    names.push((number, load(cache, number)));
                    let (number, name) = names[names.len() / 2];
                    if let Some(used) = name.get() {
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
