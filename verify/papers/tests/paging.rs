//! Page faults in the middle of a sequence, by both means: what goes wrong without a protection,
//! and that nothing does with each of M94's three.
//!
//! Two threads take turns, as on M94's one processor. The first one's sequence has loaded a word of
//! the object when it faults, and gives its turn to the second one, whose sequence changes the same
//! words.
#![cfg(atomseq_sections)]

use std::io::{Read, Write};
use std::sync::atomic::{AtomicUsize, Ordering::SeqCst};
use std::thread;
use std::time::Duration;

use atomseq::signal;
use atomseq_papers::paging::{Error, Gate, Means, Region, is_on_one_page, start};
use verify_support::processes::{
    Circumstances, end_in, fork, in_child, in_fresh_process, in_fresh_process_under,
    killed_in_fresh_process,
};
#[cfg(target_arch = "x86_64")]
use verify_support::sandbox::{end_trapped_call, install_answer, trap};
use verify_support::signals::{change_mask, install_plainly};
#[cfg(target_arch = "x86_64")]
use verify_support::signals::{holds, is_blocked};
use verify_support::{this_test, threads};

atomseq::sequence! {
    /// Moves 1 from the first word to the last, and counts in the middle one.
    unsafe fn transfer(first: Word, middle: Word, last: Word) {
        let a = load(first);
        let b = load(middle);
        let c = load(last);
        store(first, a - 1);
        store(middle, b + 1);
        store(last, c + 1);
    }

    /// The same. 0: the gate was closed, and nothing was done.
    unsafe fn transfer_through(gate: Word, first: Word, middle: Word, last: Word) -> Word {
        let closed = load(gate);
        if closed != 0 { return 0 }
        let a = load(first);
        let b = load(middle);
        let c = load(last);
        store(first, a - 1);
        store(middle, b + 1);
        store(last, c + 1);
        1
    }
}

const SIGNAL: i32 = libc::SIGUSR1;
/// What is in the first word at the beginning.
const ALL: usize = 1_000;

const FIRST: usize = 1;
const SECOND: usize = 2;

/// Whose turn it is.
static TURN: AtomicUsize = AtomicUsize::new(FIRST);
/// The faults, how often the second thread found the gate closed, and how often it has transferred.
static FAULTS: AtomicUsize = AtomicUsize::new(0);
static FOUND_CLOSED: AtomicUsize = AtomicUsize::new(0);
static DONE: AtomicUsize = AtomicUsize::new(0);
/// The thread that gives its turn away when it faults.
static FAULTING: AtomicUsize = AtomicUsize::new(0);
static GATE: Gate = Gate::new();

fn this_thread() -> usize {
    // SAFETY: takes no argument and has no precondition.
    unsafe { libc::gettid() as usize }
}

fn take_turn(turn: usize) {
    while TURN.load(SeqCst) != turn {
        thread::yield_now();
    }
}

/// Called by the handler of a fault: gives the turn to the second thread until that one has
/// transferred or waits for the gate.
fn wait() {
    FAULTS.fetch_add(1, SeqCst);
    let is_suspended = FOUND_CLOSED.load(SeqCst) > 0 || DONE.load(SeqCst) > 0;
    if this_thread() == FAULTING.load(SeqCst) && !is_suspended {
        TURN.store(SECOND, SeqCst);
        take_turn(FIRST);
    }
}

/// The words of an object, and whether its sequences test the gate.
#[derive(Clone, Copy)]
struct Object {
    words: [usize; 3],
    gated: bool,
}

impl Object {
    fn read(&self) -> [usize; 3] {
        // SAFETY: words of the region, which no thread changes now.
        self.words
            .map(|word| unsafe { (word as *const usize).read_volatile() })
    }

    fn transfer(&self) -> bool {
        let [first, middle, last] = self.words;
        if self.gated {
            // SAFETY: words of the region, and the gate's.
            return unsafe { transfer_through::rolling(GATE.word(), first, middle, last) } == 1;
        }
        // SAFETY: words of the region.
        unsafe { transfer::rolling(first, middle, last) };
        true
    }
}

fn region(means: Means) -> &'static Region {
    start(SIGNAL).unwrap();
    // SAFETY: `wait` yields and changes words.
    unsafe { Region::map_by(means, 3, wait) }.unwrap()
}

/// Both threads transfer once, with these pages out before. Returns the words.
fn both_transfer(object: Object, region: &Region, out: &[usize]) -> [usize; 3] {
    // SAFETY: words of the region, which no other thread uses yet.
    unsafe { (object.words[0] as *mut usize).write_volatile(ALL) };
    object.read();
    for page in out {
        region.page_out(*page).unwrap();
    }
    FAULTS.store(0, SeqCst);
    FAULTING.store(this_thread(), SeqCst);
    thread::scope(|scope| {
        scope.spawn(|| {
            take_turn(SECOND);
            while !object.transfer() {
                FOUND_CLOSED.fetch_add(1, SeqCst);
                TURN.store(FIRST, SeqCst);
                GATE.wait();
            }
            DONE.store(1, SeqCst);
            TURN.store(FIRST, SeqCst);
        });
        assert!(object.transfer());
        if FOUND_CLOSED.load(SeqCst) == 0 {
            // It was not interrupted, or not where another thread could run.
            TURN.store(SECOND, SeqCst);
        }
    });
    object.read()
}

/// An object with a word on each page.
fn spread(region: &Region, gated: bool) -> Object {
    let words = [0, 1, 2].map(|page| region.address(page) + 64);
    Object { words, gated }
}

