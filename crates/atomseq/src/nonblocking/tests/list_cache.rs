//! Tests of `ListCache` under both mechanisms: in sequence, with write-backs, and by many threads.

use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::time::Duration;

use super::*;
use crate::type_stable::{Error, WriteBack, descriptor};

descriptor! {
    #[derive(Debug)]
    struct Thread {
        number: AtomicU64,
        /// A flag for each of the lists that it should be on, as the test sees it.
        taken: AtomicU64,
    }
}

impl Thread {
    fn number(&self) -> u64 {
        self.number.load(Ordering::SeqCst)
    }
}

type Threads<W> = ListCache<Thread, W, 2>;

/// A cache of 3 lists of link 0 and one of link 1.
fn cache_of<W: WriteBack<Member<Thread, 2>>>(
    mechanism: Mechanism,
    limit: usize,
    owner: W,
) -> Threads<W> {
    ListCache::forced(limit, [3, 1], owner, mechanism).unwrap()
}

fn load<W: WriteBack<Member<Thread, 2>>>(
    threads: &Threads<W>,
    number: u64,
) -> MemberInUse<'_, Thread, W, 2> {
    let thread = threads.load().unwrap();
    thread.number.store(number, Ordering::SeqCst);
    thread
}

fn numbers<W: WriteBack<Member<Thread, 2>>>(list: CacheList<'_, Thread, W, 2>) -> Vec<u64> {
    list.fold(Vec::new(), |mut numbers, thread| {
        numbers.push(thread.number());
        numbers
    })
}

#[test]
fn a_descriptor_is_on_one_list_of_each_link() {
    for mechanism in MECHANISMS {
        let threads = cache_of(mechanism, 100, |_: &Member<Thread, 2>| ());
        assert_eq!(threads.mechanism(), mechanism.or_kcas());
        let all: Vec<_> = (0..6).map(|number| load(&threads, number)).collect();
        for thread in &all {
            let list = threads.list(0, thread.number() as usize % 2);
            assert!(list.push_front(thread) && !list.push_front(thread));
            assert!(!threads.list(0, 2).push_back(thread), "on another one");
            assert!(threads.list(1, 0).push_back(thread));
        }
        assert_eq!(numbers(threads.list(0, 0)), [4, 2, 0]);
        assert_eq!(numbers(threads.list(0, 1)), [5, 3, 1]);
        assert!(threads.list(0, 2).is_empty() && threads.list(0, 2).pop_front().is_none());
        assert_eq!(numbers(threads.list(1, 0)), [0, 1, 2, 3, 4, 5]);

        // In the middle, at the end, at the front, and not on it.
        assert!(!threads.list(0, 1).remove(&all[2]) && threads.list(0, 0).remove(&all[2]));
        assert!(threads.list(0, 0).remove(&all[0]) && !threads.remove(0, &all[0]));
        assert!(threads.remove(0, &all[4]) && threads.list(0, 0).is_empty());
        assert_eq!(threads.list(0, 1).pop_front().unwrap().number(), 5);
        assert_eq!(numbers(threads.list(0, 1)), [3, 1]);
        assert_eq!(numbers(threads.list(1, 0)), [0, 1, 2, 3, 4, 5]);

        // From one list to another.
        assert!(threads.list(0, 2).push_back(&all[5]) && threads.list(0, 2).push_back(&all[2]));
        assert_eq!(numbers(threads.list(0, 2)), [5, 2]);
        let found = threads.list(1, 0).find(|thread| thread.number() == 3);
        assert!(threads.remove(1, &found.unwrap()));
        assert!(
            threads
                .list(1, 0)
                .find(|thread| thread.number() == 3)
                .is_none()
        );
        assert_eq!(numbers(threads.list(1, 0)), [0, 1, 2, 4, 5]);
        assert_eq!(
            format!("{:?}", threads.list(1, 0)),
            "CacheList { len: 5, .. }"
        );
    }
}

#[test]
fn insertions_keep_an_order() {
    for mechanism in MECHANISMS {
        let threads = cache_of(mechanism, 100, |_: &Member<Thread, 2>| ());
        for number in [5, 1, 3, 2, 4, 3] {
            let thread = load(&threads, number);
            let list = threads.list(0, 1);
            assert!(list.insert_before(&thread, |other| other.number() > number));
        }
        assert_eq!(numbers(threads.list(0, 1)), [1, 2, 3, 3, 4, 5]);
    }
}

/// The search for the place of an insertion ends at the descriptor itself, which was inserted
/// meanwhile.
#[test]
fn a_search_may_end_at_what_it_inserts() {
    for mechanism in MECHANISMS {
        let threads = cache_of(mechanism, 2, |_: &Member<Thread, 2>| ());
        let [one, two] = [1, 2].map(|number| load(&threads, number));
        let list = threads.list(0, 1);
        assert!(list.push_front(&one));
        let is_inserted = list.insert_before(&two, |_| {
            _ = list.push_back(&two);
            false
        });
        assert!(!is_inserted);
        assert_eq!(numbers(list), [1, 2]);
    }
}

