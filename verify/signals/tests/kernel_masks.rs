//! The kernel's mask while handlers run: the signals blocked by the interrupted code or by the
//! handler that passes the signal on, and those that the handler's installer asked for; beyond
//! these only managed signals.
#![cfg(atomseq_sections)]

use std::sync::atomic::{AtomicUsize, Ordering::SeqCst};

use atomseq::internals::signal_controls;
use atomseq::signal::{self, Event, Options};
use verify_signals::{log, logged};
use verify_support::processes::in_fresh_process;
use verify_support::signals::put_back;
use verify_support::signals::{
    Three, change_mask, holds, install, install_plainly, install_with, installed, is_blocked,
    kernel_mask, raise, set,
};
use verify_support::this_test;

const ONE: i32 = libc::SIGUSR1;
/// Managed as well.
const TWO: i32 = libc::SIGUSR2;
const ABORT: i32 = libc::SIGABRT;

/// Signals that are not managed. The bits of each one's index say which of the masks below contain
/// it.
const OTHERS: [i32; 16] = [
    libc::SIGHUP,
    libc::SIGINT,
    libc::SIGQUIT,
    libc::SIGPIPE,
    libc::SIGALRM,
    libc::SIGTERM,
    libc::SIGCHLD,
    libc::SIGTSTP,
    libc::SIGTTIN,
    libc::SIGTTOU,
    libc::SIGURG,
    libc::SIGXCPU,
    libc::SIGXFSZ,
    libc::SIGVTALRM,
    libc::SIGPROF,
    libc::SIGWINCH,
];

fn held_by(place: usize) -> Vec<i32> {
    let is_held = |&(index, _): &(usize, i32)| index >> place & 1 == 1;
    let held = OTHERS.into_iter().enumerate().filter(is_held);
    held.map(|(_, signal)| signal).collect()
}

fn of_thread() -> Vec<i32> {
    held_by(0)
}

/// Returns the mask of a thread that waits for a signal.
fn of_wait() -> Vec<i32> {
    held_by(1)
}

/// Returns the handler's `sa_mask`.
fn of_handler() -> Vec<i32> {
    held_by(2)
}

/// Returns the `sa_mask` of a handler that is installed over it.
fn of_handler_over() -> Vec<i32> {
    held_by(3)
}

fn bit(signal: i32) -> u64 {
    1 << (signal - 1)
}

/// The mask that the handler runs with.
static FOUND: AtomicUsize = AtomicUsize::new(0);

fn find(_: &mut Event<'_>) {
    FOUND.store(kernel_mask() as usize, SeqCst);
}

extern "C" fn find_plainly(_: i32, _: *mut libc::siginfo_t, _: *mut libc::c_void) {
    FOUND.store(kernel_mask() as usize, SeqCst);
}

/// The handler to which another one passes the signal on.
static BELOW: AtomicUsize = AtomicUsize::new(0);

extern "C" fn pass_on(signal: i32, info: *mut libc::siginfo_t, context: *mut libc::c_void) {
    // SAFETY: a handler of three arguments, called as the kernel would.
    let below: Three = unsafe { std::mem::transmute(BELOW.load(SeqCst)) };
    let before = kernel_mask();
    below(signal, info, context);
    assert_eq!(kernel_mask(), before, "it has its own mask again");
}

// Compilers may end a function with a tail call: the callee then finds the stack as the kernel left
// it.
#[cfg(target_arch = "x86_64")]
std::arch::global_asm!(
    ".globl verify_signals_jump_below",
    "verify_signals_jump_below:",
    "jmp qword ptr [rip + {below}]",
    below = sym BELOW,
);
#[cfg(target_arch = "aarch64")]
std::arch::global_asm!(
    ".globl verify_signals_jump_below",
    "verify_signals_jump_below:",
    "adrp x9, {below}",
    "ldr x9, [x9, :lo12:{below}]",
    "br x9",
    below = sym BELOW,
);

unsafe extern "C" {
    #[link_name = "verify_signals_jump_below"]
    safe fn jump_below(signal: i32, info: *mut libc::siginfo_t, context: *mut libc::c_void);
}

/// How the signal is delivered.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Way {
    Raised,
    Suspended,
    Polled,
    Selected,
}

const WAYS: [Way; 4] = [Way::Raised, Way::Suspended, Way::Polled, Way::Selected];

