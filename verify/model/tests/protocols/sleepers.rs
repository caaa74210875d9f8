//! Threads that sleep, for a lock, a permit or a notification: none sleeps indefinitely, and
//! nothing is given twice. Each thread releases what it holds only once, so that a thread that
//! loses a wake-up is the last to send one.

use std::sync::Arc;

use crate::lock::{lock, unlock};
use crate::parking::Flag;
use crate::sync::Size::{Huge, Large, Small};
use crate::sync::{AtomicU32, Mutex, Ordering, Plain, Size, fence, thread};
use crate::sync::{fails, holds, wait, wait_shortly, wake_the_last_first};
use crate::{notification, parking, permits};

/// Which of the two fences between a flag and an announcing waiter are in force.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Fences {
    /// An interlocked exchange on either side.
    Both,
    /// The holder stores and looks, while the store may stay in its buffer; `waiter_barrier` drains
    /// all buffers.
    Asymmetric,
    /// The same, and `waiter_barrier` does nothing.
    Neither,
}

/// A flag, and a word for its waiters.
struct Lock {
    flag: AtomicU32,
    word: AtomicU32,
    /// The holder's CPU: an interruption by `waiter_barrier` comes before or after its store, not
    /// in the middle.
    cpu: Mutex<()>,
    fences: Fences,
}

/// The values of a flag: clear; set; or clear, but so far only the CPU of its last holder sees
/// that.
const CLEAR: u32 = 0;
const SET: u32 = 1;
const BUFFERED: u32 = 2;

impl Flag for Lock {
    fn test_and_set(&self) -> bool {
        let (ours, others) = (Ordering::Acquire, Ordering::Relaxed);
        // Acquire: pairs with the Release in `drain`, or in `clear_then_look`.
        self.flag.compare_exchange(CLEAR, SET, ours, others).is_ok()
    }

    fn is_set(&self) -> bool {
        self.flag.load(Ordering::Relaxed) != CLEAR
    }

    fn waiter_barrier(&self) {
        fence(Ordering::SeqCst);
        if self.fences == Fences::Asymmetric {
            let _interrupted = self.cpu.lock().unwrap();
            self.drain();
        }
    }

    unsafe fn clear_then_look(&self) {
        if self.fences == Fences::Both {
            // Release: pairs with the Acquire in `test_and_set`.
            self.flag.store(CLEAR, Ordering::Release);
            fence(Ordering::SeqCst);
        } else {
            let _between_interrupts = self.cpu.lock().unwrap();
            self.flag.store(BUFFERED, Ordering::Release);
        }
    }

    fn blocks(&self) {}

    fn handed_over(&self) {}
}

impl Lock {
    fn new(fences: Fences) -> Lock {
        Lock {
            flag: AtomicU32::new(CLEAR),
            word: AtomicU32::new(parking::NO_WAITER),
            cpu: Mutex::new(()),
            fences,
        }
    }

    /// Makes a buffered store visible to all.
    fn drain(&self) {
        let (drained, nothing) = (Ordering::AcqRel, Ordering::Relaxed);
        // AcqRel: passes the previous holder's writes on to the next one.
        let _ = self
            .flag
            .compare_exchange(BUFFERED, CLEAR, drained, nothing);
    }

    fn release(&self) {
        // SAFETY: the caller holds it.
        unsafe { parking::release(self, &self.word) }
        self.end();
    }

    fn hand_over(&self) {
        // SAFETY: the caller holds it.
        unsafe { parking::hand_over(self, &self.word) }
        self.end();
    }

    /// Makes every store visible at the end.
    fn end(&self) {
        if self.fences != Fences::Both {
            self.drain();
        }
    }
}

/// How a thread waits, and how it gives up.
#[derive(Clone, Copy)]
enum Patience {
    Endless,
    /// Sleeps once.
    Short,
    /// The same, and ends its wait immediately after it slept, as `acquire` forbids.
    GivesUpAsleep,
}