/// What is written back or unloaded leaves all its lists, and the memory serves another load.
#[test]
fn what_leaves_the_cache_leaves_its_lists() {
    for mechanism in MECHANISMS {
        let written = Mutex::new(Vec::new());
        let threads = cache_of(mechanism, 3, |victim: &Member<Thread, 2>| {
            written.lock().unwrap().push(victim.number());
        });
        for number in 0..10 {
            let thread = load(&threads, number);
            assert!(threads.list(0, number as usize % 3).push_back(&thread));
            assert!(threads.list(1, 0).push_back(&thread));
        }
        assert_eq!(*written.lock().unwrap(), [0, 1, 2, 3, 4, 5, 6]);
        assert_eq!(numbers(threads.list(1, 0)), [7, 8, 9]);
        let lengths = [0, 1, 2].map(|number| threads.list(0, number).len());
        assert_eq!(lengths, [1, 1, 1]);

        let eight = threads.list(1, 0).find(|thread| thread.number() == 8);
        eight.unwrap().unload().unwrap();
        assert_eq!(numbers(threads.list(1, 0)), [7, 9]);
        assert!(threads.list(0, 2).is_empty());

        let seven = threads.list(0, 1).pop_front().unwrap();
        assert_eq!(threads.write_back(), 1, "one is in use");
        assert_eq!(numbers(threads.list(1, 0)), [7]);
        drop(seven);
        assert_eq!(threads.write_back(), 1);
        assert!(threads.list(1, 0).is_empty());
        assert_eq!(*written.lock().unwrap(), [0, 1, 2, 3, 4, 5, 6, 9, 7]);
    }
}

/// While a descriptor is being written back it is on no list, whatever the owner does.
#[test]
fn an_owner_finds_its_victim_on_no_list() {
    struct Owner<'a>(&'a Mutex<Vec<u64>>);
    impl WriteBack<Member<Thread, 2>> for Owner<'_> {
        fn write_back(&self, victim: &Member<Thread, 2>) {
            self.0.lock().unwrap().push(victim.number());
            assert!(victim.number() != 1, "the owner panics");
        }

        fn retire(&self, victim: &Member<Thread, 2>) {
            self.0.lock().unwrap().push(100 + victim.number());
        }
    }
    for mechanism in MECHANISMS {
        let calls = Mutex::new(Vec::new());
        let threads = cache_of(mechanism, 2, Owner(&calls));
        for number in [1, 2] {
            assert!(threads.list(1, 0).push_back(&load(&threads, number)));
        }
        // The first one's owner panics: its contents are lost, and it is free.
        let panicked = std::panic::AssertUnwindSafe(|| drop(threads.load()));
        assert!(std::panic::catch_unwind(panicked).is_err());
        assert_eq!(numbers(threads.list(1, 0)), [2]);
        assert!(threads.list(1, 0).push_back(&load(&threads, 3)));
        assert_eq!(numbers(threads.list(1, 0)), [2, 3]);
        assert_eq!(*calls.lock().unwrap(), [101, 1]);
        threads.list(1, 0).pop_front().unwrap().unload().unwrap();
        assert_eq!(*calls.lock().unwrap(), [101, 1, 102]);
    }
}

/// What exited threads had in use stays loaded and on its lists, and can be written back.
#[test]
#[cfg_attr(miri, ignore = "waits")]
fn an_audit_ends_uses_and_leaves_lists_as_they_are() {
    let time = Duration::from_millis(2);
    for mechanism in MECHANISMS {
        let threads = cache_of(mechanism, 3, |_: &Member<Thread, 2>| ());
        for number in 0..3 {
            let thread = load(&threads, number);
            assert!(threads.list(0, 0).push_back(&thread) && threads.list(1, 0).push_back(&thread));
            if number > 0 {
                std::mem::forget(thread);
            }
        }
        assert_eq!(threads.write_back(), 1);
        assert_eq!(threads.load().unwrap_err_or_unload(), None);
        let audit = || {
            std::thread::sleep(2 * time);
            // SAFETY: the only thread is here, and uses nothing.
            unsafe { threads.audit(time) }.unclaimed
        };
        assert_eq!([audit(), audit()], [0, 2], "{mechanism:?}");
        assert_eq!(numbers(threads.list(0, 0)), [1, 2]);
        assert_eq!(threads.write_back(), 2);
        assert!(threads.list(0, 0).is_empty() && threads.list(1, 0).is_empty());
    }
}