/// Delivers a signal; returns the mask that its handler observed.
fn send(signal: i32, way: Way) -> u64 {
    FOUND.store(usize::MAX, SeqCst);
    change_mask(libc::SIG_SETMASK, &of_thread());
    if way != Way::Raised {
        change_mask(libc::SIG_BLOCK, &[signal]);
    }
    raise(signal);
    let waiting = set(&of_wait());
    let (none, now) = (std::ptr::null_mut(), std::ptr::null());
    // SAFETY: an initialised set; there is nothing to wait for but a signal.
    unsafe {
        match way {
            Way::Raised => 0,
            Way::Suspended => libc::sigsuspend(&waiting),
            Way::Polled => libc::ppoll(std::ptr::null_mut(), 0, now, &waiting),
            Way::Selected => libc::pselect(0, none, none, none, now, &waiting),
        };
    }
    change_mask(libc::SIG_SETMASK, &[]);
    FOUND.load(SeqCst) as u64
}

/// What is installed over the handler.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Over {
    Nothing,
    Calls,
    Jumps,
}

fn install_over(over: Over) {
    let handler: Three = match over {
        Over::Nothing => return,
        Over::Calls => pass_on,
        Over::Jumps => jump_below,
    };
    BELOW.store(installed(ONE).sa_sigaction, SeqCst);
    install_plainly(ONE, handler, 0, &of_handler_over());
}

#[derive(Clone, Copy, Debug, PartialEq)]
enum Kind {
    Default,
    Nesting,
    NoDefer,
}

fn options(kind: Kind) -> Options {
    let options = of_handler()
        .into_iter()
        .fold(Options::new(), Options::blocking);
    match kind {
        Kind::Default => options,
        Kind::Nesting => options.nesting(),
        Kind::NoDefer => options.no_defer(),
    }
}

fn asked_for() -> u64 {
    of_handler().into_iter().map(bit).sum()
}

fn check(found: u64, right: u64, case: &dyn std::fmt::Debug) {
    assert_eq!(found, right, "{case:?}: {found:#x} is not {right:#x}");
}

/// In each case that matters, a signal arrives that would be blocked without atomseq.
#[test]
fn control_with_the_mask_of_the_context_signals_come_in() {
    in_fresh_process(this_test!(), || {
        // SAFETY: this test expects what follows.
        unsafe { signal_controls::set(signal_controls::FOUND_MASK) };
        for over in [Over::Nothing, Over::Calls, Over::Jumps] {
            install_plainly(ONE, find_plainly, 0, &of_handler());
            install_over(over);
            let plain = WAYS.map(|way| send(ONE, way));
            install_with(ONE, find, options(Kind::Default));
            install_over(over);
            for (way, plain) in WAYS.into_iter().zip(plain) {
                let comes_in = plain & !send(ONE, way) != 0;
                let is_right = (over, way) == (Over::Nothing, Way::Raised);
                assert_eq!(comes_in, !is_right, "{over:?}, {way:?}");
            }
        }
    });
}

/// The mask is as without atomseq, except for managed signals.
#[test]
fn a_handler_runs_with_the_mask_that_the_kernel_would_give_it() {
    in_fresh_process(this_test!(), || {
        for over in [Over::Nothing, Over::Calls, Over::Jumps] {
            install_plainly(ONE, find_plainly, 0, &of_handler());
            install_over(over);
            let plain = WAYS.map(|way| send(ONE, way));
            for kind in [Kind::Default, Kind::Nesting, Kind::NoDefer] {
                install(TWO, find);
                install_with(ONE, find, options(kind));
                install_over(over);
                let managed = match kind {
                    Kind::Default => bit(ONE) | bit(TWO),
                    Kind::Nesting => bit(ONE),
                    Kind::NoDefer => bit(TWO),
                };
                for (way, plain) in WAYS.into_iter().zip(plain) {
                    let right = plain & !bit(ONE) | asked_for() | managed;
                    check(send(ONE, way), right, &(over, kind, way));
                }
            }
        }
    });
}