/// Runs a check by both means, each in a fresh process. `userfaultfd` may be forbidden, but not to
/// every process that this runs in.
macro_rules! by_both_means {
    ($($name:ident $check:path;)*) => { $(
        mod $name {
            use super::*;

            #[test]
            fn by_protection() {
                in_fresh_process(this_test!(), || $check(Means::Protection));
            }

            #[test]
            fn by_userfaultfd() {
                in_fresh_process(this_test!(), || {
                    start(SIGNAL).unwrap();
                    // SAFETY: `wait` yields and changes words.
                    match unsafe { Region::map_by(Means::Userfaultfd, 1, wait) } {
                        Ok(_) => $check(Means::Userfaultfd),
                        Err(Error::Refused { call, error }) => {
                            println!("not tried: {call}: {error}");
                        }
                        Err(error) => panic!("{error}"),
                    }
                });
            }
        }
    )* };
}

by_both_means! {
    control_without_protection_a_change_is_lost unprotected;
    pinned_pages_do_not_fault pinned;
    an_object_of_one_page_faults_before_it_is_read one_page;
    a_gate_keeps_other_threads_out gated;
    a_gate_stays_closed_over_several_faults several_faults;
    a_gate_stays_closed_when_a_rollforward_is_abandoned abandoned;
    faults_elsewhere_close_no_gate elsewhere;
    a_handler_does_not_wait_for_its_own_thread own_handler;
    two_threads_do_not_wait_for_gates_that_their_masks_keep_closed in_masks;
    a_waiting_thread_opens_what_its_handler_has_closed during_wait;
    a_wait_for_a_page_may_access_others access_in_wait;
    pages_are_out_whatever_mlockall_locks locked_in_advance;
    a_child_that_outlives_its_parent_pins orphan;
}

fn unprotected(means: Means) {
    let region = region(means);
    let words = both_transfer(spread(region, false), region, &[1]);
    // The second thread's change of the first word is overwritten.
    assert_eq!(words, [ALL - 1, 2, 2]);
    assert_eq!(FAULTS.load(SeqCst), 2, "the page was missed by both");
}

fn pinned(means: Means) {
    let region = region(means);
    let object = spread(region, false);
    let pinned = region.pin(0..3).unwrap();
    assert!(matches!(region.page_out(1), Err(Error::Pinned)));
    assert_eq!(both_transfer(object, region, &[]), [ALL - 2, 2, 2]);
    assert_eq!(FAULTS.load(SeqCst), 0);
    // The control: afterwards it does fault.
    drop(pinned);
    region.page_out(1).unwrap();
    object.read();
    assert_eq!(FAULTS.load(SeqCst), 1);
}

fn one_page(means: Means) {
    let region = region(means);
    let words = [0, 8, 16].map(|offset| region.address(1) + offset);
    assert!(is_on_one_page(words[0], 24));
    let object = Object {
        words,
        gated: false,
    };
    assert_eq!(both_transfer(object, region, &[1]), [ALL - 2, 2, 2]);
    assert_eq!(FAULTS.load(SeqCst), 2);
    assert_eq!(DONE.load(SeqCst), 1, "the other thread ran meanwhile");
}

fn gated(means: Means) {
    let region = region(means);
    region.guard(0..3, &GATE);
    let rollforwards = signal::statistics().rollforwards;
    let words = both_transfer(spread(region, true), region, &[1]);
    assert_eq!(words, [ALL - 2, 2, 2]);
    assert_eq!(
        FOUND_CLOSED.load(SeqCst),
        1,
        "the other thread tried meanwhile"
    );
    assert_eq!(signal::statistics().rollforwards, rollforwards + 1);
    assert!(!GATE.is_closed());
}

fn several_faults(means: Means) {
    let region = region(means);
    region.guard(0..3, &GATE);
    let words = both_transfer(spread(region, true), region, &[0, 1, 2]);
    assert_eq!(words, [ALL - 2, 2, 2]);
    assert_eq!((FAULTS.load(SeqCst), FOUND_CLOSED.load(SeqCst)), (3, 1));
    assert!(!GATE.is_closed());
}

/// Every rollforward is abandoned at its second fault, since its limit is 0. Another thread tries
/// to transfer all the time.
fn abandoned(means: Means) {
    const ROUNDS: usize = 500;
    static ROUND: AtomicUsize = AtomicUsize::new(0);
    static ENDED: AtomicUsize = AtomicUsize::new(0);
    start(SIGNAL).unwrap();
    signal::set_rollforward_limit(Duration::ZERO);
    // SAFETY: it does nothing.
    let region = unsafe { Region::map_by(means, 3, || ()) }.unwrap();
    region.guard(0..3, &GATE);
    let object = spread(region, true);
    let mut torn = 0;
    thread::scope(|scope| {
        scope.spawn(|| {
            for round in 1..=ROUNDS {
                while ROUND.load(SeqCst) < round {
                    std::hint::spin_loop();
                }
                while !GATE.is_closed() && ENDED.load(SeqCst) < round {
                    std::hint::spin_loop();
                }
                while !object.transfer() {
                    std::hint::spin_loop();
                }
                DONE.store(round, SeqCst);
            }
        });
        for round in 1..=ROUNDS {
            for (page, value) in [ALL, 0, 0].into_iter().enumerate() {
                // SAFETY: a word of the region, which no thread uses now.
                unsafe { (object.words[page] as *mut usize).write_volatile(value) };
                region.page_out(page).unwrap();
            }
            ROUND.store(round, SeqCst);
            assert!(object.transfer());
            ENDED.store(round, SeqCst);
            while DONE.load(SeqCst) < round {
                thread::yield_now();
            }
            torn += usize::from(object.read() != [ALL - 2, 2, 2]);
        }
    });
    assert_eq!(torn, 0, "rounds in which a change was lost");
    assert!(signal::statistics().abandoned >= ROUNDS as u64);
    assert!(!GATE.is_closed());
}

