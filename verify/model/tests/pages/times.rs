//! The times of pages and descriptors: two concurrent trims, or two audits, each of which may be
//! delayed anywhere.

use std::cell::Cell;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::Duration;

use verify_model::controls::shuttle_thread as thread;

use super::free::{Free, PageState};
use super::moment::Moment;
use super::seen::{self, Seen};
use super::sync::{AtomicU32, AtomicU64, AtomicUsize, Ordering::SeqCst};
use super::unclaimed::{self, Look};
use super::{Orders, fails, holds};

const MANY: Orders = Orders::Many(10_000);

/// The control of trims was detected after 2,087 random orders.
const MORE: Orders = Orders::Many(50_000);

/// The time that must pass, in steps of the clock.
const TIME: u64 = 1;

/// When the clock is read.
#[derive(Clone, Copy)]
enum Reads {
    /// As the library does.
    WhereItMust,
    /// Before any state is loaded.
    Early,
}

/// How audits are numbered.
#[derive(Clone, Copy)]
enum Numbers {
    /// As the library does.
    EachItsOwn,
    AllTheSame,
}

/// The steps of a clock that all threads read.
struct Clock(AtomicU64);

impl Clock {
    fn now(&self) -> u64 {
        self.0.load(SeqCst)
    }

    fn step(&self) {
        self.0.fetch_add(1, SeqCst);
    }
}

/// Returns a reader of the clock for one look, which stores the time read last.
fn reader<'a>(
    clock: &'a Clock,
    reads: Reads,
    last: &'a Cell<u64>,
) -> impl Fn() -> Option<Moment> + 'a {
    let early = clock.now();
    move || {
        last.set(match reads {
            Reads::WhereItMust => clock.now(),
            Reads::Early => early,
        });
        Some(Moment::after(Duration::from_millis(last.get())))
    }
}

/// A page of one descriptor.
struct Page {
    word: AtomicU64,
    link: AtomicU32,
    seen: AtomicU64,
    clock: Clock,
    /// A time not later than when it was last freed.
    freed: AtomicU64,
    /// Whether no thread has used it since it was returned to the system. Not a model's step: it is
    /// recorded together with the step before.
    is_given_back: AtomicBool,
}

impl Free for Page {
    fn word(&self) -> &AtomicU64 {
        &self.word
    }

    fn link(&self, _index: usize) -> &AtomicU32 {
        &self.link
    }

    fn capacity(&self) -> usize {
        1
    }
}

impl Page {
    /// Follows `Trim::visit`. A thread that has freed a descriptor relies on its contents for the
    /// time.
    fn trim(&self, reads: Reads) {
        let read = Cell::new(0);
        let now = reader(&self.clock, reads, &read);
        let Some(word) = seen::free_for_longer(self, &self.seen, now, TIME as u32) else {
            return;
        };
        let taken = PageState {
            used: 1,
            ..word.next()
        };
        if !self.exchange(word, taken) {
            return;
        }
        let is_again = self.is_given_back.swap(true, SeqCst);
        assert!(!is_again, "returned to the system twice");
        // No other thread owns it now, so none has freed it since the clock was read.
        let freed = self.freed.load(SeqCst);
        let free_for = read.get() as i64 - freed as i64;
        assert!(free_for > TIME as i64, "returned after {free_for}");
        let free = PageState {
            first: 0,
            used: 0,
            ..taken.next()
        };
        Seen::given_back(free).note(&self.seen);
        self.word.store(free.word(), SeqCst);
    }

    fn use_once(&self) {
        if self.take_free(&mut [0]) == 1 {
            self.is_given_back.store(false, SeqCst);
            self.freed.store(self.clock.now(), SeqCst);
            self.put(0);
        }
    }
}

/// Returns a page that is free, and was used before.
fn page() -> Arc<Page> {
    Arc::new(Page {
        word: AtomicU64::new(0),
        link: AtomicU32::new(0),
        seen: AtomicU64::new(0),
        clock: Clock(AtomicU64::new(5)),
        freed: AtomicU64::new(0),
        is_given_back: AtomicBool::new(false),
    })
}