impl Patience {
    fn sleep(self) -> impl FnMut(&AtomicU32, u32) -> bool {
        let mut sleep = self.sleep_until_woken();
        move |word, expected| sleep(word, expected).is_some()
    }

    /// Returns `None` at its end, else whether the thread was woken.
    fn sleep_until_woken(self) -> impl FnMut(&AtomicU32, u32) -> Option<bool> {
        let mut slept = false;
        move |word, expected| match self {
            Patience::Endless => Some(wait(word, expected)),
            Patience::Short => {
                (!std::mem::replace(&mut slept, true)).then(|| wait_shortly(word, expected))
            }
            Patience::GivesUpAsleep => {
                wait_shortly(word, expected);
                None
            }
        }
    }
}

/// Runs the first of these on this thread, the others on threads of their own, until they return.
fn together<S: Send + Sync + 'static>(shared: S, work: &[fn(&S)]) -> Arc<S> {
    together_on(Arc::new(shared), work)
}

/// The same, on a state that other threads have used before.
fn together_on<S: Send + Sync + 'static>(shared: Arc<S>, work: &[fn(&S)]) -> Arc<S> {
    let others: Vec<_> = work[1..]
        .iter()
        .map(|work| {
            let (shared, work) = (shared.clone(), *work);
            thread::spawn(move || work(&shared))
        })
        .collect();
    work[0](&shared);
    for other in others {
        other.join().unwrap();
    }
    shared
}

/// A lock, a sum that it guards, and the number of additions.
type Counted = (Lock, Plain, AtomicU32);

fn add((lock, sum, additions): &Counted, patience: Patience, give: fn(&Lock)) {
    if parking::acquire(lock, &lock.word, patience.sleep()) {
        let before = sum.get();
        sum.pause();
        sum.set(before + 1);
        additions.fetch_add(1, Ordering::Relaxed);
        give(lock);
    }
}

const ADDS: fn(&Counted) = |counted| add(counted, Patience::Endless, Lock::release);
const ADDS_IN_TIME: fn(&Counted) = |counted| add(counted, Patience::Short, Lock::release);
const HANDS_OVER: fn(&Counted) = |counted| add(counted, Patience::Endless, Lock::hand_over);
const HANDS_OVER_IN_TIME: fn(&Counted) = |counted| add(counted, Patience::Short, Lock::hand_over);
const GIVES_UP_ASLEEP: fn(&Counted) =
    |counted| add(counted, Patience::GivesUpAsleep, Lock::release);

/// Each of these adds one at most, and all of them complete.
fn all_add(fences: Fences, work: &[fn(&Counted)]) {
    let counted = together((Lock::new(fences), Plain::new(0), AtomicU32::new(0)), work);
    let additions = counted.2.load(Ordering::Relaxed) as usize;
    assert_eq!(counted.1.get(), additions, "additions lost");
    assert_eq!(counted.0.flag.load(Ordering::Relaxed), 0, "still locked");
}

const SLEEPS_ON: &str = "deadlock";

#[test]
fn whoever_waits_for_a_lock_gets_it() {
    let model = |fences: Fences, size: Size, work: &'static [fn(&Counted)], name: &str| {
        holds(&format!("parking: {name}"), size, move || {
            all_add(fences, work)
        });
    };
    let both = |size, work, name| model(Fences::Both, size, work, name);
    both(Small, &[ADDS, ADDS], "two waiters");
    both(Large, &[ADDS, ADDS, ADDS], "three waiters");
    both(Large, &[ADDS, ADDS_IN_TIME, ADDS], "one gives up");
    both(
        Huge,
        &[ADDS, ADDS, ADDS_IN_TIME, ADDS],
        "one of four gives up",
    );
    both(Large, &[HANDS_OVER, ADDS], "handed over");
    both(Large, &[HANDS_OVER, HANDS_OVER, ADDS], "handed on");
    both(
        Large,
        &[HANDS_OVER, HANDS_OVER_IN_TIME, ADDS],
        "handed over to a waiter that gives up",
    );
    let asymmetric = |size, work, name| model(Fences::Asymmetric, size, work, name);
    asymmetric(Large, &[ADDS, ADDS], "two waiters, asymmetric");
    asymmetric(Huge, &[ADDS, ADDS, ADDS], "three waiters, asymmetric");
    asymmetric(
        Huge,
        &[ADDS, ADDS_IN_TIME, ADDS],
        "one gives up, asymmetric",
    );
    asymmetric(Large, &[HANDS_OVER, ADDS], "handed over, asymmetric");
}