fn elsewhere(means: Means) {
    static CLOSED: AtomicUsize = AtomicUsize::new(0);
    fn look() {
        CLOSED.fetch_add(1 + 100 * usize::from(GATE.is_closed()), SeqCst);
    }
    start(SIGNAL).unwrap();
    // SAFETY: `look` changes a word.
    let region = unsafe { Region::map_by(means, 3, look) }.unwrap();
    region.guard(0..3, &GATE);
    let object = spread(region, true);
    assert_eq!(object.read(), [0; 3]);
    assert_eq!(CLOSED.load(SeqCst), 3);
    // The control: in a sequence it does.
    region.page_out(1).unwrap();
    assert!(object.transfer());
    assert_eq!(CLOSED.load(SeqCst), 3 + 101);
}

/// A signal that is there when the sequence ends may be handled before the gate is opened.
fn own_handler(means: Means) {
    static OBJECT: AtomicUsize = AtomicUsize::new(0);
    static HANDLED: AtomicUsize = AtomicUsize::new(0);
    const OTHER: i32 = libc::SIGHUP;
    fn object() -> Object {
        let words = [0, 1, 2].map(|page| OBJECT.load(SeqCst) + page * 8);
        Object { words, gated: true }
    }
    fn transfer_in_handler(_: &mut signal::Event<'_>) {
        while !object().transfer() {
            GATE.wait();
        }
        HANDLED.fetch_add(1, SeqCst);
    }
    fn send() {
        // SAFETY: numbers; it is blocked until the handler of the fault returns.
        unsafe { libc::syscall(libc::SYS_tgkill, libc::getpid(), libc::gettid(), OTHER) };
    }
    start(SIGNAL).unwrap();
    // SAFETY: the handler changes words of this thread's, and waits for no other thread.
    unsafe { signal::install(OTHER, transfer_in_handler) }.unwrap();
    // SAFETY: `send` makes system calls.
    let region = unsafe { Region::map_by(means, 1, send) }.unwrap();
    region.guard(0..1, &GATE);
    OBJECT.store(region.address(0), SeqCst);
    assert!(object().transfer());
    assert_eq!(HANDLED.load(SeqCst), 1);
    assert_eq!(object().read(), [usize::MAX - 1, 2, 2]);
    assert!(!GATE.is_closed());
}

/// Two threads change two objects each, inside masks. Each one's first change closes a gate, which
/// stays closed until the mask ends.
fn in_masks(means: Means) {
    static GATES: [Gate; 2] = [const { Gate::new() }; 2];
    static CLOSED: AtomicUsize = AtomicUsize::new(0);
    fn transfer_in(region: &Region, object: usize) {
        let [first, middle] = [0, 1].map(|page| region.address(2 * object + page));
        let gate = &GATES[object];
        // SAFETY: words of the region, and the gate's.
        while unsafe { transfer_through::rolling(gate.word(), first, middle, middle + 8) } == 0 {
            gate.wait();
        }
    }
    end_in(20);
    start(SIGNAL).unwrap();
    // SAFETY: it does nothing.
    let region = unsafe { Region::map_by(means, 4, || ()) }.unwrap();
    for (object, gate) in GATES.iter().enumerate() {
        region.guard(2 * object..2 * object + 2, gate);
    }
    thread::scope(|scope| {
        for own in [0, 1] {
            scope.spawn(move || {
                let _masked = signal::mask();
                transfer_in(region, own);
                assert!(GATES[own].is_closed());
                CLOSED.fetch_add(1, SeqCst);
                while CLOSED.load(SeqCst) < 2 {
                    thread::yield_now();
                }
                transfer_in(region, 1 - own);
            });
        }
    });
    for object in [0, 1] {
        // SAFETY: a word of the region, which no thread changes now.
        let moved = unsafe { (region.address(2 * object + 1) as *const usize).read_volatile() };
        assert_eq!(moved, 2);
        assert!(!GATES[object].is_closed());
    }
}