/// Two threads trim while the clock runs, and one uses the page.
fn trims(reads: Reads) {
    let page = page();
    page.use_once();
    let trimming = [(); 2].map(|()| {
        let page = Arc::clone(&page);
        thread::spawn(move || (0..2).for_each(|_| page.trim(reads)))
    });
    page.clock.step();
    page.use_once();
    (0..3).for_each(|_| page.clock.step());
    for trimming in trimming {
        trimming.join().unwrap();
    }
}

#[test]
fn no_page_goes_back_before_its_time() {
    holds("two trims", MANY, || trims(Reads::WhereItMust));
}

/// A delayed trim does not overwrite another trim's record that the page has no memory.
#[test]
fn a_page_that_nobody_uses_goes_back_once() {
    holds("a trim, and three others", MORE, || {
        let page = page();
        page.use_once();
        let trimming = [1, 4].map(|trims| {
            let page = Arc::clone(&page);
            thread::spawn(move || {
                for _ in 0..trims {
                    page.trim(Reads::WhereItMust);
                    (0..=TIME).for_each(|_| page.clock.step());
                }
            })
        });
        for trimming in trimming {
            trimming.join().unwrap();
        }
    });
}

#[test]
fn a_page_goes_back_early_if_the_clock_is_read_early() {
    fails("two trims, the clock read first", MORE, || {
        trims(Reads::Early);
    });
}

/// How an allocation begins, and what audits check.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Begins {
    /// As the library does.
    BetweenTwoVersions,
    /// The word is cleared first, and then one exchange makes the old allocation the new one.
    AtOnce,
    /// As the library does, but an audit records the time without checking whether the allocation
    /// lasts.
    Unasked,
}

/// A descriptor as audits see it.
struct Descriptor {
    version: AtomicUsize,
    unclaimed: AtomicU32,
    clock: Clock,
    /// A time not later than when the first allocation was last claimed.
    claimed: AtomicU64,
    /// When each allocation began. Not a model's step: it is recorded together with the step
    /// before.
    began: [std::sync::atomic::AtomicU64; 3],
}

impl Descriptor {
    /// Returns a descriptor allocated at version 1.
    fn new() -> Arc<Descriptor> {
        Arc::new(Descriptor {
            version: AtomicUsize::new(1),
            unclaimed: AtomicU32::new(0),
            clock: Clock(AtomicU64::new(5)),
            claimed: AtomicU64::new(5),
            began: [5, 0, 0].map(Into::into),
        })
    }

    fn claim(&self) {
        let now = self.clock.now();
        unclaimed::claim(&self.unclaimed);
        // Claims that an audit misses count for the next.
        self.claimed.store(now, SeqCst);
    }

    /// Makes the allocation of a version the next one, as an audit that has found it unclaimed.
    fn reclaim(&self, version: usize, begins: Begins) {
        let is_renewed = if begins == Begins::AtOnce {
            self.unclaimed.store(0, SeqCst);
            let next = version + 2;
            let exchange = self.version.compare_exchange(version, next, SeqCst, SeqCst);
            exchange.is_ok()
        } else {
            unclaimed::renew(&self.version, &self.unclaimed, version)
        };
        assert!(is_renewed);
        self.has_begun(version + 2);
    }

    /// Frees the allocation of a version, and allocates the next one.
    fn change_hands(&self, version: usize) {
        self.version.store(version + 1, SeqCst);
        let next = unclaimed::begin(&self.version, &self.unclaimed);
        assert_eq!(next, version + 2);
        self.has_begun(next);
    }

    fn has_begun(&self, version: usize) {
        // SAFETY: shuttle runs one thread at a time.
        let now = unsafe { self.clock.0.raw_load() };
        self.began[version / 2].store(now, SeqCst);
    }