#[test]
fn a_lock_whose_waiters_are_not_seen_is_found_out() {
    // Two threads are enough: one that clears the flag and looks, for the last time, and one that
    // announces itself.
    fails(
        "parking: nothing drains the holder's buffer",
        SLEEPS_ON,
        Small,
        || all_add(Fences::Neither, &[ADDS, ADDS]),
    );
    fails(
        "parking: a waiter that gives up keeps its wake-up",
        SLEEPS_ON,
        Large,
        || all_add(Fences::Both, &[ADDS, GIVES_UP_ASLEEP, ADDS]),
    );
}

/// Returns asleep, or immediately after the wake-up that handed it the lock. A thread that exits
/// does the same.
const EXITS_ASLEEP: fn(&Counted) = GIVES_UP_ASLEEP;

/// The holder hands the lock over, and the waiter exits asleep. If the lock is still held then, it
/// has no holder: it is released by force, and then these threads add.
fn add_after_force(fences: Fences, force: fn(&Lock), work: &[fn(&Counted)]) {
    let lock = Lock::new(fences);
    assert!(lock.test_and_set(), "a new lock is clear");
    let counted = (lock, Plain::new(0), AtomicU32::new(0));
    let counted = together(counted, &[|(lock, ..)| lock.hand_over(), EXITS_ASLEEP]);
    if counted.0.is_set() {
        force(&counted.0);
    }
    // While one thread holds it, another that wakes up does not acquire it.
    assert!(counted.0.test_and_set(), "still locked");
    let before = counted.2.load(Ordering::Relaxed);
    let counted = together_on(counted, &[|_| {}, ADDS_IN_TIME]);
    assert_eq!(before, counted.2.load(Ordering::Relaxed), "two holders");
    counted.0.release();
    let counted = together_on(counted, work);
    let additions = counted.2.load(Ordering::Relaxed) as usize;
    assert_eq!(counted.1.get(), additions, "additions lost");
    assert_eq!(counted.0.flag.load(Ordering::Relaxed), 0, "still locked");
}

#[test]
fn a_lock_without_a_holder_is_released_by_force() {
    let model = |fences, force, work: &'static [fn(&Counted)], name: &str| {
        holds(&format!("parking: {name}"), Large, move || {
            add_after_force(fences, force, work)
        });
    };
    let (both, asymmetric) = (Fences::Both, Fences::Asymmetric);
    model(both, Lock::release, &[ADDS, ADDS_IN_TIME], "forced");
    model(
        both,
        Lock::hand_over,
        &[ADDS, ADDS_IN_TIME],
        "forced and fair",
    );
    model(both, Lock::release, &[ADDS, ADDS], "forced, two wait");
    model(
        asymmetric,
        Lock::release,
        &[ADDS, ADDS],
        "forced, asymmetric",
    );
}

#[test]
fn a_forced_release_that_leaves_the_lock_handed_over_is_found_out() {
    fails(
        "parking: forced, and still handed over",
        "two holders",
        Large,
        || {
            let clear = |lock: &Lock| lock.flag.store(CLEAR, Ordering::Release);
            add_after_force(Fences::Both, clear, &[ADDS, ADDS]);
        },
    );
}

/// Permits, and the number of permits acquired.
type Store = (AtomicU32, AtomicU32);