/// A thread waits for the first object's gate. It blocks the signal, so a handler that interrupts
/// the wait leaves the second object's gate closed.
fn during_wait(means: Means) {
    static GATES: [Gate; 2] = [const { Gate::new() }; 2];
    static PAGES: [AtomicUsize; 2] = [const { AtomicUsize::new(0) }; 2];
    const OTHER: i32 = libc::SIGHUP;
    fn transfer(object: usize) {
        let words = [0, 8, 16].map(|offset| PAGES[object].load(SeqCst) + offset);
        let [first, middle, last] = words;
        let gate = &GATES[object];
        // SAFETY: words of the region, and the gate's.
        while unsafe { transfer_through::rolling(gate.word(), first, middle, last) } == 0 {
            gate.wait();
        }
    }
    fn transfer_second(_: &mut signal::Event<'_>) {
        transfer(1);
        assert!(GATES[1].is_closed());
        DONE.store(1, SeqCst);
    }
    end_in(20);
    start(SIGNAL).unwrap();
    // SAFETY: the handler changes words, and waits for no thread.
    unsafe { signal::install(OTHER, transfer_second) }.unwrap();
    // SAFETY: it does nothing.
    let region = unsafe { Region::map_by(means, 2, || ()) }.unwrap();
    for (page, gate) in GATES.iter().enumerate() {
        region.guard(page..page + 1, gate);
        PAGES[page].store(region.address(page), SeqCst);
    }
    change_mask(libc::SIG_BLOCK, &[SIGNAL]);
    transfer(0);
    assert!(GATES[0].is_closed());
    thread::scope(|scope| {
        scope.spawn(|| {
            FAULTING.store(this_thread(), SeqCst);
            transfer(0);
        });
        while FAULTING.load(SeqCst) == 0 {
            thread::yield_now();
        }
        let waiting = FAULTING.load(SeqCst) as i32;
        threads::wait_until_asleep(waiting);
        threads::signal(waiting, OTHER);
        while DONE.load(SeqCst) == 0 {
            thread::yield_now();
        }
        // Not by `Gate::wait`, which would open the first one.
        while GATES[1].is_closed() {
            thread::yield_now();
        }
        change_mask(libc::SIG_UNBLOCK, &[SIGNAL]);
    });
    assert!(!GATES[0].is_closed());
}

/// Each wait accesses a page of another region. All but the first are in a rollforward.
fn access_in_wait(means: Means) {
    static OTHERS: [AtomicUsize; 3] = [const { AtomicUsize::new(0) }; 3];
    static IS_WAITING: AtomicUsize = AtomicUsize::new(0);
    fn access() {
        let number = FAULTS.fetch_add(1, SeqCst) / 2 % 3;
        if IS_WAITING.swap(1, SeqCst) == 0 {
            let word = OTHERS[number].load(SeqCst) as *mut usize;
            // SAFETY: a word of the region of below, which no other thread uses.
            unsafe { word.write_volatile(word.read_volatile() + 1) };
            IS_WAITING.store(0, SeqCst);
        }
    }
    start(SIGNAL).unwrap();
    // SAFETY: `access` changes words.
    let map = || unsafe { Region::map_by(means, 3, access) }.unwrap();
    let (others, region) = (map(), map());
    region.guard(0..3, &GATE);
    let object = spread(region, true);
    for (page, word) in OTHERS.iter().enumerate() {
        word.store(others.address(page), SeqCst);
    }
    for round in 1..4 {
        for page in 0..3 {
            region.page_out(page).unwrap();
            others.page_out(page).unwrap();
        }
        assert!(object.transfer());
        assert!(!GATE.is_closed());
        assert_eq!(object.read()[1..], [round; 2]);
        assert_eq!(FAULTS.load(SeqCst), 6 * round);
    }
    assert_eq!(signal::statistics().rollforwards, 3);
    for word in &OTHERS {
        // SAFETY: as in `access`.
        let word = unsafe { (word.load(SeqCst) as *const usize).read_volatile() };
        assert_eq!(word, 3);
    }
}

/// Otherwise pages would be in from the beginning, and never move out.
fn locked_in_advance(means: Means) {
    start(SIGNAL).unwrap();
    // SAFETY: changes what is locked of this process.
    let result = unsafe { libc::mlockall(libc::MCL_FUTURE) };
    assert_eq!(result, 0, "{}", std::io::Error::last_os_error());
    let region = region(means);
    // SAFETY: as above.
    unsafe { libc::munlockall() };
    for faults in 1..4 {
        // SAFETY: a word of the region.
        unsafe { (region.address(0) as *mut usize).write_volatile(1) };
        assert_eq!(FAULTS.load(SeqCst), faults);
        region.page_out(0).unwrap();
    }
}

/// The page is moved in by a process that no longer exists.
fn orphan(means: Means) {
    let (mut results, mut result) = std::io::pipe().unwrap();
    in_child(|| {
        let region = region(means);
        let parent = std::process::id();
        // Not `start_child`, whose child ends with its parent.
        if fork() != 0 {
            return;
        }
        end_in(60);
        while std::os::unix::process::parent_id() == parent {
            thread::yield_now();
        }
        let pinned = region.pin(0..1);
        writeln!(result, "{:?}", pinned.map(drop)).unwrap();
    });
    drop(result);
    let mut written = String::new();
    results.read_to_string(&mut written).unwrap();
    assert_eq!(written, "Ok(())\n");
}

/// A handler may interrupt a wait that opens a gate of its thread's own. This one waits as well,
/// which opens it, and returns when another thread has closed it. It runs in front of each system
/// call of the wait, which are before and after each decision.
#[cfg(target_arch = "x86_64")]
mod stepped {
    use std::ffi::{c_int, c_void};
    use std::sync::atomic::AtomicBool;

    use verify_support::code::steps::{clear_trap_flag, set_trap_flag};
    use verify_support::signals::install_alone;

    use super::*;

    const OTHER: i32 = libc::SIGHUP;
    /// The instruction `syscall`.
    const SYSCALL: [u8; 2] = [0x0f, 0x05];

    /// System calls of the wait so far, and in front of which one the handler runs.
    static CALLS: AtomicUsize = AtomicUsize::new(0);
    static CHOSEN: AtomicUsize = AtomicUsize::new(0);
    /// Whether the handler has opened the gate and another thread has closed it; whether the wait
    /// has gone on since, to its next call of `futex` or to its end.
    static CLOSED: AtomicBool = AtomicBool::new(false);
    static WENT_ON: AtomicBool = AtomicBool::new(false);
    /// How often the gate was open in the middle of the other thread's sequence.
    static OPENED: AtomicUsize = AtomicUsize::new(0);

