//! Children that are made in the middle of a rollforward, by the handler of a fault that its clone
//! has: the signal for which the sequence is run to its end is the parent's, however the child
//! leaves the handler.
#![cfg(atomseq_sections)]

use std::sync::atomic::{AtomicI32, AtomicUsize, Ordering::SeqCst};

use atomseq::internals::signal_controls;
use atomseq::signal::{self, Event};
use verify_signals::add_to_three;
use verify_support::jump;
use verify_support::pages::Page;
use verify_support::processes::{self, code_of, in_fresh_process};
use verify_support::signals::{change_mask, install, is_blocked, kernel_mask, raise};
use verify_support::this_test;

const ONE: i32 = libc::SIGUSR1;

/// How the child is made.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Fork {
    Usual,
    /// As `_Fork`: no handlers of atomseq's run, in the child or before it.
    Raw,
}

/// How the child leaves the handler.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Leave {
    Return,
    Jump,
    /// By the C library's jump, after it has given the rollforward up.
    AbandonAndJump,
    AbandonAndReturn,
    /// As it must not: the next delivery gives the rollforward up.
    JumpOnly,
}

static PAGE: std::sync::OnceLock<Page> = std::sync::OnceLock::new();
static FAULTS: AtomicUsize = AtomicUsize::new(0);
static RUNS: AtomicUsize = AtomicUsize::new(0);
static HOW: std::sync::Mutex<(Fork, Leave)> = std::sync::Mutex::new((Fork::Usual, Leave::Return));
static CHILD: AtomicI32 = AtomicI32::new(-1);

fn count(_: &mut Event<'_>) {
    RUNS.fetch_add(1, SeqCst);
}

fn runs() -> usize {
    RUNS.load(SeqCst)
}

/// The sequence's first fault sends the signal, which arrives when this returns; at the second one,
/// the clone's, it forks.
fn on_segv(_: &mut Event<'_>) {
    if FAULTS.fetch_add(1, SeqCst) == 0 {
        change_mask(libc::SIG_BLOCK, &[ONE]);
        return raise(ONE);
    }
    PAGE.get().expect("made").release();
    let (fork, leave) = *HOW.try_lock().expect("nobody holds it");
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

/// The signal interrupts a sequence, whose clone's fault makes a child. Returns what the child has
/// run its handler for, when it has left the fault's.
fn runs_in_child(fork: Fork, leave: Leave) -> i32 {
    *HOW.lock().expect("nobody holds it") = (fork, leave);
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
        // What is the child's own comes.
        raise(ONE);
        let is_right = runs() == parents + 1 && !is_blocked(ONE) && kernel_mask() == before;
        // SAFETY: ends the child.
        unsafe { libc::_exit(if is_right { parents as i32 } else { 99 }) };
    }
    assert_eq!((runs(), kernel_mask()), (1, before), "the parent's");
    code_of(child)
}

/// qemu-user wipes no memory in children, so there a child of a raw fork is not told from its
/// parent.
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