/// One thread does not go on in an unload, another one in a write-back. Both descriptors have left
/// their lists, and the audit frees them; a third one stays.
#[test]
#[cfg_attr(miri, ignore = "waits, and threads that never end")]
fn an_audit_frees_what_exited_threads_were_retiring() {
    #[derive(Default)]
    struct Owner {
        stopped: AtomicU64,
        retired: Mutex<Vec<u64>>,
        written: Mutex<Vec<u64>>,
    }
    impl Owner {
        /// Stops here the first time that this is called with the number.
        fn stop(&self, number: u64) {
            if self.stopped.fetch_or(1 << number, Ordering::SeqCst) & 1 << number == 0 {
                loop {
                    std::thread::park();
                }
            }
        }
    }
    impl WriteBack<Member<Thread, 2>> for Owner {
        fn write_back(&self, victim: &Member<Thread, 2>) {
            if victim.number() == 2 {
                self.stop(2);
            }
            self.written.lock().unwrap().push(victim.number());
        }

        fn retire(&self, victim: &Member<Thread, 2>) {
            if victim.number() == 1 {
                self.stop(1);
            }
            self.retired.lock().unwrap().push(victim.number());
        }
    }
    let time = Duration::from_millis(2);
    for mechanism in MECHANISMS {
        let threads = Box::leak(Box::new(cache_of(mechanism, 3, Owner::default())));
        let threads: &'static Threads<Owner> = threads;
        let [one, two, three] = [1, 2, 3].map(|number| {
            let thread = load(threads, number);
            assert!(threads.list(0, 0).push_back(&thread) && threads.list(1, 0).push_back(&thread));
            thread
        });
        drop(two);
        std::thread::spawn(|| one.unload().is_ok());
        std::thread::spawn(|| threads.write_back());
        while threads.owner().stopped.load(Ordering::SeqCst) != 0b110 {
            std::thread::yield_now();
        }
        assert_eq!(
            [0, 1].map(|link| numbers(threads.list(link, 0))),
            [[3], [3]]
        );
        let mut held = three;
        let mut audit = || {
            std::thread::sleep(2 * time);
            // The new use starts before the old one ends.
            held = held.loaded().get().unwrap();
            // SAFETY: the stopped threads do not go on. This one's use is new.
            unsafe { threads.audit(time) }.unclaimed
        };
        assert_eq!([audit(), audit()], [0, 2], "{mechanism:?}");
        let owner = threads.owner();
        // The first call for 1 did not return, nor did the first write-back of 2.
        assert_eq!(*owner.retired.lock().unwrap(), [2, 1, 2]);
        assert_eq!(*owner.written.lock().unwrap(), [2]);
        assert_eq!(
            [0, 1].map(|link| numbers(threads.list(link, 0))),
            [[3], [3]]
        );
        let free = [threads.load(), threads.load()];
        assert!(free.iter().all(Result::is_ok) && threads.load().is_err());
    }
}

trait Unload {
    fn unwrap_err_or_unload(self) -> Option<Error>;
}

impl<W: WriteBack<Member<Thread, 2>>> Unload for Result<MemberInUse<'_, Thread, W, 2>, Error> {
    fn unwrap_err_or_unload(self) -> Option<Error> {
        match self {
            Ok(thread) => thread.unload().map(|()| None).unwrap(),
            Err(error) => Some(error),
        }
    }
}

#[test]
fn numbers_of_lists_are_checked() {
    let owner = |_: &Member<Thread, 2>| ();
    assert_eq!(
        ListCache::try_new(1, [1, 0], owner).err(),
        Some(Error::Zero)
    );
    assert_eq!(
        ListCache::try_new(0, [1, 1], owner).err(),
        Some(Error::Zero)
    );
    let threads = ListCache::try_new(1, [2, 1], owner).unwrap();
    let others = ListCache::try_new(1, [2, 1], owner).unwrap();
    let thread = load(&others, 1);
    let panics =
        |act: &dyn Fn()| std::panic::catch_unwind(std::panic::AssertUnwindSafe(act)).is_err();
    assert!(panics(&|| _ = threads.list(2, 0).len()));
    assert!(panics(&|| _ = threads.list(1, 1).len()));
    assert!(panics(&|| _ = threads.list(1, 0).push_front(&thread)));
    assert!(panics(&|| _ = threads.remove(0, &thread)));
    assert_eq!(others.limit(), 1);
}