    extern "C" fn on_step(_: c_int, _: *mut libc::siginfo_t, context: *mut c_void) {
        // SAFETY: the kernel's context of this delivery.
        let registers = unsafe { &(*context.cast::<libc::ucontext_t>()).uc_mcontext.gregs };
        // SAFETY: the thread is about to execute what is there.
        let ahead = unsafe { *(registers[libc::REG_RIP as usize] as *const [u8; 2]) };
        if ahead != SYSCALL {
            return;
        }
        let is_futex = registers[libc::REG_RAX as usize] == libc::SYS_futex;
        if is_futex && CLOSED.load(SeqCst) {
            WENT_ON.store(true, SeqCst);
        }
        if CALLS.fetch_add(1, SeqCst) == CHOSEN.load(SeqCst) {
            // SAFETY: numbers; it arrives when this handler returns.
            unsafe { libc::syscall(libc::SYS_tgkill, libc::getpid(), libc::gettid(), OTHER) };
        }
    }

    fn open_and_let_close(_: &mut signal::Event<'_>) {
        GATE.wait();
        TURN.store(SECOND, SeqCst);
        while !CLOSED.load(SeqCst) {
            thread::yield_now();
        }
    }

    /// Called by the handler of a fault.
    fn look() {
        if this_thread() == FAULTING.load(SeqCst) {
            return;
        }
        CLOSED.store(GATE.is_closed(), SeqCst);
        while !WENT_ON.load(SeqCst) {
            thread::yield_now();
        }
        OPENED.fetch_add(usize::from(!GATE.is_closed()), SeqCst);
    }

    pub fn check(means: Means) {
        start(SIGNAL).unwrap();
        // SAFETY: the handler changes statics, and waits for a thread that holds no lock.
        unsafe { signal::install(OTHER, open_and_let_close) }.unwrap();
        install_alone(libc::SIGTRAP, on_step, libc::SA_RESTART);
        // SAFETY: `look` yields and changes statics.
        let region = unsafe { Region::map_by(means, 1, look) }.unwrap();
        region.guard(0..1, &GATE);
        let words = [0, 8, 16].map(|offset| region.address(0) + offset);
        let object = Object { words, gated: true };
        let is_over = AtomicBool::new(false);
        thread::scope(|scope| {
            scope.spawn(|| {
                loop {
                    take_turn(SECOND);
                    if is_over.load(SeqCst) {
                        break;
                    }
                    region.page_out(0).unwrap();
                    assert!(object.transfer());
                    TURN.store(FIRST, SeqCst);
                }
            });
            FAULTING.store(this_thread(), SeqCst);
            // Its gates stay closed.
            change_mask(libc::SIG_BLOCK, &[SIGNAL]);
            for chosen in 0.. {
                region.page_out(0).unwrap();
                assert!(object.transfer() && GATE.is_closed());
                CALLS.store(0, SeqCst);
                CHOSEN.store(chosen, SeqCst);
                CLOSED.store(false, SeqCst);
                WENT_ON.store(false, SeqCst);
                set_trap_flag();
                GATE.wait();
                clear_trap_flag();
                WENT_ON.store(true, SeqCst);
                if CALLS.load(SeqCst) <= chosen {
                    break;
                }
                take_turn(FIRST);
            }
            is_over.store(true, SeqCst);
            TURN.store(SECOND, SeqCst);
        });
        assert_eq!(OPENED.load(SeqCst), 0, "calls at which it was opened");
    }
}

/// A single step is no fault that repeats. Each rollforward would be abandoned at its second one,
/// which is the page's, and the next one would begin with a step again.
#[cfg(target_arch = "x86_64")]
fn single_steps(means: Means) {
    use verify_support::code::steps::{clear_trap_flag, set_trap_flag};
    static STEPS: AtomicUsize = AtomicUsize::new(0);
    fn on_step(_: &mut signal::Event<'_>) {
        STEPS.fetch_add(1, SeqCst);
    }
    end_in(20);
    start(SIGNAL).unwrap();
    signal::set_rollforward_limit(Duration::ZERO);
    // SAFETY: the handler counts.
    unsafe { signal::install(libc::SIGTRAP, on_step) }.unwrap();
    // SAFETY: it does nothing.
    let region = unsafe { Region::map_by(means, 3, || ()) }.unwrap();
    region.guard(0..3, &GATE);
    let object = spread(region, true);
    object.read();
    for page in [0, 1] {
        region.page_out(page).unwrap();
    }
    set_trap_flag();
    let is_done = object.transfer();
    clear_trap_flag();
    assert!(is_done && STEPS.load(SeqCst) > 0);
    assert_eq!(object.read(), [usize::MAX, 1, 1]);
}

#[cfg(target_arch = "x86_64")]
by_both_means! {
    single_steps_do_not_end_a_rollforward single_steps;
    a_wait_opens_no_gate_that_another_thread_has_closed_meanwhile stepped::check;
}

/// The memory that this process has locked, in the kernel's words.
fn locked() -> String {
    let status = std::fs::read_to_string("/proc/self/status").unwrap();
    let line = status.lines().find(|line| line.starts_with("VmLck:"));
    line.unwrap().split_whitespace().nth(1).unwrap().into()
}

