//! Forks among threads that change handlers, forks in the middle of other forks, and the effect of
//! a fork on the signal mask.
#![cfg(atomseq_sections)]

use std::sync::atomic::Ordering::SeqCst;
use std::sync::atomic::{AtomicBool, AtomicI32, AtomicU64, AtomicUsize};
use std::thread;
use std::time::Duration;

use atomseq::internals::signal_controls;
use atomseq::signal::{self, Event, mask};
use verify_signals::add_to_three;
use verify_support::pages::Page;
use verify_support::processes::{
    self, code_of, code_of_child, code_of_child_of, fork, in_child, in_fresh_process, raw_fork,
};
use verify_support::signals::{change_mask, install, is_blocked, kernel_mask, raise};
use verify_support::{jump, this_test};

const ONE: i32 = libc::SIGUSR1;
const TWO: i32 = libc::SIGUSR2;

static RUNS: AtomicUsize = AtomicUsize::new(0);

fn count(_: &mut Event<'_>) {
    RUNS.fetch_add(1, SeqCst);
}

fn runs() -> usize {
    RUNS.load(SeqCst)
}

fn await_flag(flag: &AtomicBool) {
    while !flag.load(SeqCst) {
        thread::sleep(Duration::from_millis(1));
    }
}

/// Registers atfork handlers as a program would.
fn at_fork(handlers: [Option<unsafe extern "C" fn()>; 3]) {
    let [prepare, parent, child] = handlers;
    // SAFETY: functions that live as long as the process.
    let registered = unsafe { libc::pthread_atfork(prepare, parent, child) };
    assert_eq!(registered, 0);
}

/// Leaves a kept signal to the end of the next mask: the handler of an earlier signal jumps.
fn keep_one() {
    fn leave(_: &mut Event<'_>) {
        // SAFETY: called inside `with_target`, with frames between that have nothing to drop. (The
        // library's own jump would leave nothing.)
        unsafe { jump::back() };
    }
    extern "C" fn body() {
        let guard = mask();
        raise(libc::SIGTSTP);
        // The second signal was not blocked together with the first: the thread keeps it, too.
        install(libc::SIGTTOU, count);
        raise(libc::SIGTTOU);
        drop(guard);
    }
    install(libc::SIGTSTP, leave);
    jump::with_target(body);
    assert_eq!((runs(), signal::statistics().kept), (0, 2));
}

/// Ends a mask in which nothing was deferred. Returns whether the signals that the program has
/// blocked stay blocked.
fn an_empty_mask_unblocks_nothing() -> bool {
    change_mask(libc::SIG_BLOCK, &[ONE]);
    drop(mask());
    is_blocked(ONE)
}

/// The child of each `fork` handles a signal and then has none of the signals that its parent
/// keeps.
fn a_child_forgets_what_is_kept(forks: &[fn() -> i32]) {
    install(ONE, count);
    install(TWO, |_| ());
    keep_one();
    for fork in forks {
        let code = code_of_child_of(fork, || {
            raise(TWO);
            i32::from(!an_empty_mask_unblocks_nothing() || runs() != 0)
        });
        assert_eq!(code, 0);
    }
    assert!(an_empty_mask_unblocks_nothing());
    assert_eq!(runs(), 1, "only the parent handles its signal");
}

#[test]
fn the_next_mask_of_a_child_has_nothing_to_unblock() {
    in_fresh_process(this_test!(), || a_child_forgets_what_is_kept(&[fork]));
}

/// qemu-user does not wipe memory in children.
#[cfg(target_arch = "x86_64")]
#[test]
fn the_next_mask_of_a_child_without_fork_handlers_has_nothing_to_unblock() {
    in_fresh_process(this_test!(), || a_child_forgets_what_is_kept(&[raw_fork]));
}

#[test]
fn control_a_child_that_forgets_nothing_handles_what_its_parent_keeps() {
    in_fresh_process(this_test!(), || {
        // SAFETY: this test expects what follows.
        unsafe { signal_controls::set(signal_controls::FORK) };
        install(ONE, count);
        keep_one();
        in_child(|| {
            an_empty_mask_unblocks_nothing();
            assert_eq!(runs(), 1);
        });
    });
}