    fn audit(&self, number: u32, reads: Reads, begins: Begins) {
        let version = self.version.load(SeqCst);
        if version.is_multiple_of(2) {
            return;
        }
        let began = self.began[version / 2].load(SeqCst);
        let claimed = match version {
            1 => self.claimed.load(SeqCst),
            _ => began,
        };
        let read = Cell::new(0);
        let look = Look::new(number, reader(&self.clock, reads, &read), TIME as u32);
        let is_current = || {
            let is_about_to_say_when = read.get() == 0;
            (begins == Begins::Unasked && is_about_to_say_when)
                || self.version.load(SeqCst) == version
        };
        if look.finds_unclaimed(&self.unclaimed, is_current) {
            let passed = read.get() as i64 - claimed as i64;
            assert!(passed > TIME as i64, "found after {passed}");
        }
    }
}

/// Two threads audit while the clock runs, and the owner claims.
fn audits(reads: Reads, numbers: Numbers) {
    let descriptor = Descriptor::new();
    let auditing = [0, 2].map(|first| {
        let descriptor = Arc::clone(&descriptor);
        thread::spawn(move || {
            for number in first..first + 2 {
                let number = match numbers {
                    Numbers::EachItsOwn => number,
                    Numbers::AllTheSame => 0,
                };
                descriptor.audit(number, reads, Begins::BetweenTwoVersions);
            }
        })
    });
    (0..2).for_each(|_| descriptor.clock.step());
    descriptor.claim();
    (0..2).for_each(|_| descriptor.clock.step());
    for auditing in auditing {
        auditing.join().unwrap();
    }
}

/// How one allocation follows another.
#[derive(Clone, Copy)]
enum Follows {
    Reclaimed,
    Freed,
}

/// Two threads audit while the clock runs, and two allocations follow the first.
fn allocations(begins: Begins, follows: [Follows; 2]) {
    let descriptor = Descriptor::new();
    let auditing = [0, 2].map(|first| {
        let descriptor = Arc::clone(&descriptor);
        thread::spawn(move || {
            for number in first..first + 2 {
                descriptor.audit(number, Reads::WhereItMust, begins);
            }
        })
    });
    let stepping = {
        let descriptor = Arc::clone(&descriptor);
        thread::spawn(move || (0..4).for_each(|_| descriptor.clock.step()))
    };
    for (follows, version) in follows.into_iter().zip([1, 3]) {
        match follows {
            Follows::Reclaimed => descriptor.reclaim(version, begins),
            Follows::Freed => descriptor.change_hands(version),
        }
    }
    for thread in auditing.into_iter().chain([stepping]) {
        thread.join().unwrap();
    }
}

#[test]
fn no_moment_outlasts_an_allocation() {
    use Follows::{Freed, Reclaimed};
    for follows in [[Reclaimed, Reclaimed], [Freed, Freed], [Freed, Reclaimed]] {
        holds("two audits of three allocations", MORE, move || {
            allocations(Begins::BetweenTwoVersions, follows);
        });
    }
}

/// A time that an audit records after the word was cleared counts against the new allocation.
#[test]
fn an_allocation_that_begins_at_once_is_found() {
    fails("an allocation in one exchange", MORE, || {
        allocations(Begins::AtOnce, [Follows::Reclaimed; 2]);
    });
}

#[test]
fn an_allocation_is_found_if_audits_do_not_ask_whether_theirs_lasts() {
    for follows in [Follows::Reclaimed, Follows::Freed] {
        fails("audits that do not ask", MORE, move || {
            allocations(Begins::Unasked, [follows; 2]);
        });
    }
}

#[test]
fn nothing_that_is_claimed_is_found() {
    holds("two audits", MANY, || {
        audits(Reads::WhereItMust, Numbers::EachItsOwn);
    });
}

#[test]
fn what_is_claimed_is_found_if_the_clock_is_read_early() {
    fails("two audits, the clock read first", MORE, || {
        audits(Reads::Early, Numbers::EachItsOwn);
    });
}

/// An audit that was delayed before it recorded the time cannot distinguish its own number from
/// another's.
#[test]
fn what_is_claimed_is_found_if_audits_have_no_numbers() {
    // About one order in 30,000 detects it.
    fails("two audits of one number", Orders::Many(2_000_000), || {
        audits(Reads::WhereItMust, Numbers::AllTheSame);
    });
}
