//! Masks and deferred signals across fork, exec and the start of other programs.
#![cfg(atomseq_sections)]

use std::process::Command;
use std::sync::atomic::{AtomicI32, AtomicUsize, Ordering::SeqCst};

use atomseq::internals::signal_controls;
use atomseq::signal::{self, Event, mask};
#[cfg(target_arch = "x86_64")]
use verify_support::processes::raw_fork;
use verify_support::processes::{code_of, in_child, in_fresh_process};
use verify_support::signals::{
    change_mask, holds, install, install_plainly, is_blocked, is_pending, raise,
};
use verify_support::this_test;

const ONE: i32 = libc::SIGUSR1;

static RUNS: AtomicUsize = AtomicUsize::new(0);

fn count(_: &mut Event<'_>) {
    RUNS.fetch_add(1, SeqCst);
}

fn runs() -> usize {
    RUNS.load(SeqCst)
}

/// Prints the signals with which `grep` was started blocked, from its own status.
const SHOW_BLOCKED: [&str; 3] = ["grep", "SigBlk", "/proc/self/status"];

fn blocked_in(output: &[u8]) -> u64 {
    let text = String::from_utf8_lossy(output);
    let digits = text.rsplit('\t').next().unwrap_or_default().trim();
    u64::from_str_radix(digits, 16).unwrap_or_else(|_| panic!("{text}"))
}

fn bit(signal: i32) -> u64 {
    1 << (signal - 1)
}

#[test]
fn a_child_is_inside_the_mask_without_its_parent_s_waiting_signals() {
    in_fresh_process(this_test!(), || {
        install(ONE, count);
        let guard = mask();
        raise(ONE);
        in_child(|| {
            assert!(signal::is_masked());
            assert!(!is_pending(ONE) && !is_blocked(ONE));
            raise(ONE);
            assert_eq!(runs(), 0, "the child's mask defers it too");
            drop(guard);
            assert_eq!(runs(), 1);
            assert!(!is_blocked(ONE));
        });
        // The closure, which only the child ran, dropped the parent's guard.
        assert_eq!(runs(), 1);
    });
}

/// qemu-user does not wipe memory in children.
#[cfg(target_arch = "x86_64")]
#[test]
fn a_child_without_fork_handlers_has_none_of_its_parent_s_kept_signals() {
    in_fresh_process(this_test!(), || {
        install(libc::SIGTSTP, count);
        let guard = mask();
        raise(libc::SIGTSTP);
        assert_eq!(signal::statistics().kept, 1);
        let child = raw_fork();
        if child == 0 {
            drop(guard);
            let is_right = runs() == 0 && !signal::is_masked() && !is_blocked(libc::SIGTSTP);
            // SAFETY: ends the child.
            unsafe { libc::_exit(i32::from(!is_right)) };
        }
        assert_eq!(code_of(child), 0);
        drop(guard);
        assert_eq!(runs(), 1);
        assert!(!is_blocked(libc::SIGTSTP) && !signal::is_masked());
    });
}

/// A crash reporter that forks.
fn fork_in_handler(_: &mut Event<'_>) {
    in_child(|| ());
    RUNS.fetch_add(1, SeqCst);
}

#[test]
fn a_handler_that_no_mask_holds_back_may_fork_in_the_middle_of_a_fork() {
    in_fresh_process(this_test!(), || {
        static ARMED: AtomicUsize = AtomicUsize::new(0);
        unsafe extern "C" fn prepare() {
            if ARMED.swap(0, SeqCst) == 1 {
                raise(libc::SIGABRT);
            }
        }
        // Registered first, it runs after atomseq's.
        // SAFETY: a function that lives as long as the process.
        let registered = unsafe { libc::pthread_atfork(Some(prepare), None, None) };
        assert_eq!(registered, 0);
        install(libc::SIGABRT, fork_in_handler);
        ARMED.store(1, SeqCst);
        in_child(|| ());
        assert_eq!(runs(), 1);
    });
}

#[test]
fn a_handler_that_no_mask_holds_back_may_fork_in_the_middle_of_an_audit() {
    in_fresh_process(this_test!(), || {
        const FORKS: usize = 100;
        install(ONE, count);
        install(libc::SIGABRT, fork_in_handler);
        // SAFETY: asks only.
        let (process, thread) = unsafe { (libc::getpid(), libc::gettid()) };
        let sender = std::thread::spawn(move || {
            for fork in 0..FORKS {
                // SAFETY: a signal for the thread that waits for this one.
                unsafe { libc::syscall(libc::SYS_tgkill, process, thread, libc::SIGABRT) };
                while runs() == fork {
                    std::thread::yield_now();
                }
            }
        });
        while runs() < FORKS {
            signal::audit();
        }
        sender.join().expect("the thread returns");
    });
}

