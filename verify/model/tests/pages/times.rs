//! The times of pages and descriptors: two trims, or two audits, at the same time, each of which may be held up anywhere.

use std::cell::Cell;
use std::sync::Arc;
use std::time::Duration;

use shuttle::thread;

use super::free::{Free, Word};
use super::moment::Moment;
use super::seen::{self, Seen};
use super::sync::{AtomicU32, AtomicU64, Ordering::SeqCst};
use super::unclaimed::Look;
use super::{Orders, fails, holds};

const MANY: Orders = Orders::Many(10_000);

/// The control of trims was found out after 2,087 orders drawn at random.
const MORE: Orders = Orders::Many(50_000);

/// What has to pass, in steps of the clock.
const TIME: u64 = 1;

/// When the clock is read.
#[derive(Clone, Copy)]
enum Reads {
    /// As in the library.
    WhereItMust,
    /// Before anything is looked at.
    Early,
}

/// How audits are numbered.
#[derive(Clone, Copy)]
enum Numbers {
    /// As in the library.
    EachItsOwn,
    AllTheSame,
}

/// Steps of a clock that all threads read.
struct Clock(AtomicU64);

impl Clock {
    fn now(&self) -> u64 {
        self.0.load(SeqCst)
    }

    fn step(&self) {
        self.0.fetch_add(1, SeqCst);
    }
}

/// A reader of the clock for one look, which keeps what it has read last.
fn reader<'a>(clock: &'a Clock, reads: Reads, last: &'a Cell<u64>) -> impl Fn() -> Moment + 'a {
    let early = clock.now();
    move || {
        last.set(match reads {
            Reads::WhereItMust => clock.now(),
            Reads::Early => early,
        });
        Moment::after(Duration::from_millis(last.get()))
    }
}

/// A page of one descriptor.
struct Page {
    word: AtomicU64,
    link: AtomicU32,
    seen: AtomicU64,
    clock: Clock,
    /// No later than when it was last freed.
    freed: AtomicU64,
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
    /// As `Trim::visit` does it. Whoever has freed a descriptor counts on its contents for the time.
    fn trim(&self, reads: Reads) {
        let read = Cell::new(0);
        let now = reader(&self.clock, reads, &read);
        let Some(word) = seen::free_for_longer(self, &self.seen, now, TIME as u32) else {
            return;
        };
        let taken = Word {
            used: 1,
            ..word.next()
        };
        if !self.exchange(word, taken) {
            return;
        }
        // Nobody else has it now, so nobody has freed it since the clock was read.
        let freed = self.freed.load(SeqCst);
        let free_for = read.get() as i64 - freed as i64;
        assert!(free_for > TIME as i64, "gone after {free_for}");
        let free = Word {
            first: 0,
            used: 0,
            ..taken.next()
        };
        Seen::given_back(free).note(&self.seen);
        self.word.store(free.word(), SeqCst);
    }

    fn use_once(&self) {
        if self.take_free(&mut [0]) == 1 {
            self.freed.store(self.clock.now(), SeqCst);
            self.put(0);
        }
    }
}

/// Two trim while the clock goes on, and one uses the page.
fn trims(reads: Reads) {
    let page = Arc::new(Page {
        word: AtomicU64::new(0),
        link: AtomicU32::new(0),
        seen: AtomicU64::new(0),
        clock: Clock(AtomicU64::new(5)),
        freed: AtomicU64::new(0),
    });
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

#[test]
fn a_page_goes_back_early_if_the_clock_is_read_early() {
    fails("two trims, the clock read first", MORE, || {
        trims(Reads::Early);
    });
}

/// A descriptor as audits see it.
struct Descriptor {
    unclaimed: AtomicU32,
    clock: Clock,
    /// No later than when it was last claimed.
    claimed: AtomicU64,
}

impl Descriptor {
    fn claim(&self) {
        let now = self.clock.now();
        self.unclaimed.store(0, SeqCst);
        // Claims that an audit misses count for the next.
        self.claimed.store(now, SeqCst);
    }

    fn audit(&self, number: u32, reads: Reads) {
        let claimed = self.claimed.load(SeqCst);
        let read = Cell::new(0);
        let look = Look::new(number, reader(&self.clock, reads, &read), TIME as u32);
        if look.finds_unclaimed(&self.unclaimed) {
            let passed = read.get() as i64 - claimed as i64;
            assert!(passed > TIME as i64, "found after {passed}");
        }
    }
}

/// Two audit while the clock goes on, and the owner claims.
fn audits(reads: Reads, numbers: Numbers) {
    let descriptor = Arc::new(Descriptor {
        unclaimed: AtomicU32::new(0),
        clock: Clock(AtomicU64::new(5)),
        claimed: AtomicU64::new(5),
    });
    let auditing = [0, 2].map(|first| {
        let descriptor = Arc::clone(&descriptor);
        thread::spawn(move || {
            for number in first..first + 2 {
                let number = match numbers {
                    Numbers::EachItsOwn => number,
                    Numbers::AllTheSame => 0,
                };
                descriptor.audit(number, reads);
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

/// One that was held up before it said when cannot tell its own number from another's.
#[test]
fn what_is_claimed_is_found_if_audits_have_no_numbers() {
    fails("two audits of one number", MORE, || {
        audits(Reads::WhereItMust, Numbers::AllTheSame);
    });
}