/// A change that one of the program's atfork handlers makes to the mask.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Change {
    Nothing,
    /// Unblocks a signal that the program had blocked before the fork.
    Unblock,
    /// Blocks a fault's signal, which atomseq leaves open.
    BlockFault,
    /// Unblocks a fault's signal that was blocked before.
    UnblockFault,
    /// Blocks and unblocks a signal that was unblocked before.
    BlockAndUnblock,
}

const CHANGES: [Change; 5] = [
    Change::Nothing,
    Change::Unblock,
    Change::BlockFault,
    Change::UnblockFault,
    Change::BlockAndUnblock,
];

/// Prepare, parent and child, of handlers registered before atomseq's; then of handlers registered
/// after.
const PLACES: usize = 6;
static PLACE: AtomicUsize = AtomicUsize::new(0);
static CHANGE: AtomicUsize = AtomicUsize::new(0);

unsafe extern "C" fn at<const PLACE_OF_THIS: usize>() {
    if PLACE.load(SeqCst) == PLACE_OF_THIS {
        CHANGES[CHANGE.load(SeqCst)].make();
    }
}

impl Change {
    fn make(self) {
        let (block, unblock) = (libc::SIG_BLOCK, libc::SIG_UNBLOCK);
        match self {
            Change::Nothing => {}
            Change::Unblock => _ = change_mask(unblock, &[libc::SIGTERM]),
            Change::BlockFault => _ = change_mask(block, &[libc::SIGSEGV]),
            Change::UnblockFault => _ = change_mask(unblock, &[libc::SIGBUS]),
            Change::BlockAndUnblock => {
                change_mask(block, &[libc::SIGWINCH]);
                change_mask(unblock, &[libc::SIGWINCH]);
            }
        }
    }

    /// Returns which of `WATCHED` are blocked after the change, or without it.
    fn expected(self, is_made: bool) -> i32 {
        match self {
            Change::Unblock if is_made => 0b0100,
            Change::BlockFault if is_made => 0b0111,
            Change::UnblockFault if is_made => 0b0001,
            _ => 0b0101,
        }
    }
}

const WATCHED: [i32; 5] = [
    libc::SIGTERM,
    libc::SIGSEGV,
    libc::SIGBUS,
    libc::SIGWINCH,
    ONE,
];

fn blocked() -> i32 {
    let bits = (0..).zip(WATCHED);
    bits.fold(0, |set, (bit, signal)| {
        set | i32::from(is_blocked(signal)) << bit
    })
}

/// Thirty forks: each change in each place has the effect that it would have without atomseq.
#[test]
fn what_atfork_handlers_change_in_the_mask_stays_changed() {
    in_fresh_process(this_test!(), || {
        at_fork([Some(at::<0>), Some(at::<1>), Some(at::<2>)]);
        install(ONE, count);
        at_fork([Some(at::<3>), Some(at::<4>), Some(at::<5>)]);
        for place in 0..PLACES {
            for (number, change) in CHANGES.into_iter().enumerate() {
                change_mask(libc::SIG_SETMASK, &[libc::SIGTERM, libc::SIGBUS]);
                PLACE.store(place, SeqCst);
                CHANGE.store(number, SeqCst);
                let child = code_of_child(blocked);
                let [of_parent, of_child] = [place % 3 != 2, place % 3 != 1];
                assert_eq!(child, change.expected(of_child), "{change:?}, {place}");
                assert_eq!(
                    blocked(),
                    change.expected(of_parent),
                    "{change:?}, {place}, parent"
                );
            }
        }
    });
}

/// The program forks in all of its atfork handlers, older and newer than atomseq's. Afterwards each
/// process and its children have the mask that they had before.
#[test]
fn forks_inside_forks_leave_the_mask_as_it_was() {
    static LEFT: AtomicI32 = AtomicI32::new(0);
    unsafe extern "C" fn nested() {
        if LEFT.load(SeqCst) > 0 {
            LEFT.fetch_sub(1, SeqCst);
            // Both processes continue the fork that they are inside of.
            let child = fork();
            assert!(child >= 0);
            if child > 0 {
                assert_eq!(code_of(child), 0);
            }
        }
    }
    in_fresh_process(this_test!(), || {
        let nested = Some(nested as unsafe extern "C" fn());
        at_fork([nested; 3]);
        install(ONE, count);
        at_fork([nested; 3]);
        change_mask(libc::SIG_BLOCK, &[libc::SIGTERM]);
        let (before, own) = (blocked(), std::process::id());
        for forks in 1..=4 {
            LEFT.store(forks, SeqCst);
            let child = fork();
            assert!(child >= 0);
            LEFT.store(0, SeqCst);
            let is_same = blocked() == before && signal::repair().is_clean();
            if child > 0 {
                assert_eq!(code_of(child), 0);
            }
            if std::process::id() != own {
                // SAFETY: ends a child.
                unsafe { libc::_exit(i32::from(!is_same)) };
            }
            assert!(is_same);
        }
    });
}