/// The context of a handler of others contains the signals that the interrupted mask has blocked,
/// so the child resumes with them.
#[test]
fn a_child_of_a_handler_of_others_has_nothing_blocked_after_the_mask() {
    in_fresh_process(this_test!(), || {
        static CHILD: AtomicI32 = AtomicI32::new(-1);
        extern "C" fn fork(_: i32, _: *mut libc::siginfo_t, _: *mut libc::c_void) {
            // SAFETY: the child runs on as this process would.
            CHILD.store(unsafe { libc::fork() }, SeqCst);
        }
        install_plainly(libc::SIGALRM, fork, 0, &[]);
        install(ONE, count);
        let guard = mask();
        raise(ONE);
        raise(libc::SIGALRM);
        let child = CHILD.load(SeqCst);
        drop(guard);
        // The deferred signal is the parent's.
        let of_mask = usize::from(child != 0);
        let is_unblocked = !is_blocked(ONE) && runs() == of_mask;
        raise(ONE);
        let is_right = is_unblocked && runs() == of_mask + 1;
        if child == 0 {
            // SAFETY: ends the child.
            unsafe { libc::_exit(if is_right { 0 } else { 1 }) };
        }
        assert!(is_right);
        assert_eq!(code_of(child), 0);
    });
}

#[test]
fn the_parent_s_signals_go_on_waiting() {
    in_fresh_process(this_test!(), || {
        install(ONE, count);
        let guard = mask();
        raise(ONE);
        in_child(|| ());
        assert_eq!(runs(), 0);
        drop(guard);
        assert_eq!(runs(), 1);
    });
}

#[test]
fn control_without_the_fork_s_handler_the_child_has_them_blocked() {
    in_fresh_process(this_test!(), || {
        // SAFETY: this test expects what follows.
        unsafe { signal_controls::set(signal_controls::FORK) };
        install(ONE, count);
        let _guard = mask();
        raise(ONE);
        in_child(|| assert!(is_blocked(ONE)));
    });
}

#[test]
fn a_program_started_by_a_forked_child_has_nothing_blocked() {
    in_fresh_process(this_test!(), || {
        install(ONE, count);
        let _guard = mask();
        raise(ONE);
        let mut pipe = [0; 2];
        // SAFETY: two places for descriptors.
        assert_eq!(unsafe { libc::pipe(pipe.as_mut_ptr()) }, 0);
        // SAFETY: the child only calls dup2 and execvp.
        let child = unsafe { libc::fork() };
        if child == 0 {
            // SAFETY: valid descriptors, and texts that end in zero.
            unsafe {
                libc::dup2(pipe[1], 1);
                let arguments = [
                    c"grep".as_ptr(),
                    c"SigBlk".as_ptr(),
                    c"/proc/self/status".as_ptr(),
                    std::ptr::null(),
                ];
                libc::execvp(arguments[0], arguments.as_ptr());
                libc::_exit(1);
            }
        }
        let mut text = [0u8; 128];
        // SAFETY: a valid descriptor and a buffer.
        let length = unsafe { libc::read(pipe[0], text.as_mut_ptr().cast(), text.len()) };
        assert_eq!(blocked_in(&text[..length as usize]), 0);
    });
}

#[test]
fn commands_inside_a_mask_start_with_the_program_s_own_mask() {
    in_fresh_process(this_test!(), || {
        install(ONE, count);
        change_mask(libc::SIG_BLOCK, &[libc::SIGWINCH]);
        let guard = mask();
        raise(ONE);
        let command = || {
            let [program, arguments @ ..] = SHOW_BLOCKED;
            let mut command = Command::new(program);
            command.args(arguments);
            command
        };
        let given = signal::give_own_mask(&mut command())
            .output()
            .expect("grep");
        assert_eq!(blocked_in(&given.stdout), bit(libc::SIGWINCH));
        let plain = command().output().expect("grep");
        assert_eq!(
            blocked_in(&plain.stdout),
            bit(libc::SIGWINCH) | bit(ONE),
            "the control"
        );
        assert!(is_pending(ONE));
        drop(guard);
        assert_eq!(runs(), 1);
    });
}