/// Threads load, insert, pop, remove and unload, in a cache that is too small: each descriptor is
/// popped once for each insertion, and none is found that is not loaded.
#[test]
#[cfg_attr(miri, ignore = "takes long to interpret")]
fn nothing_is_popped_twice_or_when_it_is_gone() {
    for mechanism in MECHANISMS {
        let retired = AtomicUsize::new(0);
        let threads = cache_of(mechanism, 12, |victim: &Member<Thread, 2>| {
            victim.number.store(0, Ordering::SeqCst);
            retired.fetch_add(1, Ordering::SeqCst);
        });
        let (done, next) = (AtomicBool::new(false), AtomicU64::new(1));
        std::thread::scope(|scope| {
            for lane in 0..3 {
                let (threads, done, next) = (&threads, &done, &next);
                scope.spawn(move || {
                    for step in 0..rounds(600 * SCALE) {
                        let lists = [threads.list(0, (step + lane) % 3), threads.list(1, 0)];
                        match (lane + step) % 4 {
                            0 | 1 => {
                                let Ok(new) = threads.load() else { continue };
                                new.number
                                    .store(next.fetch_add(1, Ordering::SeqCst), Ordering::SeqCst);
                                new.taken.store(0, Ordering::SeqCst);
                                for (link, list) in lists.iter().enumerate() {
                                    // Before it can be popped.
                                    new.taken.fetch_or(1 << link, Ordering::SeqCst);
                                    assert!(list.push_front(&new), "a new one is on no list");
                                }
                            }
                            2 => {
                                for (link, list) in lists.iter().enumerate() {
                                    let Some(popped) = list.pop_front() else {
                                        continue;
                                    };
                                    let before =
                                        popped.taken.fetch_and(!(1 << link), Ordering::SeqCst);
                                    assert!(before & 1 << link != 0, "popped twice");
                                    assert!(popped.number() != 0, "it was written back");
                                }
                            }
                            _ => {
                                if let Some(found) =
                                    lists[1].find(|thread| thread.number() % 3 == 0)
                                {
                                    assert!(found.number() != 0, "it was written back");
                                    if lists[1].remove(&found) {
                                        let before = found.taken.fetch_and(!2, Ordering::SeqCst);
                                        assert!(before & 2 != 0, "removed twice");
                                    }
                                    _ = found.unload();
                                }
                            }
                        }
                    }
                    done.store(true, Ordering::SeqCst);
                });
            }
            scope.spawn(|| {
                while !done.load(Ordering::SeqCst) {
                    threads.list(1, 0).fold(0, |count, _| {
                        assert!(count < 12, "more than there are");
                        count + 1
                    });
                    std::thread::yield_now();
                }
            });
        });
        threads.write_back();
        assert!(
            [0, 1, 2]
                .iter()
                .all(|number| threads.list(0, *number).is_empty())
        );
        assert!(threads.list(1, 0).is_empty() && retired.load(Ordering::SeqCst) > 0);
    }
}

/// A handler interrupts a thread in the middle of everything, and works on the same lists.
#[cfg(all(unix, not(miri)))]
#[test]
fn a_handler_uses_the_lists_of_the_interrupted_thread() {
    use std::sync::OnceLock;

    type Owner = fn(&Member<Thread, 2>);
    static THREADS: OnceLock<Threads<Owner>> = OnceLock::new();
    static HANDLED: AtomicU64 = AtomicU64::new(0);

    extern "C" fn handler(_: i32) {
        let threads = THREADS.get().expect("made before");
        let popped = threads.list(0, 0).pop_front();
        if let Some(thread) = popped {
            threads.list(1, 0).remove(&thread);
            assert!(threads.list(0, 0).push_front(&thread));
            _ = threads.list(1, 0).push_front(&thread);
        }
        HANDLED.fetch_add(1, Ordering::SeqCst);
    }

    let owner: Owner = |_| ();
    let threads = THREADS.get_or_init(|| ListCache::try_new(8, [3, 1], owner).unwrap());
    // SAFETY: the handler has the required signature, and accesses only statics.
    unsafe {
        libc::signal(
            libc::SIGWINCH,
            handler as extern "C" fn(i32) as libc::sighandler_t,
        )
    };
    // SAFETY: this thread.
    let this = unsafe { libc::pthread_self() } as usize;
    let done = AtomicBool::new(false);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            while !done.load(Ordering::SeqCst) {
                // SAFETY: the thread waits for this one, and the signal has a handler.
                unsafe { libc::pthread_kill(this as libc::pthread_t, libc::SIGWINCH) };
                std::thread::sleep(Duration::from_micros(50));
            }
        });
        let mut number = 0;
        while number < 2_000 || HANDLED.load(Ordering::SeqCst) < 20 {
            number += 1;
            let thread = load(threads, number);
            assert!(threads.list(0, number as usize % 3).push_back(&thread));
            _ = threads.list(1, 0).push_back(&thread);
            drop(thread);
            drop(threads.list(0, 1).pop_front());
        }
        done.store(true, Ordering::SeqCst);
    });
    threads.write_back();
    assert!(threads.list(0, 0).is_empty() && threads.list(1, 0).is_empty());
}