#[test]
fn a_page_stays_locked_while_other_threads_unpin_it() {
    in_fresh_process(this_test!(), || {
        let region = region(Means::Protection);
        let is_over = AtomicUsize::new(0);
        thread::scope(|scope| {
            for _ in 0..2 {
                scope.spawn(|| {
                    while is_over.load(SeqCst) == 0 {
                        drop(region.pin(0..1).unwrap());
                    }
                });
            }
            for _ in 0..2_000 {
                let _pinned = region.pin(0..1).unwrap();
                if locked() == "0" {
                    is_over.store(2, SeqCst);
                }
            }
            assert_ne!(is_over.load(SeqCst), 2, "an unlocked page");
            is_over.store(1, SeqCst);
        });
        assert_eq!(locked(), "0");
    });
}

#[test]
fn a_region_needs_its_handlers_and_one_signal() {
    in_fresh_process(this_test!(), || {
        // SAFETY: `wait` yields and changes words.
        let map = || unsafe { Region::map(1, wait) };
        assert!(matches!(map(), Err(Error::Start)));
        start(SIGNAL).unwrap();
        start(SIGNAL).unwrap();
        assert!(matches!(start(libc::SIGUSR2), Err(Error::Start)));
        while map().is_ok() {}
        assert!(matches!(map(), Err(Error::TooMany)));
    });
}

#[test]
fn a_region_larger_than_the_address_space_is_refused() {
    // A number of bytes that wraps to one page.
    let pages = usize::MAX / 4096 + 2;
    for means in [Means::Userfaultfd, Means::Protection] {
        // SAFETY: `wait` yields and changes words.
        let region = unsafe { Region::map_by(means, pages, wait) };
        assert!(matches!(region, Err(Error::Refused { .. })));
    }
}

/// With room for the pages, and not for what the region keeps of each.
#[test]
fn a_region_beyond_the_limit_of_memory_is_refused() {
    const PAGES: usize = 1 << 14;
    // Otherwise the allocator has mapped memory for this thread in advance.
    let one_arena = Circumstances::environment(&[("MALLOC_ARENA_MAX", "1")]);
    in_fresh_process_under(this_test!(), one_arena, || {
        start(SIGNAL).unwrap();
        // SAFETY: takes a number and has no precondition.
        let page = unsafe { libc::sysconf(libc::_SC_PAGESIZE) } as usize;
        let sizes = std::fs::read_to_string("/proc/self/statm").unwrap();
        let mapped: usize = sizes.split(' ').next().unwrap().parse().unwrap();
        let limit = libc::rlimit {
            rlim_cur: ((mapped + PAGES + 1) * page) as u64,
            rlim_max: libc::RLIM_INFINITY,
        };
        // SAFETY: a limit of this process's own.
        assert_eq!(unsafe { libc::setrlimit(libc::RLIMIT_AS, &limit) }, 0);
        for means in [Means::Userfaultfd, Means::Protection] {
            // SAFETY: `wait` yields and changes words.
            let region = unsafe { Region::map_by(means, PAGES, wait) };
            assert!(matches!(region, Err(Error::Refused { .. })));
        }
    });
}

/// The system would end the process by a signal.
#[test]
fn a_region_beyond_the_limit_of_files_is_refused() {
    in_fresh_process(this_test!(), || {
        start(SIGNAL).unwrap();
        let limit = libc::rlimit {
            rlim_cur: 4096,
            rlim_max: libc::RLIM_INFINITY,
        };
        // SAFETY: a limit of this process's own.
        assert_eq!(unsafe { libc::setrlimit(libc::RLIMIT_FSIZE, &limit) }, 0);
        for means in [Means::Userfaultfd, Means::Protection] {
            // SAFETY: `wait` yields and changes words.
            let region = unsafe { Region::map_by(means, 1 << 5, wait) };
            assert!(matches!(region, Err(Error::Refused { .. })));
        }
    });
}

/// While the kernel makes a huge page of others, it moves them out: pinned ones faulted.
#[test]
fn no_huge_page_is_made_of_a_region() {
    in_fresh_process(this_test!(), || {
        start(SIGNAL).unwrap();
        // SAFETY: `wait` yields and changes words.
        let region = unsafe { Region::map_by(Means::Userfaultfd, 1, wait) };
        let Ok(region) = region else { return };
        if !std::fs::exists("/sys/kernel/mm/transparent_hugepage").unwrap() {
            return;
        }
        let mappings = std::fs::read_to_string("/proc/self/smaps").unwrap();
        let first = format!("{:x}-", region.address(0));
        let mut lines = mappings
            .lines()
            .skip_while(|line| !line.starts_with(&first));
        let flags = lines.find(|line| line.starts_with("VmFlags:")).unwrap();
        assert!(flags.split(' ').any(|flag| flag == "nh"), "{flags}");
    });
}

/// Pages that the kernel has allocated and not zeroed yet are not resident. Before Linux 5.19 it
/// does not map them for `userfaultfd`, so the first fault ended the process.
#[test]
fn pages_are_resident_before_they_fault() {
    in_fresh_process(this_test!(), || {
        start(SIGNAL).unwrap();
        // SAFETY: `wait` yields and changes words.
        let region = match unsafe { Region::map_by(Means::Userfaultfd, 3, wait) } {
            Ok(region) => region,
            Err(error) => return println!("not tried: {error}"),
        };
        let mut resident = [0; 3];
        let size = region.address(1) - region.address(0);
        // SAFETY: three pages, and a byte for each.
        let result =
            unsafe { libc::mincore(region.address(0) as *mut _, 3 * size, resident.as_mut_ptr()) };
        assert_eq!((result, resident.map(|byte| byte & 1)), (0, [1; 3]));
        // They are out nevertheless.
        for page in 0..3 {
            // SAFETY: a word of the region.
            unsafe { (region.address(page) as *const usize).read_volatile() };
        }
        assert_eq!(FAULTS.load(SeqCst), 3);
    });
}