/// Starts `grep` by `posix_spawn`; `give_mask` says whether it gets the program's own mask.
fn spawn(give_mask: bool) -> u64 {
    let mut pipe = [0; 2];
    // SAFETY: two places for descriptors.
    assert_eq!(unsafe { libc::pipe(pipe.as_mut_ptr()) }, 0);
    // SAFETY: attributes and actions are initialised before they are used; texts end in zero.
    unsafe {
        let mut attributes = std::mem::zeroed();
        libc::posix_spawnattr_init(&mut attributes);
        if give_mask {
            libc::posix_spawnattr_setsigmask(&mut attributes, &signal::own_mask());
            libc::posix_spawnattr_setflags(&mut attributes, libc::POSIX_SPAWN_SETSIGMASK as i16);
        }
        let mut actions = std::mem::zeroed();
        libc::posix_spawn_file_actions_init(&mut actions);
        libc::posix_spawn_file_actions_adddup2(&mut actions, pipe[1], 1);
        let arguments = [
            c"grep".as_ptr().cast_mut(),
            c"SigBlk".as_ptr().cast_mut(),
            c"/proc/self/status".as_ptr().cast_mut(),
            std::ptr::null_mut(),
        ];
        let mut child = 0;
        let result = libc::posix_spawnp(
            &mut child,
            arguments[0],
            &actions,
            &attributes,
            arguments.as_ptr(),
            [std::ptr::null_mut()].as_ptr(),
        );
        assert_eq!(result, 0);
        let mut text = [0u8; 128];
        let length = libc::read(pipe[0], text.as_mut_ptr().cast(), text.len());
        libc::waitpid(child, std::ptr::null_mut(), 0);
        blocked_in(&text[..length as usize])
    }
}

#[test]
fn a_spawned_program_gets_the_program_s_own_mask() {
    in_fresh_process(this_test!(), || {
        install(ONE, count);
        change_mask(libc::SIG_BLOCK, &[libc::SIGWINCH]);
        let guard = mask();
        assert_eq!(spawn(false), bit(libc::SIGWINCH), "nothing is deferred yet");
        raise(ONE);
        assert!(holds(&signal::own_mask(), libc::SIGWINCH) && !holds(&signal::own_mask(), ONE));
        assert_eq!(spawn(true), bit(libc::SIGWINCH));
        assert_eq!(spawn(false), bit(libc::SIGWINCH) | bit(ONE), "the control");
        drop(guard);
        assert_eq!(runs(), 1);
    });
}

#[test]
fn a_program_that_takes_this_one_s_place_after_the_mask_has_nothing_blocked() {
    in_fresh_process(this_test!(), || {
        install(ONE, count);
        let guard = mask();
        raise(ONE);
        let inside = in_child_output(|| ());
        drop(guard);
        assert_eq!((inside, in_child_output(|| ())), (0, 0));
        // Inside a mask that has deferred a signal, the signal would be blocked: this is why the
        // mask must be left first.
        let blocked = in_child_output(|| {
            std::mem::forget(mask());
            raise(ONE);
        });
        assert_eq!(blocked, bit(ONE));
    });
}

/// Forks, runs `before` in the child, and executes `grep` there.
fn in_child_output(before: impl FnOnce()) -> u64 {
    let mut pipe = [0; 2];
    // SAFETY: two places for descriptors.
    assert_eq!(unsafe { libc::pipe(pipe.as_mut_ptr()) }, 0);
    // SAFETY: the child does what the test wants, then becomes another program.
    let child = unsafe { libc::fork() };
    if child == 0 {
        before();
        let arguments = SHOW_BLOCKED.map(|text| std::ffi::CString::new(text).expect("a text"));
        let mut pointers: Vec<_> = arguments.iter().map(|text| text.as_ptr()).collect();
        pointers.push(std::ptr::null());
        // SAFETY: valid descriptors, and texts that end in zero.
        unsafe {
            libc::dup2(pipe[1], 1);
            libc::execvp(pointers[0], pointers.as_ptr());
            libc::_exit(1);
        }
    }
    let mut text = [0u8; 128];
    // SAFETY: a valid descriptor and a buffer; a child of this process.
    let length = unsafe {
        let length = libc::read(pipe[0], text.as_mut_ptr().cast(), text.len());
        libc::waitpid(child, std::ptr::null_mut(), 0);
        length
    };
    blocked_in(&text[..length as usize])
}