/// A fork copies glibc's lock of the loaded objects in whatever state it is.
#[test]
fn a_child_audits_whatever_another_thread_was_doing() {
    in_fresh_process(this_test!(), || {
        static DONE: AtomicBool = AtomicBool::new(false);
        install(ONE, count);
        let auditor = thread::spawn(|| {
            while !DONE.load(SeqCst) {
                signal::audit();
            }
        });
        for _ in 0..50 {
            in_child(|| _ = signal::audit());
        }
        DONE.store(true, SeqCst);
        auditor.join().expect("the thread returns");
    });
}

/// Older atfork handlers run with the program's own mask: threads that they start inherit it.
#[test]
fn older_atfork_handlers_find_the_mask_as_it_is() {
    static SEEN: [AtomicU64; 3] = [const { AtomicU64::new(0) }; 3];
    unsafe extern "C" fn see<const N: usize>() {
        SEEN[N].store(kernel_mask(), SeqCst);
    }
    in_fresh_process(this_test!(), || {
        at_fork([Some(see::<0>), Some(see::<1>), Some(see::<2>)]);
        install(ONE, count);
        change_mask(libc::SIG_BLOCK, &[libc::SIGTERM]);
        let before = kernel_mask();
        let is_as_before = |number: usize| SEEN[number].load(SeqCst) == before;
        assert_eq!(code_of_child(|| i32::from(!is_as_before(2))), 0);
        assert!(is_as_before(0) && is_as_before(1), "{SEEN:x?}, {before:x}");
    });
}

/// An older atfork handler waits for a thread that audits, for example for a lock that it holds.
#[test]
fn an_audit_does_not_wait_for_a_fork_that_waits_for_it() {
    static INSIDE: AtomicBool = AtomicBool::new(false);
    static AUDITED: AtomicBool = AtomicBool::new(false);
    unsafe extern "C" fn prepare() {
        INSIDE.store(true, SeqCst);
        await_flag(&AUDITED);
    }
    in_fresh_process(this_test!(), || {
        at_fork([Some(prepare), None, None]);
        install(ONE, count);
        let forker = thread::spawn(|| in_child(|| ()));
        await_flag(&INSIDE);
        assert!(signal::audit().is_clean());
        AUDITED.store(true, SeqCst);
        forker.join().expect("the thread returns");
    });
}

/// A thread is stopped in a fork. Another thread forks a child that has no part in it. (qemu-user
/// does not wipe memory in children.)
#[cfg(target_arch = "x86_64")]
#[test]
fn a_child_without_fork_handlers_does_not_wait_for_a_fork_of_its_parent_s() {
    static INSIDE: AtomicBool = AtomicBool::new(false);
    static DONE: AtomicBool = AtomicBool::new(false);
    unsafe extern "C" fn prepare() {
        INSIDE.store(true, SeqCst);
        await_flag(&DONE);
    }
    in_fresh_process(this_test!(), || {
        // Registered first, it runs after atomseq's.
        at_fork([Some(prepare), None, None]);
        install(ONE, count);
        let forker = thread::spawn(|| in_child(|| ()));
        await_flag(&INSIDE);
        let code = code_of_child_of(raw_fork, || {
            install(TWO, count);
            signal::uninstall(TWO).expect("installed");
            // Threads of the child can acquire the lock as well.
            let audits =
                [(); 2].map(|()| thread::spawn(|| (0..10).for_each(|_| _ = signal::audit())));
            audits
                .into_iter()
                .for_each(|it| it.join().expect("the thread returns"));
            i32::from(!signal::repair().is_clean())
        });
        assert_eq!(code, 0);
        DONE.store(true, SeqCst);
        forker.join().expect("the thread returns");
    });
}

// Children forked in the middle of a rollforward, by the handler of a fault in its clone. The
// signal that the rollforward serves is the parent's, however the child leaves the handler.

/// How the child is made.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Fork {
    Usual,
    /// As `_Fork`: no atfork handlers of atomseq run, neither before it nor in the child.
    Raw,
}