/// The same for an adopted handler, which atomseq calls because its signal may not be deferred.
#[test]
fn an_adopted_handler_runs_with_the_mask_that_the_kernel_would_give_it() {
    in_fresh_process(this_test!(), || {
        install_plainly(ABORT, find_plainly, 0, &of_handler());
        let plain = WAYS.map(|way| send(ABORT, way));
        install(ONE, find);
        install(TWO, find);
        assert_ne!(
            installed(ABORT).sa_sigaction,
            find_plainly as *const () as usize
        );
        for (way, plain) in WAYS.into_iter().zip(plain) {
            check(send(ABORT, way), plain | bit(ONE) | bit(TWO), &way);
        }
    });
}

/// And for a handler below the entry of a removed one, which other code has restored.
#[test]
fn a_handler_below_a_removed_one_runs_with_the_mask_that_the_kernel_would_give_it() {
    in_fresh_process(this_test!(), || {
        for flags in [0, libc::SA_NODEFER] {
            install_plainly(ONE, find_plainly, flags, &of_handler());
            let plain = WAYS.map(|way| send(ONE, way));
            install(TWO, find);
            install(ONE, find);
            let ours = installed(ONE);
            signal::uninstall(ONE).expect("installed");
            put_back(ONE, &ours);
            for (way, plain) in WAYS.into_iter().zip(plain) {
                check(send(ONE, way), plain | bit(TWO), &(flags, way));
            }
            signal::uninstall(TWO).expect("installed");
        }
    });
}

/// A handler of others of a managed signal is made to block the managed signals and no others,
/// because it may wait for the others.
#[test]
fn a_handler_over_atomseq_s_is_made_to_block_managed_signals_only() {
    in_fresh_process(this_test!(), || {
        install(ONE, find);
        install(TWO, find);
        install_plainly(ONE, find_plainly, 0, &of_handler());
        signal::repair();
        check(
            send(ONE, Way::Raised),
            {
                let mine = bit(ONE) | bit(TWO);
                of_thread().into_iter().map(bit).sum::<u64>() | asked_for() | mine
            },
            &"repaired",
        );
    });
}

/// One signal inside a mask calls a handler of others, which does not block the signal itself. It
/// passes the signal on once.
#[test]
fn a_handler_without_defer_does_not_meet_again_what_waits_for_the_end_of_a_mask() {
    in_fresh_process(this_test!(), || {
        install(ONE, |_| log(1));
        BELOW.store(installed(ONE).sa_sigaction, SeqCst);
        extern "C" fn over(signal: i32, info: *mut libc::siginfo_t, context: *mut libc::c_void) {
            log(2);
            assert!(logged().len() < 8, "it meets the pending signal repeatedly");
            jump_below(signal, info, context);
            log(3);
        }
        install_plainly(ONE, over, libc::SA_NODEFER, &[]);
        let mask = signal::mask();
        raise(ONE);
        assert_eq!(logged(), [2, 3]);
        drop(mask);
        assert_eq!(logged(), [2, 3, 2, 1, 3]);
        assert!(!is_blocked(ONE));
    });
}

/// Once `TWO` is no longer managed, it is blocked only if the interrupted code blocks it.
#[test]
fn a_handler_lets_in_a_signal_that_is_managed_no_longer() {
    fn nothing(_: &mut Event<'_>) {}
    fn mask_in_handler() -> u64 {
        FOUND.store(usize::MAX, SeqCst);
        raise(ONE);
        FOUND.load(SeqCst) as u64
    }
    fn check_removed(case: &dyn std::fmt::Debug) {
        assert!(!signal::is_managed(TWO), "{case:?}");
        assert_eq!(mask_in_handler() & bit(TWO), 0, "{case:?}");
        change_mask(libc::SIG_BLOCK, &[TWO]);
        assert_ne!(mask_in_handler() & bit(TWO), 0, "{case:?}");
        change_mask(libc::SIG_UNBLOCK, &[TWO]);
    }
    in_fresh_process(this_test!(), || {
        for options in [
            Options::new(),
            Options::new().nesting(),
            Options::new().no_defer(),
        ] {
            install(TWO, nothing);
            install_with(ONE, find, options);
            assert!(holds(&installed(ONE).sa_mask, TWO));
            signal::uninstall(TWO).expect("installed");
            check_removed(&("uninstalled", options));
            install_with(TWO, nothing, Options::new().once());
            raise(TWO);
            check_removed(&("used up", options));
            assert!(signal::repair().is_clean());
            check_removed(&("repaired", options));
            // An entry whose mask does not include the signal.
            install_with(ONE, find, options);
            check_removed(&("installed again", options));
        }
    });
}