fn acquire((word, had): &Store, patience: Patience) -> bool {
    let acquired = permits::try_acquire(word) || permits::acquire(word, patience.sleep());
    had.fetch_add(acquired.into(), Ordering::Relaxed);
    acquired
}

/// Takes a permit for a while and returns it, so that others can still acquire it.
fn borrow(store: &Store, patience: Patience) {
    if acquire(store, patience) {
        store.1.fetch_sub(1, Ordering::Relaxed);
        GIVES(store);
    }
}

const TAKES: fn(&Store) = |store| assert!(acquire(store, Patience::Endless));
const BORROWS_IN_TIME: fn(&Store) = |store| borrow(store, Patience::Short);
const BORROWS_ASLEEP: fn(&Store) = |store| borrow(store, Patience::GivesUpAsleep);
const GIVES: fn(&Store) = |(word, _)| assert!(permits::release(word, 1));
const GIVES_TWO: fn(&Store) = |(word, _)| assert!(permits::release(word, 2));
const GIVES_SILENTLY: fn(&Store) = |(word, _)| {
    word.fetch_add(1, Ordering::Release);
};

fn all_take(given: u32, work: &[fn(&Store)]) {
    let store = together((AtomicU32::new(0), AtomicU32::new(0)), work);
    let had = store.1.load(Ordering::Relaxed);
    let left = permits::count(&store.0);
    assert_eq!(had + left, given, "permits lost");
}

#[test]
fn whoever_waits_for_a_permit_gets_one() {
    holds("permits: one each", Small, || all_take(1, &[GIVES, TAKES]));
    holds("permits: two one after the other", Large, || {
        all_take(2, &[|store| (GIVES(store), GIVES(store)).0, TAKES, TAKES]);
    });
    holds("permits: two at once", Large, || {
        all_take(2, &[GIVES_TWO, TAKES, TAKES]);
    });
    // Like a thread that the kernel does not schedule for long, the borrower stops once it was
    // woken.
    holds(
        "permits: two at once, a woken thread does not run",
        Large,
        || {
            all_take(2, &[GIVES_TWO, BORROWS_ASLEEP, TAKES]);
        },
    );
    holds("permits: one gives up", Large, || {
        all_take(1, &[GIVES, BORROWS_IN_TIME, TAKES]);
    });
    holds("permits: two releases, one gives up", Huge, || {
        all_take(2, &[GIVES, GIVES, BORROWS_IN_TIME, TAKES]);
    });
}

/// The library's release, but it wakes one waiter, which must wake the next.
const GIVES_TWO_AND_WAKES_ONE: fn(&Store) = |store| {
    GIVES_SILENTLY(store);
    GIVES(store);
};

#[test]
fn a_semaphore_that_wakes_nobody_is_found_out() {
    fails(
        "permits: two at once, one is woken and does not run",
        SLEEPS_ON,
        Large,
        || all_take(2, &[GIVES_TWO_AND_WAKES_ONE, BORROWS_ASLEEP, TAKES]),
    );
    fails("permits: no waiter is woken", SLEEPS_ON, Small, || {
        all_take(1, &[GIVES_SILENTLY, TAKES]);
    });
    fails(
        "permits: a waiter that gives up keeps its wake-up",
        SLEEPS_ON,
        Large,
        || all_take(1, &[GIVES, BORROWS_ASLEEP, TAKES]),
    );
}

/// A gate as the lock, the state that it guards, and the words of a condition variable.
struct Room {
    gate: AtomicU32,
    arrived: Plain,
    notifications: AtomicU32,
    waiters: AtomicU32,
}

/// Waits for an arrival, and takes it; returns false if it gave up.
fn expect(room: &Room, patience: Patience) {
    lock(&room.gate);
    let mut patient = patience.sleep_until_woken();
    while room.arrived.get() == 0 {
        let announced = notification::announce(&room.notifications, &room.waiters);
        unlock(&room.gate);
        let notified =
            notification::wait(&room.notifications, &room.waiters, announced, &mut patient);
        lock(&room.gate);
        if !notified && room.arrived.get() == 0 {
            unlock(&room.gate);
            return;
        }
    }
    room.arrived.set(room.arrived.get() - 1);
    unlock(&room.gate);
}