/// Otherwise the first fault would end the process.
// qemu-user has no seccomp.
#[cfg(target_arch = "x86_64")]
#[test]
fn a_region_needs_the_system_call_that_moves_its_pages() {
    in_fresh_process(this_test!(), || {
        start(SIGNAL).unwrap();
        verify_support::sandbox::refuse_all(&[libc::SYS_mprotect]);
        // SAFETY: `wait` yields and changes words.
        let error = unsafe { Region::map_by(Means::Protection, 1, wait) }.map(|_| ());
        let refused = |error| {
            matches!(
                error,
                Error::Refused {
                    call: "mprotect",
                    ..
                }
            )
        };
        assert!(error.is_err_and(refused));
    });
}

/// Calls that the kernel answers by an error if something else happens meanwhile.
// qemu-user has no seccomp.
#[cfg(target_arch = "x86_64")]
mod trapped {
    use std::ffi::{c_int, c_long, c_void};

    use super::*;

    const PASSWORD: u32 = 0x5eed;

    /// Makes a trapped call, which has at most four arguments and returns 0.
    ///
    /// # Safety
    ///
    /// The context is that of the handler of `SIGSYS` that runs.
    unsafe fn make(call: c_long, context: *const c_void) -> c_long {
        // SAFETY: the caller's promise; the arguments are those of the thread's own call.
        unsafe {
            let registers = &(*context.cast::<libc::ucontext_t>()).uc_mcontext.gregs;
            let argument = |register: c_int| registers[register as usize];
            libc::syscall(
                call,
                argument(libc::REG_RDI),
                argument(libc::REG_RSI),
                argument(libc::REG_RDX),
                argument(libc::REG_R10),
                0,
                c_long::from(PASSWORD),
            )
        }
    }

    /// Linux before 6.11 gives up an allocation, and all that it has allocated, when a signal
    /// arrives, or when the thread has been stopped.
    #[test]
    fn signals_do_not_interrupt_the_allocation_of_a_region() {
        extern "C" fn allocate(_: c_int, _: *mut libc::siginfo_t, context: *mut c_void) {
            // SAFETY: a handler's third argument, that of a trapped call.
            unsafe {
                let of_call = &*context.cast::<libc::ucontext_t>();
                assert!(holds(&of_call.uc_sigmask, SIGNAL));
                let result = match DONE.fetch_add(1, SeqCst) {
                    0 => -c_long::from(libc::EINTR),
                    _ => make(libc::SYS_fallocate, context),
                };
                end_trapped_call(context, result);
            }
        }
        in_fresh_process(this_test!(), || {
            install_answer(allocate);
            trap(libc::SYS_fallocate, PASSWORD);
            region(Means::Protection);
            assert_eq!(DONE.load(SeqCst), 2);
            assert!(!is_blocked(SIGNAL));
        });
    }

    /// The kernel would end processes to make room, also others, before it refused the rest.
    #[test]
    fn no_memory_is_allocated_for_a_region_that_cannot_be() {
        extern "C" fn count(_: c_int, _: *mut libc::siginfo_t, context: *mut c_void) {
            DONE.fetch_add(1, SeqCst);
            // SAFETY: a handler's third argument, that of a trapped call.
            unsafe { end_trapped_call(context, -c_long::from(libc::ENOSPC)) };
        }
        const LIMIT: usize = 1 << 30;
        fn check(bytes: usize, allocations: usize) {
            for means in [Means::Userfaultfd, Means::Protection] {
                DONE.store(0, SeqCst);
                // SAFETY: `wait` yields and changes words.
                let region = unsafe { Region::map_by(means, bytes / 4096, wait) };
                assert!(matches!(region, Err(Error::Refused { .. })));
                assert_eq!(DONE.load(SeqCst), allocations, "of {bytes} bytes");
            }
        }
        in_fresh_process(this_test!(), || {
            start(SIGNAL).unwrap();
            install_answer(count);
            trap(libc::SYS_fallocate, PASSWORD);
            // More than machines have, and more than addresses.
            check(1 << 46, 0);
            check(1 << 62, 0);
            let limit = libc::rlimit {
                rlim_cur: LIMIT as u64,
                rlim_max: libc::RLIM_INFINITY,
            };
            // SAFETY: a limit of this process's own.
            assert_eq!(unsafe { libc::setrlimit(libc::RLIMIT_AS, &limit) }, 0);
            check(LIMIT, 0);
            // The control.
            check(4096, 1);
        });
    }