/// How the child leaves the fault's handler.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Leave {
    Return,
    Jump,
    /// By the C library's jump, after it has abandoned the rollforward.
    AbandonAndJump,
    AbandonAndReturn,
    /// A wrong use: the next delivery abandons the rollforward.
    JumpOnly,
}

static PAGE: std::sync::OnceLock<Page> = std::sync::OnceLock::new();
static FAULTS: AtomicUsize = AtomicUsize::new(0);
static HOW: std::sync::Mutex<(Fork, Leave)> = std::sync::Mutex::new((Fork::Usual, Leave::Return));
static CHILD: AtomicI32 = AtomicI32::new(-1);

/// The first fault is in the sequence: sends the signal, which arrives when this handler returns.
/// The second is in the clone: forks.
fn on_segv(_: &mut Event<'_>) {
    if FAULTS.fetch_add(1, SeqCst) == 0 {
        change_mask(libc::SIG_BLOCK, &[ONE]);
        return raise(ONE);
    }
    PAGE.get().expect("made").release();
    let (fork, leave) = *HOW.try_lock().expect("the lock is free");
    let child = match fork {
        Fork::Usual => processes::fork(),
        Fork::Raw => processes::raw_fork(),
    };
    CHILD.store(child, SeqCst);
    if child != 0 {
        return;
    }
    if matches!(leave, Leave::AbandonAndJump | Leave::AbandonAndReturn) {
        assert!(signal::abandon_rollforward());
    }
    // SAFETY: `with_target` runs, and nothing in between has anything to drop.
    unsafe {
        match leave {
            Leave::Return | Leave::AbandonAndReturn => {}
            Leave::Jump => signal::siglongjmp(jump::environment(), 1),
            Leave::AbandonAndJump | Leave::JumpOnly => jump::back(),
        }
    }
}

extern "C" fn interrupted_sequence() {
    let words = PAGE.get().expect("made").words(1);
    // SAFETY: three words of the test's.
    unsafe { add_to_three::rolling(words as usize, 99) };
}

/// The signal interrupts a sequence, and a fault of its clone forks a child. Returns how often the
/// child ran the signal's handler until it had left the fault's handler.
fn runs_in_child(fork: Fork, leave: Leave) -> i32 {
    *HOW.lock().expect("the lock is free") = (fork, leave);
    install(libc::SIGSEGV, on_segv);
    install(ONE, count);
    FAULTS.store(0, SeqCst);
    RUNS.store(0, SeqCst);
    let page = PAGE.get_or_init(Page::new);
    page.interrupt(0);
    let before = kernel_mask();
    jump::with_target(interrupted_sequence);
    let child = CHILD.load(SeqCst);
    if child == 0 {
        let parents = runs();
        // The child's own signal arrives.
        raise(ONE);
        let is_right = runs() == parents + 1 && !is_blocked(ONE) && kernel_mask() == before;
        // SAFETY: ends the child.
        unsafe { libc::_exit(if is_right { parents as i32 } else { 99 }) };
    }
    assert_eq!(
        (runs(), kernel_mask()),
        (1, before),
        "the parent handles its signal once"
    );
    code_of(child)
}

/// qemu-user does not wipe memory in children, so a child of a raw fork cannot be distinguished
/// from its parent there.
fn forks() -> &'static [Fork] {
    match cfg!(target_arch = "x86_64") {
        true => &[Fork::Usual, Fork::Raw],
        false => &[Fork::Usual],
    }
}

#[test]
fn a_child_does_not_handle_the_signal_that_interrupted_its_parent_s_sequence() {
    in_fresh_process(this_test!(), || {
        for &fork in forks() {
            for leave in [
                Leave::Return,
                Leave::Jump,
                Leave::AbandonAndJump,
                Leave::AbandonAndReturn,
                Leave::JumpOnly,
            ] {
                assert_eq!(runs_in_child(fork, leave), 0, "{fork:?}, {leave:?}");
            }
        }
    });
}

#[test]
fn control_a_child_that_is_not_told_from_its_parent_does() {
    in_fresh_process(this_test!(), || {
        // SAFETY: this test expects what follows.
        unsafe { signal_controls::set(signal_controls::FORK) };
        for leave in [Leave::Return, Leave::Jump] {
            assert_eq!(runs_in_child(Fork::Usual, leave), 1, "{leave:?}");
        }
    });
}