fn arrive(room: &Room, arrivals: usize) {
    lock(&room.gate);
    room.arrived.set(room.arrived.get() + arrivals);
    unlock(&room.gate);
}

const EXPECTS: fn(&Room) = |room| expect(room, Patience::Endless);
const EXPECTS_IN_TIME: fn(&Room) = |room| expect(room, Patience::Short);
const ARRIVES: fn(&Room) = |room| {
    arrive(room, 1);
    notification::notify_one(&room.notifications, &room.waiters);
};
const TWO_ARRIVE: fn(&Room) = |room| {
    arrive(room, 2);
    notification::notify_all(&room.notifications, &room.waiters);
};
const ARRIVES_EARLY: fn(&Room) = |room| {
    notification::notify_one(&room.notifications, &room.waiters);
    arrive(room, 1);
};

/// Waits for a moment, for an event that never happens, and notifies another waiter if it was
/// notified. It reports that it was woken, or does not.
fn pass_by(room: &Room, says_woken: bool) {
    let announced = notification::announce(&room.notifications, &room.waiters);
    let mut sleep = Patience::Short.sleep_until_woken();
    let sleep = |word: &AtomicU32, expected| Some(sleep(word, expected)? && says_woken);
    if notification::wait(&room.notifications, &room.waiters, announced, sleep) {
        notification::notify_one(&room.notifications, &room.waiters);
    }
}

const PASSES_BY: fn(&Room) = |room| pass_by(room, true);
const KEEPS_THE_WAKE_UP: fn(&Room) = |room| pass_by(room, false);

fn meet(work: &[fn(&Room)]) {
    let room = Room {
        gate: AtomicU32::new(0),
        arrived: Plain::new(0),
        notifications: AtomicU32::new(0),
        waiters: AtomicU32::new(0),
    };
    let room = together(room, work);
    assert_eq!(room.waiters.load(Ordering::Relaxed), 0, "still announced");
}

#[test]
fn whoever_waits_for_a_notification_gets_it() {
    holds("notification: one", Large, || meet(&[ARRIVES, EXPECTS]));
    holds("notification: two, one each", Huge, || {
        meet(&[|room| (ARRIVES(room), ARRIVES(room)).0, EXPECTS, EXPECTS]);
    });
    holds("notification: of all", Huge, || {
        meet(&[TWO_ARRIVE, EXPECTS, EXPECTS]);
    });
    holds("notification: one gives up", Huge, || {
        meet(&[TWO_ARRIVE, EXPECTS_IN_TIME, EXPECTS]);
    });
}

#[test]
fn whoever_is_woken_instead_of_another_notifies_it() {
    wake_the_last_first();
    let model = |size, work: &'static [fn(&Room)], name: &str| {
        holds(
            &format!("notification, the last is woken first: {name}"),
            size,
            || meet(work),
        );
    };
    model(Large, &[ARRIVES, EXPECTS, PASSES_BY], "another passes by");
    model(
        Huge,
        &[ARRIVES, EXPECTS, PASSES_BY, PASSES_BY],
        "two pass by",
    );
    model(
        Huge,
        &[|room| (ARRIVES(room), ARRIVES(room)).0, EXPECTS, EXPECTS],
        "two, one each",
    );
}

#[test]
fn a_waiter_that_keeps_the_wake_up_of_another_is_found_out() {
    wake_the_last_first();
    fails(
        "notification: one that was not meant keeps the wake-up",
        SLEEPS_ON,
        Large,
        || {
            meet(&[ARRIVES, EXPECTS, KEEPS_THE_WAKE_UP]);
        },
    );
}

#[test]
fn a_notification_before_the_change_is_found_out() {
    fails("notification: too early", SLEEPS_ON, Large, || {
        meet(&[ARRIVES_EARLY, EXPECTS]);
    });
}