    /// As it does while another thread moves two megabytes out by one call, whose table the kernel
    /// frees. The fault ended the process.
    #[test]
    fn a_page_is_moved_in_although_the_kernel_answers_try_again() {
        extern "C" fn move_in(_: c_int, _: *mut libc::siginfo_t, context: *mut c_void) {
            // SAFETY: a handler's third argument, that of a trapped call.
            unsafe {
                let result = match DONE.fetch_add(1, SeqCst) {
                    0 => -c_long::from(libc::EAGAIN),
                    _ => make(libc::SYS_ioctl, context),
                };
                end_trapped_call(context, result);
            }
        }
        in_fresh_process(this_test!(), || {
            start(SIGNAL).unwrap();
            // SAFETY: `wait` yields and changes words.
            let region = match unsafe { Region::map_by(Means::Userfaultfd, 1, wait) } {
                Ok(region) => region,
                Err(error) => return println!("not tried: {error}"),
            };
            install_answer(move_in);
            trap(libc::SYS_ioctl, PASSWORD);
            // SAFETY: a word of the region.
            unsafe { (region.address(0) as *mut usize).write_volatile(1) };
            assert_eq!((FAULTS.load(SeqCst), DONE.load(SeqCst)), (1, 2));
        });
    }

    /// Before the page is locked, other code moves it out. The kernel locks it nevertheless, and
    /// reports an error.
    #[test]
    fn pages_that_cannot_be_pinned_do_not_stay_locked() {
        extern "C" fn pretend(_: c_int, _: *mut libc::siginfo_t, context: *mut c_void) {
            DONE.fetch_add(1, SeqCst);
            // SAFETY: a handler's third argument, that of a trapped call.
            unsafe { end_trapped_call(context, 0) };
        }
        in_fresh_process(this_test!(), || {
            start(SIGNAL).unwrap();
            // SAFETY: `wait` yields and changes words.
            let region = match unsafe { Region::map_by(Means::Userfaultfd, 2, wait) } {
                Ok(region) => region,
                Err(error) => return println!("not tried: {error}"),
            };
            let pinned = region.pin(0..1).unwrap();
            let locked_before = locked();
            install_answer(pretend);
            trap(libc::SYS_ioctl, PASSWORD);
            let error = region.pin(0..2).map(drop).unwrap_err();
            assert!(matches!(error, Error::Refused { call: "mlock", .. }));
            assert_eq!((DONE.load(SeqCst), locked()), (2, locked_before));
            region.page_out(1).unwrap();
            drop(pinned);
            assert_eq!(locked(), "0");
        });
    }
}

#[test]
fn other_faults_are_the_programs_own() {
    killed_in_fresh_process(this_test!(), libc::SIGSEGV, || {
        region(Means::Protection);
        // SAFETY: this test expects what follows.
        unsafe { (64 as *const usize).read_volatile() };
    });
}

#[test]
fn other_faults_reach_the_handler_from_before() {
    static PAGE: AtomicUsize = AtomicUsize::new(0);
    extern "C" fn repair(_: i32, _: *mut libc::siginfo_t, _: *mut libc::c_void) {
        verify_papers::protect(PAGE.load(SeqCst), libc::PROT_READ);
    }
    in_fresh_process(this_test!(), || {
        install_plainly(libc::SIGSEGV, repair, 0, &[]);
        region(Means::Protection);
        PAGE.store(verify_papers::pages(1, libc::PROT_NONE), SeqCst);
        let page = PAGE.load(SeqCst) as *const u8;
        // SAFETY: the handler makes the page readable.
        let byte = unsafe { page.read_volatile() };
        assert_eq!(byte, 0);
    });
}

/// Moving a page in would not end these, which would repeat without end.
#[test]
fn other_faults_of_its_pages_are_the_programs_own() {
    static PAGE: AtomicUsize = AtomicUsize::new(0);
    static REPAIRED: AtomicUsize = AtomicUsize::new(0);
    extern "C" fn repair(_: i32, _: *mut libc::siginfo_t, _: *mut libc::c_void) {
        REPAIRED.fetch_add(1, SeqCst);
        let all = libc::PROT_READ | libc::PROT_WRITE | libc::PROT_EXEC;
        verify_papers::protect(PAGE.load(SeqCst), all);
    }
    #[cfg(target_arch = "x86_64")]
    const RETURN: [u8; 1] = [0xc3];
    #[cfg(target_arch = "aarch64")]
    const RETURN: [u8; 4] = 0xd65f_03c0_u32.to_le_bytes();
    fn check(region: &Region) {
        FAULTS.store(0, SeqCst);
        REPAIRED.store(0, SeqCst);
        PAGE.store(region.address(0), SeqCst);
        // SAFETY: a page of the region's, to which the handler from before adds what is missing.
        unsafe {
            (region.address(0) as *mut [u8; RETURN.len()]).write_volatile(RETURN);
            std::mem::transmute::<usize, extern "C" fn()>(region.address(0))();
        }
        assert_eq!((FAULTS.load(SeqCst), REPAIRED.load(SeqCst)), (1, 1));
        if region.means() == Means::Userfaultfd {
            verify_papers::protect(region.address(0), libc::PROT_READ);
            // SAFETY: as above.
            unsafe { (region.address(0) as *mut u8).write_volatile(0) };
            assert_eq!((FAULTS.load(SeqCst), REPAIRED.load(SeqCst)), (1, 2));
        }
    }
    in_fresh_process(this_test!(), || {
        install_plainly(libc::SIGSEGV, repair, 0, &[]);
        check(region(Means::Protection));
        // SAFETY: `wait` yields and changes words.
        match unsafe { Region::map_by(Means::Userfaultfd, 1, wait) } {
            Ok(region) => check(region),
            Err(error) => println!("not tried: {error}"),
        }
    });
}

#[test]
fn one_page_is_a_matter_of_address_and_size() {
    assert!(is_on_one_page(0x1000, 4096) && is_on_one_page(0x1ff8, 8));
    assert!(!is_on_one_page(0x1ff8, 9) && !is_on_one_page(0x1000, 4097));
}
